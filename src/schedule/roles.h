// Which pipeline role keeps which parameters.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/description.h"
#include "schedule/schedule.h"

namespace weft::schedule {

// By bucket (model/buckets.h). The role of the first stage that uses a bucket owns it. Other roles whose stages use it
// too (a tied head) borrow it: they hold a copy, return their gradient to the owner before the norm, and get the new
// values behind the step.
struct BucketRoles {
  std::vector<int32_t> owner;
  std::vector<std::vector<int32_t>> borrowers;  // ascending
  [[nodiscard]] bool holds(int32_t role, int bucket) const;
};

[[nodiscard]] BucketRoles bucket_roles(const model::ModelDescription& model, std::span<const Stage> stages);

}  // namespace weft::schedule
