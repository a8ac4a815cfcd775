// The rules on meshes of two axes, for every placement on both, and on one axis with more ranks than most dims have
// elements.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tensor/operator_cases.h"

namespace weft::tensor {
namespace {

TEST(EveryOperator, OnTwoAxes) {
  for (const OperatorCase& operator_case : operator_cases()) {
    if (operator_case.name == "causal_attention") continue;  // 49^3 combinations
    const int inner = operator_case.inputs.size() == 1 ? 3 : 2;
    EXPECT_EQ(verify(operator_case, {{{"dp", 2}, {"tp", inner}}}), "");
  }
}

TEST(EveryOperator, OnMoreRanksThanElements) {
  for (const OperatorCase& operator_case : operator_cases()) EXPECT_EQ(verify(operator_case, {{{"tp", 7}}}), "");
}

}  // namespace
}  // namespace weft::tensor
