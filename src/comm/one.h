// A group of one rank: every call is a copy or nothing.
#pragma once

#include "comm/communicator.h"

namespace weft::comm {

// `rank` is the member's rank in the world.
[[nodiscard]] std::unique_ptr<Communicator> make_group_of_one(const std::string& name, int rank);

// The world of a plain run.
class OneWorld : public World {
 public:
  [[nodiscard]] int rank() const override { return 0; }
  [[nodiscard]] int size() const override { return 1; }
  std::unique_ptr<Communicator> make_group(std::span<const int> ranks, const std::string& name) override;
  void abort(const std::string& /*reason*/) override {}  // nobody to free
};

}  // namespace weft::comm
