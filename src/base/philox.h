// Philox4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3; SC 2011) and the project's
// definition of every random number, for all layouts and devices; docs/random-numbers.md is the same in words. All
// functions are pure.
//
//   word(key, g) = philox4x32_10(key.seed, key.offset + g div 4)[g mod 4]      g: the element's index in the global
//   tensor
//
// The key of one use of randomness is folded from what identifies it; fold is ATen's `_philox_key_fold_in`.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>

namespace weft {

using PhiloxBlock = std::array<uint32_t, 4>;

// The counter's low 64 bits are `low`, its high 64 bits are `high` (0 in every random number of weft).
[[nodiscard]] constexpr PhiloxBlock philox4x32_10(uint64_t key, uint64_t low, uint64_t high = 0) {
  auto key0 = static_cast<uint32_t>(key), key1 = static_cast<uint32_t>(key >> 32);
  PhiloxBlock word = {static_cast<uint32_t>(low), static_cast<uint32_t>(low >> 32), static_cast<uint32_t>(high),
                      static_cast<uint32_t>(high >> 32)};
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = uint64_t{0xD2511F53} * word[0], product1 = uint64_t{0xCD9E8D57} * word[2];
    word = {static_cast<uint32_t>(product1 >> 32) ^ word[1] ^ key0, static_cast<uint32_t>(product1),
            static_cast<uint32_t>(product0 >> 32) ^ word[3] ^ key1, static_cast<uint32_t>(product0)};
    key0 += 0x9E3779B9;
    key1 += 0xBB67AE85;
  }
  return word;
}

// A stream of words. Block number b of it is philox4x32_10(seed, offset + b), modulo 2^64.
struct RandomKey {
  uint64_t seed = 0;
  uint64_t offset = 0;
  friend constexpr bool operator==(const RandomKey&, const RandomKey&) = default;
};

// The key that `data` selects below `key`: one block, its first two words the new seed (low word first), the others the
// offset.
[[nodiscard]] constexpr RandomKey fold(RandomKey key, uint64_t data) {
  const PhiloxBlock word = philox4x32_10(key.seed, key.offset + data);
  return {word[0] | uint64_t{word[1]} << 32, word[2] | uint64_t{word[3]} << 32};
}

// What a random number is for. The values are part of the definition: they are never changed or used again.
enum class RandomPurpose : uint64_t {
  kParameters = 1,    // initial values; step 0; path: the parameter's
  kDropout = 2,       // path: the operator's
  kSampleOrder = 3,   // permutations of a source's samples; step: the epoch; path: the source's position, in decimal
  kMixture = 4,       // order of the sources within a block of a mixture; step: the block's number
  kWindowOffset = 5,  // where an epoch's first window starts; step: the epoch; path: the source's position, in decimal
  kGeneration = 6,    // sampling of text; step: the position; path: the sequence's number, in decimal
};

// `path_hash` is xxh64(path) of base/hash.h; purposes without a path use 0.
[[nodiscard]] constexpr RandomKey random_key(uint64_t seed, RandomPurpose purpose, uint64_t step, uint64_t path_hash) {
  return fold(fold(fold(RandomKey{seed, 0}, static_cast<uint64_t>(purpose)), step), path_hash);
}

[[nodiscard]] constexpr PhiloxBlock random_block(RandomKey key, uint64_t block) {
  return philox4x32_10(key.seed, key.offset + block);
}

[[nodiscard]] constexpr uint32_t random_word(RandomKey key, uint64_t g) { return random_block(key, g / 4)[g % 4]; }

// Uniform in [0, 1): the word's low 24 bits, times 2^-24. Exact in fp32.
[[nodiscard]] constexpr float uniform_of_word(uint32_t word) { return static_cast<float>(word & 0xFFFFFF) * 0x1p-24F; }

// Dropout with probability p keeps the element iff dropout_keeps(word, dropout_threshold(p)); p in [0, 1).
[[nodiscard]] inline uint32_t dropout_threshold(double p) {
  return static_cast<uint32_t>(std::lround((1.0 - p) * 0x1p24));
}
[[nodiscard]] constexpr bool dropout_keeps(uint32_t word, uint32_t threshold) { return (word & 0xFFFFFF) < threshold; }

// Standard normals of elements g and g + 1 (g even) from their two words, by Box and Muller in double precision:
//   radius = sqrt(-2 ln((word0 + 1/2) 2^-32)), angle = 2 pi (word1 + 1/2) 2^-32; radius cos(angle), radius sin(angle)
// A float is at most 6.77 away from 0. Equal on every CPU up to the last bit of its mathematical library.
[[nodiscard]] inline std::array<float, 2> normals_of_words(uint32_t word0, uint32_t word1) {
  const double radius = std::sqrt(-2.0 * std::log((word0 + 0.5) * 0x1p-32));
  const double angle = 2.0 * std::numbers::pi * ((word1 + 0.5) * 0x1p-32);
  return {static_cast<float>(radius * std::cos(angle)), static_cast<float>(radius * std::sin(angle))};
}

[[nodiscard]] inline float random_normal(RandomKey key, uint64_t g) {
  const PhiloxBlock word = random_block(key, g / 4);
  const uint64_t first = g % 4 / 2 * 2;
  return normals_of_words(word[first], word[first + 1])[g % 2];
}

}  // namespace weft
