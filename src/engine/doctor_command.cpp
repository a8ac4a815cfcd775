#include <cstdio>

#include <fmt/format.h>

#include "base/json.h"
#include "engine/bodies.h"
#include "engine/doctor.h"
#include "engine/process.h"

namespace weft::engine {
namespace {

OrderedJson as_json(const MachineReport& report) {
  return {{"cores", report.cores},
          {"threads", report.threads},
          {"load", report.load},
          {"memory_total", report.memory_total},
          {"memory_available", report.memory_available},
          {"vector_instructions", report.vector_instructions},
          {"mkl", report.mkl},
          {"onednn", report.onednn},
          {"cuda", report.cuda},
          {"fp32_gflops_one_thread", report.fp32_gflops_one_thread},
          {"fp32_gflops", report.fp32_gflops},
          {"bf16_gflops_one_thread", report.bf16_gflops_one_thread},
          {"bf16_gflops", report.bf16_gflops},
          {"memory_gb_per_s_one_thread", report.memory_gb_per_s_one_thread},
          {"memory_gb_per_s", report.memory_gb_per_s},
          {"findings", findings(report)}};
}

std::string as_text(const MachineReport& report) {
  const auto yes = [](bool has) { return has ? "yes" : "no"; };
  std::string text;
  text += fmt::format("cores               {} usable, {} threads for tensors, load {:.1f}\n", report.cores,
                      report.threads, report.load);
  text += fmt::format("memory              {:.1f} GiB free of {:.1f} GiB\n",
                      static_cast<double>(report.memory_available) / 0x1p30,
                      static_cast<double>(report.memory_total) / 0x1p30);
  text += fmt::format("LibTorch            {} instructions; MKL {}, oneDNN {}, CUDA {}\n", report.vector_instructions,
                      yes(report.mkl), yes(report.onednn), yes(report.cuda));
  text += fmt::format("matrix products     fp32 {:.0f} GFLOP/s on one thread, {:.0f} on all\n",
                      report.fp32_gflops_one_thread, report.fp32_gflops);
  text += fmt::format("                    bf16 {:.0f} GFLOP/s on one thread, {:.0f} on all\n",
                      report.bf16_gflops_one_thread, report.bf16_gflops);
  text += fmt::format("memory bandwidth    {:.1f} GB/s on one thread, {:.1f} on all (a copy's reads and writes)\n",
                      report.memory_gb_per_s_one_thread, report.memory_gb_per_s);
  const std::vector<std::string> found = findings(report);
  if (found.empty()) text += "\nNothing is wrong.\n";
  for (const std::string& finding : found) text += "\n- " + finding + "\n";
  return text;
}

}  // namespace

ExitCode run_doctor(const app::Invocation& invocation) {
  set_threads(invocation.given("--threads") ? static_cast<int>(invocation.integer("--threads")) : 0);
  const MachineReport report = examine_machine();
  const std::string text = invocation.json() ? dump_json(as_json(report)) + "\n" : as_text(report);
  std::fputs(text.c_str(), stdout);
  return ExitCode::kDone;
}

}  // namespace weft::engine
