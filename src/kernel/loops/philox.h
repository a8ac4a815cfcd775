// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011) on several counters at once.
#pragma once

#include <cstdint>

namespace weft::kernel::WEFT_LEVEL {

constexpr int kPhiloxLanes = 16;

// Blocks first to first + kPhiloxLanes - 1 of key `seed`; words[4 * lane + w] is word w of a block.
inline void philox_blocks(uint64_t seed, uint64_t first, uint32_t* words) {
  uint32_t x0[kPhiloxLanes], x1[kPhiloxLanes], x2[kPhiloxLanes], x3[kPhiloxLanes];
  for (int lane = 0; lane < kPhiloxLanes; ++lane) {
    const uint64_t block = first + static_cast<uint64_t>(lane);
    x0[lane] = static_cast<uint32_t>(block);
    x1[lane] = static_cast<uint32_t>(block >> 32);
    x2[lane] = 0;
    x3[lane] = 0;
  }
  uint32_t key0 = static_cast<uint32_t>(seed);
  uint32_t key1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
#pragma omp simd
    for (int lane = 0; lane < kPhiloxLanes; ++lane) {
      const uint64_t product0 = static_cast<uint64_t>(x0[lane]) * 0xD2511F53u;
      const uint64_t product1 = static_cast<uint64_t>(x2[lane]) * 0xCD9E8D57u;
      x0[lane] = static_cast<uint32_t>(product1 >> 32) ^ x1[lane] ^ key0;
      x1[lane] = static_cast<uint32_t>(product1);
      x2[lane] = static_cast<uint32_t>(product0 >> 32) ^ x3[lane] ^ key1;
      x3[lane] = static_cast<uint32_t>(product0);
    }
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  for (int lane = 0; lane < kPhiloxLanes; ++lane) {
    words[4 * lane] = x0[lane];
    words[4 * lane + 1] = x1[lane];
    words[4 * lane + 2] = x2[lane];
    words[4 * lane + 3] = x3[lane];
  }
}

}  // namespace weft::kernel::WEFT_LEVEL
