// What computations keep and give back; never leaves the room.
#pragma once

#include <cstdint>
#include <vector>

#include "schedule/schedule.h"
#include "simulate/costs.h"

namespace weft::simulate {

class Activations {
 public:
  Activations(const schedule::Schedule& schedule, const Costs& costs);

  // What is held more from an action's begin, and less from its end.
  [[nodiscard]] double taken(const schedule::Action& action) const;
  [[nodiscard]] double returned(const schedule::Action& action) const;

 private:
  enum Use : uint8_t { kBackward = 1, kWeight = 2, kRecompute = 4 };
  [[nodiscard]] bool uses(const schedule::Action& action, Use use) const {
    return (uses_[static_cast<size_t>(action.stage)] & use) != 0;
  }

  const Costs& costs_;
  std::vector<uint8_t> uses_;  // by stage: which computations of it the schedule has
};

}  // namespace weft::simulate
