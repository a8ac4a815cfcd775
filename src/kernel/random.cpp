#include "kernel/random.h"

#include <algorithm>

#include <ATen/ATen.h>

#include "base/check.h"

namespace weft::kernel {
namespace {

// Calls fill(pointer) with memory on the CPU that ends in `out`.
template <typename Fill>
void through_cpu(const at::Tensor& out, Fill fill) {
  WEFT_CHECK(out.scalar_type() == at::kFloat && out.is_contiguous());
  if (out.device().is_cpu()) return fill(out.data_ptr<float>());
  const at::Tensor here = at::empty(out.sizes(), at::kFloat);
  fill(here.data_ptr<float>());
  out.copy_(here);
}

}  // namespace

void fill_uniform(const at::Tensor& out, RandomKey key, uint64_t first) {
  through_cpu(out, [&](float* to) { loops().philox_uniform(stream_of(key), first, out.numel(), to); });
}

void fill_normal(const at::Tensor& out, RandomKey key, uint64_t first, double standard_deviation) {
  WEFT_CHECK(first % 2 == 0);
  const auto deviation = static_cast<float>(standard_deviation);
  through_cpu(out, [&](float* to) { loops().philox_normal(stream_of(key), first, out.numel(), deviation, to); });
}

at::Tensor random_words(RandomKey key, uint64_t first, int64_t count) {
  std::vector<uint32_t> words(static_cast<size_t>(count));
  loops().philox_words(stream_of(key), first, count, words.data());
  at::Tensor out = at::empty({count}, at::kLong);
  std::copy(words.begin(), words.end(), out.data_ptr<int64_t>());
  return out;
}

}  // namespace weft::kernel
