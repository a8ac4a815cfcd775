// Which parameters are gathered, reduced and updated together: those of one layer, those in front of the first layer,
// and those behind the last one.
#pragma once

#include <vector>

#include "model/description.h"

namespace weft::model {

struct ParameterBuckets {
  int count = 1;
  std::vector<int> of_parameter;             // a parameter's bucket: that of the first segment which uses it
  std::vector<std::vector<int>> of_segment;  // the buckets of a segment's parameters, ascending
};

[[nodiscard]] ParameterBuckets parameter_buckets(const ModelDescription& model);

}  // namespace weft::model
