#include "schedule/roles.h"

#include <algorithm>

#include "model/buckets.h"

namespace weft::schedule {

bool BucketRoles::holds(int32_t role, int bucket) const {
  const auto index = static_cast<size_t>(bucket);
  return owner[index] == role || std::ranges::find(borrowers[index], role) != borrowers[index].end();
}

BucketRoles bucket_roles(const model::ModelDescription& model, std::span<const Stage> stages) {
  const model::ParameterBuckets buckets = model::parameter_buckets(model);
  constexpr int32_t kUnused = -1;
  BucketRoles roles;
  roles.owner.assign(static_cast<size_t>(buckets.count), kUnused);
  roles.borrowers.resize(roles.owner.size());
  for (const Stage& stage : stages) {
    for (int32_t segment = stage.first_segment; segment < stage.first_segment + stage.segment_count; ++segment) {
      for (const int bucket : buckets.of_segment[static_cast<size_t>(segment)]) {
        int32_t& owner = roles.owner[static_cast<size_t>(bucket)];
        if (owner == kUnused) owner = stage.role;
        if (!roles.holds(stage.role, bucket)) roles.borrowers[static_cast<size_t>(bucket)].push_back(stage.role);
      }
    }
  }
  std::ranges::replace(roles.owner, kUnused, 0);  // without parameters
  for (std::vector<int32_t>& borrowers : roles.borrowers) std::ranges::sort(borrowers);
  return roles;
}

}  // namespace weft::schedule
