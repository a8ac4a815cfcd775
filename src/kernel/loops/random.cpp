#include "kernel/loops/level.h"
#include "kernel/loops/philox.h"
#include "kernel/loops/vector_double.h"
#include "kernel/loops/vector_math.h"

namespace weft::kernel::WEFT_LEVEL {
namespace {

constexpr int64_t kBatch = 4 * kPhiloxLanes;

template <typename Out, typename Convert>
void fill_words(WordStream stream, uint64_t first, int64_t count, Out* out, Convert convert) {
  uint64_t block = stream.offset + first / 4;
  int64_t skip = static_cast<int64_t>(first % 4);
  uint32_t words[kBatch];
  for (int64_t done = 0; done < count;) {
    philox_blocks(stream.seed, block, words);
    block += kPhiloxLanes;
    const int64_t batch = count - done < kBatch - skip ? count - done : kBatch - skip;
    for (int64_t i = 0; i < batch; ++i) out[done + i] = convert(words[skip + i]);
    done += batch;
    skip = 0;
  }
}

void philox_words(WordStream stream, uint64_t first, int64_t count, uint32_t* words) {
  fill_words(stream, first, count, words, [](uint32_t word) { return word; });
}

void philox_uniform(WordStream stream, uint64_t first, int64_t count, float* out) {
  fill_words(stream, first, count, out,
             [](uint32_t word) { return static_cast<float>(static_cast<int32_t>(word & 0xffffffu)) * 0x1p-24f; });
}

// Box and Muller of a batch of words, each operation a loop over vectors of double.
constexpr int kPairs = kBatch / 2;

void normals(const uint32_t* words, float deviation, float* out) {
#pragma omp simd
  for (int i = 0; i < kPairs; ++i) {
    const double radius = __builtin_sqrt(-2.0 * logarithm((words[2 * i] + 0.5) * 0x1p-32));
    const SineAndCosine angle = sine_and_cosine(6.283185307179586 * ((words[2 * i + 1] + 0.5) * 0x1p-32));
    out[2 * i] = static_cast<float>(radius * angle.cosine) * deviation;
    out[2 * i + 1] = static_cast<float>(radius * angle.sine) * deviation;
  }
}

void philox_normal(WordStream stream, uint64_t first, int64_t count, float deviation, float* out) {
  uint32_t words[kBatch];
  float numbers[kBatch];
  for (int64_t start = 0; start < count; start += kBatch) {
    philox_words(stream, first + static_cast<uint64_t>(start), kBatch, words);
    const int64_t batch = count - start < kBatch ? count - start : kBatch;
    if (batch == kBatch) {
      normals(words, deviation, out + start);
      continue;
    }
    normals(words, deviation, numbers);
    for (int64_t i = 0; i < batch; ++i) out[start + i] = numbers[i];
  }
}

template <typename Element>
void dropout(Element* x, int64_t count, DropoutMask mask, uint64_t first) {
  float factors[kBatch];
  for (int64_t start = 0; start < count; start += kBatch) {
    const int64_t batch = count - start < kBatch ? count - start : kBatch;
    fill_words(mask.stream, first + static_cast<uint64_t>(start), batch, factors,
               [mask](uint32_t word) { return (word & 0xffffffu) < mask.threshold ? mask.factor : 0.0f; });
#pragma omp simd
    for (int64_t i = 0; i < batch; ++i) store(load(x[start + i]) * factors[i], x[start + i]);
  }
}

}  // namespace

void fill_random(Loops& table) {
  table.philox_words = philox_words;
  table.philox_uniform = philox_uniform;
  table.philox_normal = philox_normal;
  table.float32.dropout = dropout<float>;
  table.bfloat16.dropout = dropout<BFloat16>;
}

}  // namespace weft::kernel::WEFT_LEVEL
