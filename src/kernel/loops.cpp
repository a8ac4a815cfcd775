#include "kernel/loops/loops.h"

#include <array>

namespace weft::kernel {

#if defined(__x86_64__)
namespace level_v2 {
void fill_table(Loops& table);
}
namespace level_v3 {
void fill_table(Loops& table);
}
namespace level_v4 {
void fill_table(Loops& table);
}
#else
namespace level_plain {
void fill_table(Loops& table);
}
#endif

namespace {

struct Levels {
  std::array<Loops, 3> tables{};
  std::array<const Loops*, 3> supported{};
  size_t count = 0;

  void add(void (*fill_table)(Loops&)) {
    fill_table(tables[count]);
    supported[count] = &tables[count];
    ++count;
  }

  Levels() {
#if defined(__x86_64__)
    __builtin_cpu_init();
    add(level_v2::fill_table);
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2")) {
      add(level_v3::fill_table);
      if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
          __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
          __builtin_cpu_supports("avx512cd")) {
        add(level_v4::fill_table);
      }
    }
#else
    add(level_plain::fill_table);
#endif
  }
};

const Levels& levels() {
  static const Levels all;
  return all;
}

}  // namespace

const Loops& loops() {
  static const Loops& best = *levels().supported[levels().count - 1];
  return best;
}

LoopLevels loop_levels() {
  const Levels& all = levels();
  return {all.supported.data(), all.supported.data() + all.count};
}

}  // namespace weft::kernel
