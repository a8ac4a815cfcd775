#include "model/buckets.h"

#include <algorithm>

namespace weft::model {

ParameterBuckets parameter_buckets(const ModelDescription& model) {
  constexpr int kUnused = -1;
  ParameterBuckets buckets;
  buckets.of_parameter.assign(model.parameters.size(), kUnused);
  int last_layer = -1;
  for (const SegmentDescription& segment : model.segments) {
    last_layer = std::max(last_layer, segment.layer);
    const int bucket = segment.layer >= 0 ? 1 + segment.layer : last_layer < 0 ? 0 : last_layer + 2;
    std::vector<int>& needed = buckets.of_segment.emplace_back();
    for (const int parameter : segment.parameters) {
      int& owner = buckets.of_parameter[static_cast<size_t>(parameter)];
      if (owner == kUnused) owner = bucket;
      needed.push_back(owner);
    }
    std::ranges::sort(needed);
    needed.erase(std::unique(needed.begin(), needed.end()), needed.end());
    buckets.count = std::max(buckets.count, bucket + 1);
  }
  std::ranges::replace(buckets.of_parameter, kUnused, 0);
  return buckets;
}

}  // namespace weft::model
