#include "comm/sums.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>

#include "base/check.h"

namespace weft::comm {
namespace {

template <class T>
struct Plain {
  using Stored = T;
  using Value = T;
  static T load(T stored) { return stored; }
  static T store(T value) { return value; }
};

struct BFloat16 {
  using Stored = uint16_t;
  using Value = float;
  static float load(uint16_t stored) { return std::bit_cast<float>(uint32_t{stored} << 16); }
  static uint16_t store(float value) {
    const auto bits = std::bit_cast<uint32_t>(value);
    const auto rounded = static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
    const auto quiet = static_cast<uint16_t>((bits >> 16) | 0x40);  // rounding could make a NaN an infinity
    return (bits & 0x7fffffff) > 0x7f800000 ? quiet : rounded;
  }
};

struct Add {
  template <class T>
  static T combine(T sum, T next) {
    if constexpr (std::is_integral_v<T>) {
      using Unsigned = std::make_unsigned_t<T>;
      return static_cast<T>(static_cast<Unsigned>(sum) + static_cast<Unsigned>(next));
    } else {
      return sum + next;
    }
  }
};

struct Greater {
  template <class T>
  static T combine(T best, T next) {
    return next > best || next != next ? next : best;
  }
};

// Small enough to stay in the first cache beside the sources.
constexpr int64_t kBlock = 2048;

template <class Number, class Combination>
void reduce_blocks(std::span<const void* const> sources, std::span<void* const> targets, int64_t count) {
  using Stored = typename Number::Stored;
  typename Number::Value values[kBlock];
  Stored result[kBlock];
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t length = std::min(kBlock, count - begin);
    const Stored* first = static_cast<const Stored*>(sources[0]) + begin;
    for (int64_t i = 0; i < length; ++i) values[i] = Number::load(first[i]);
    for (const void* source : sources.subspan(1)) {
      const Stored* next = static_cast<const Stored*>(source) + begin;
      for (int64_t i = 0; i < length; ++i) values[i] = Combination::combine(values[i], Number::load(next[i]));
    }
    for (int64_t i = 0; i < length; ++i) result[i] = Number::store(values[i]);
    for (void* target : targets) {
      std::memcpy(static_cast<Stored*>(target) + begin, result, static_cast<size_t>(length) * sizeof(Stored));
    }
  }
}

template <class Number>
void reduce_numbers(Reduction reduction, std::span<const void* const> sources, std::span<void* const> targets,
                    int64_t count) {
  if (reduction == Reduction::kSum) {
    reduce_blocks<Number, Add>(sources, targets, count);
  } else {
    reduce_blocks<Number, Greater>(sources, targets, count);
  }
}

}  // namespace

void reduce(Reduction reduction, mesh::ElementType type, std::span<const void* const> sources,
            std::span<void* const> targets, int64_t count) {
  switch (type) {
    case mesh::ElementType::kFloat32:
      return reduce_numbers<Plain<float>>(reduction, sources, targets, count);
    case mesh::ElementType::kFloat64:
      return reduce_numbers<Plain<double>>(reduction, sources, targets, count);
    case mesh::ElementType::kBFloat16:
      return reduce_numbers<BFloat16>(reduction, sources, targets, count);
    case mesh::ElementType::kInt64:
      return reduce_numbers<Plain<int64_t>>(reduction, sources, targets, count);
    case mesh::ElementType::kInt32:
      return reduce_numbers<Plain<int32_t>>(reduction, sources, targets, count);
    case mesh::ElementType::kFloat16:
    case mesh::ElementType::kUInt8:
      break;
  }
  check_failed("a type that is reduced", __FILE__, __LINE__);
}

}  // namespace weft::comm
