// The L2 norm of a step's whole gradient, wherever its parts lie.
#pragma once

#include "comm/communicator.h"
#include "nn/parameter_store.h"

namespace weft::execute {

// Over all parameters that are not frozen, each element once: a rank adds the squares of what it owns (Piece::owned).
// `holders` are the ranks that divide the parameters among them (null: this rank has all); the sum is in fp64.
// `strict`: an order-free sum. Squares are rounded to multiples of 2^-62 of a power of two above the greatest, and
// added as integers, so that the result does not depend on how parameters are divided.
double gradient_norm(const nn::ParameterStore& parameters, comm::Communicator* holders, bool strict);

}  // namespace weft::execute
