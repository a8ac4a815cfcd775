// Tensors of index-addressed random numbers (base/philox.h): element i is number first + i of its key's stream,
// whatever the shape, device or place of the tensor.
#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "base/philox.h"
#include "kernel/loops/loops.h"

namespace weft::kernel {

inline WordStream stream_of(RandomKey key) { return {key.seed, key.offset}; }

// Uniform in [0, 1): 24 bits. `out` is fp32 and contiguous.
void fill_uniform(const at::Tensor& out, RandomKey key, uint64_t first);

// Normal of mean 0. `out` is fp32 and contiguous; `first` is even.
void fill_normal(const at::Tensor& out, RandomKey key, uint64_t first, double standard_deviation);

// The words of the stream as int64 [count], on the CPU.
at::Tensor random_words(RandomKey key, uint64_t first, int64_t count);

}  // namespace weft::kernel
