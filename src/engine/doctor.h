// Measures what decides the speed of training on this machine, and judges it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace weft::engine {

struct MachineReport {
  int cores = 0;                                    // usable by this process
  int threads = 0;                                  // set for tensors
  double load = 0;                                  // processes that ran or waited for a core, over the last minute
  uint64_t memory_total = 0, memory_available = 0;  // bytes
  std::string vector_instructions;                  // LibTorch's word for what its kernels use: "AVX512"
  bool mkl = false, onednn = false, cuda = false;
  double fp32_gflops_one_thread = 0, fp32_gflops = 0;
  double bf16_gflops_one_thread = 0, bf16_gflops = 0;
  double memory_gb_per_s_one_thread = 0, memory_gb_per_s = 0;  // 1e9 bytes read and written by a copy
};

// Takes a few seconds. Changes the number of threads while it measures and puts it back.
[[nodiscard]] MachineReport examine_machine();

// What is wrong, in plain words, each with what to do; empty if nothing is.
[[nodiscard]] std::vector<std::string> findings(const MachineReport& report);

}  // namespace weft::engine
