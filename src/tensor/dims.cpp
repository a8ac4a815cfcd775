#include "tensor/dims.h"

#include <numeric>

#include <fmt/format.h>

#include "base/error.h"

namespace weft::tensor {

std::vector<int> all_dims(const mesh::Spec& spec) {
  std::vector<int> dims(spec.shape.size());
  std::iota(dims.begin(), dims.end(), 0);
  return dims;
}

int64_t dim_of(const DTensor& x, int64_t dim, int64_t dims) {
  if (dim < -dims || dim >= dims) throw Error(fmt::format("{} has no dim {}", x.spec->text(), dim));
  return dim < 0 ? dim + dims : dim;
}

int64_t dim_of(const DTensor& x, int64_t dim) { return dim_of(x, dim, static_cast<int64_t>(x.spec->shape.size())); }

}  // namespace weft::tensor
