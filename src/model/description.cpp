#include "model/description.h"

#include <algorithm>

namespace weft::model {
namespace {

int64_t product(const std::vector<int64_t>& sizes) {
  int64_t result = 1;
  for (const int64_t size : sizes) result *= size;
  return result;
}

}  // namespace

int64_t ParameterDescription::elements() const { return product(shape); }

int64_t ValueDescription::elements_per_token() const { return product(trailing); }

double attended_pairs(int64_t length, int64_t window) {
  const double whole = static_cast<double>(length);
  if (window <= 0 || window >= length) return whole * (whole + 1) / 2;
  const double seen = static_cast<double>(window);
  return seen * (seen + 1) / 2 + (whole - seen) * seen;
}

Cost SegmentDescription::cost(Rows rows) const {
  const double tokens = static_cast<double>(rows.tokens());
  const double pairs = static_cast<double>(rows.sequences) * attended_pairs(rows.length, formula.window);
  Cost cost;
  cost.forward_flops = formula.forward_flops_per_token * tokens + formula.forward_flops_per_pair * pairs;
  cost.backward_flops = formula.backward_ratio * cost.forward_flops;
  cost.saved_values = formula.saved_per_token * tokens;
  return cost;
}

int64_t ModelDescription::parameter_count() const {
  int64_t count = 0;
  for (const ParameterDescription& parameter : parameters) count += parameter.elements();
  return count;
}

int64_t ModelDescription::parameter_count_without_embedding() const {
  int64_t count = 0;
  for (const ParameterDescription& parameter : parameters) {
    const bool outside_layers = parameter.parameter_class == ParameterClass::kEmbedding ||
                                parameter.parameter_class == ParameterClass::kHead ||
                                parameter.parameter_class == ParameterClass::kTied;
    if (!outside_layers) count += parameter.elements();
  }
  return count;
}

double ModelDescription::flops_per_token(int64_t length) const {
  const Rows rows{1, std::max<int64_t>(length, 1)};
  double flops = 0;
  for (const SegmentDescription& segment : segments) {
    const Cost cost = segment.cost(rows);
    flops += cost.forward_flops + cost.backward_flops;
  }
  return flops / static_cast<double>(rows.tokens());
}

}  // namespace weft::model
