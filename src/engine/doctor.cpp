#include "engine/doctor.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <fmt/format.h>

#include "base/machine.h"
#include "kernel/product.h"

namespace weft::engine {
namespace {

constexpr double kSeconds = 0.4;               // for one number
constexpr int64_t kSide = 1024;                // of the square matrices
constexpr int64_t kCopied = int64_t{1} << 26;  // floats, 256 MiB: larger than caches

// The best of repeated calls, in seconds: other processes only ever make it slower.
double best_time(const std::function<void()>& call) {
  using Clock = std::chrono::steady_clock;
  call();
  const Clock::time_point start = Clock::now();
  double best = 1e30, total = 0;
  while (total < kSeconds) {
    const Clock::time_point before = Clock::now();
    call();
    best = std::min(best, std::chrono::duration<double>(Clock::now() - before).count());
    total = std::chrono::duration<double>(Clock::now() - start).count();
  }
  return best;
}

double product_gflops(at::ScalarType type) {
  const at::Tensor x = at::ones({kSide, kSide}, type);
  const at::Tensor weight = at::ones({kSide, kSide}, type);
  const at::Tensor out = at::empty({kSide, kSide}, at::kFloat);
  const double seconds = best_time([&] { kernel::product_forward(out, x, weight, at::Tensor()); });
  return 2.0 * static_cast<double>(kSide * kSide * kSide) / seconds / 1e9;
}

double copy_gb_per_s() {
  const at::Tensor from = at::ones({kCopied}, at::kFloat);
  at::Tensor to = at::empty({kCopied}, at::kFloat);
  const double seconds = best_time([&] { to.copy_(from); });
  return 2.0 * static_cast<double>(kCopied) * sizeof(float) / seconds / 1e9;
}

}  // namespace

MachineReport examine_machine() {
  MachineReport report;
  report.cores = usable_cores();
  report.threads = at::get_num_threads();
  if (getloadavg(&report.load, 1) != 1) report.load = 0;
  report.memory_total = total_memory();
  report.memory_available = available_memory();
  report.vector_instructions = at::get_cpu_capability();
  report.mkl = at::hasMKL();
  report.onednn = at::hasMKLDNN();
  report.cuda = at::hasCUDA();
  at::set_num_threads(1);
  report.fp32_gflops_one_thread = product_gflops(at::kFloat);
  report.bf16_gflops_one_thread = product_gflops(at::kBFloat16);
  report.memory_gb_per_s_one_thread = copy_gb_per_s();
  at::set_num_threads(report.threads);
  report.fp32_gflops = product_gflops(at::kFloat);
  report.bf16_gflops = product_gflops(at::kBFloat16);
  report.memory_gb_per_s = copy_gb_per_s();
  return report;
}

std::vector<std::string> findings(const MachineReport& report) {
  std::vector<std::string> found;
  if (!report.mkl) {
    found.emplace_back(
        "LibTorch has no MKL here: matrix products are several times slower than they could be. Use the "
        "x86-64 wheel that ./weft installs.");
  }
  if (report.vector_instructions != "AVX512" && report.vector_instructions != "AVX2") {
    found.push_back(
        fmt::format("LibTorch uses {} instructions only: the processor, the virtual machine or "
                    "ATEN_CPU_CAPABILITY hides AVX2. Expect a fraction of the usual speed.",
                    report.vector_instructions));
  }
  if (report.threads > report.cores) {
    found.push_back(fmt::format("{} threads share {} cores and wait for each other: set train.threads = {} or less.",
                                report.threads, report.cores, report.cores));
  }
  if (report.load > 0.5 * report.cores + 0.5) {
    found.push_back(
        fmt::format("other programs keep the machine busy (load {:.1f} on {} cores): the numbers above are "
                    "lower than it can do.",
                    report.load, report.cores));
  }
  const double speedup = report.fp32_gflops / report.fp32_gflops_one_thread;
  if (report.threads > 1 && speedup < 1.3) {
    found.push_back(
        fmt::format("{} threads multiply matrices {:.2f} times as fast as one: the cores are busy or share "
                    "an arithmetic unit. train.threads = 1 will cost little.",
                    report.threads, speedup));
  }
  if (report.bf16_gflops < 0.7 * report.fp32_gflops) {
    found.push_back(fmt::format("bf16 products run at {:.2f} of fp32's speed here: train with precision = \"fp32\".",
                                report.bf16_gflops / report.fp32_gflops));
  }
  if (report.memory_available < report.memory_total / 10) {
    found.push_back(fmt::format("only {:.1f} of {:.1f} GiB of memory are free: other programs hold the rest.",
                                static_cast<double>(report.memory_available) / 0x1p30,
                                static_cast<double>(report.memory_total) / 0x1p30));
  }
  return found;
}

}  // namespace weft::engine
