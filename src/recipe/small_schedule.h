// A schedule read from text, for the tests of this room.
#pragma once

#include <string>

#include "config/toml.h"
#include "recipe/timetable.h"

namespace weft::recipe {

struct Schedule : config::Node {
  Phases phases;
  config::Slot<OptimizerNode> optimizer = AdamW();
  WEFT_NODE(Schedule, "schedule")
  void fields(config::FieldList& list) override {
    list.add("phases", phases, config::Hint::kCore, "phases");
    list.add("optimizer", optimizer, config::Hint::kCore, "optimizer");
  }
};

inline Schedule read(const std::string& text) {
  Schedule schedule;
  config::Origins origins;
  config::apply(config::parse_toml(text, "s.toml"), schedule, origins);
  return schedule;
}

// With train.global_batch = 4, data.context = 8 and two sources of weights 3 and 1.
inline Timetable timetable(const Schedule& schedule) {
  return {schedule.phases,
          {.global_batch = 4, .context = 8, .weights = {3, 1}, .sources = 2, .optimizer = schedule.optimizer.get()}};
}

}  // namespace weft::recipe
