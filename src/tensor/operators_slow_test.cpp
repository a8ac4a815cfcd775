// The rules of operators of one or two inputs on meshes of two axes, for every placement on both.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tensor/operator_cases.h"

namespace weft::tensor {
namespace {

TEST(EveryOperator, OnTwoAxes) {
  for (const OperatorCase& operator_case : operator_cases()) {
    if (operator_case.inputs.size() > 2) continue;
    const int inner = operator_case.inputs.size() == 1 ? 3 : 2;
    EXPECT_EQ(verify(operator_case, {{{"dp", 2}, {"tp", inner}}}), "");
  }
}

}  // namespace
}  // namespace weft::tensor
