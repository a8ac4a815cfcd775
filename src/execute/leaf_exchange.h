// Strict mode: the leaves of weight gradients, from all ranks to all ranks.
#pragma once

#include <functional>

#include "comm/communicator.h"
#include "nn/leaf_gradients.h"

namespace weft::execute {

// Adds the nodes of the chosen parameters of every member of the group, this one's included, to `all`.
void exchange_leaves(const nn::LeafGradients& leaves, const std::function<bool(int parameter)>& chosen,
                     comm::Communicator& group, nn::LeafGradients& all);

}  // namespace weft::execute
