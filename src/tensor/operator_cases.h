// Every operator of operators.h and random.h that moves nothing, as cases of the verifier.
#pragma once

#include <vector>

#include "tensor/rule_verifier.h"

namespace weft::tensor {

const std::vector<OperatorCase>& operator_cases();

}  // namespace weft::tensor
