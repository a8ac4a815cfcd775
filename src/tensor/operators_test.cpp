// Every operator against its ATen operator on the whole tensors, for every placement of its inputs on one axis of two
// and three ranks: what a rule allows must be right, in value and gradient, and what is right must be allowed.
#include <cctype>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tensor/operator_cases.h"

namespace weft::tensor {
namespace {

class EveryOperator : public testing::TestWithParam<OperatorCase> {};

TEST_P(EveryOperator, OnTwoRanks) { EXPECT_EQ(verify(GetParam(), {{{"tp", 2}}}), ""); }
TEST_P(EveryOperator, OnThreeRanks) { EXPECT_EQ(verify(GetParam(), {{{"tp", 3}}}), ""); }

std::string case_name(const testing::TestParamInfo<OperatorCase>& info) {
  std::string name;
  for (const char letter : info.param.name) name += std::isalnum(letter) != 0 ? letter : '_';
  return name;
}

INSTANTIATE_TEST_SUITE_P(Rules, EveryOperator, testing::ValuesIn(operator_cases()), case_name);

}  // namespace
}  // namespace weft::tensor
