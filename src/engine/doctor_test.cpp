#include "engine/doctor.h"

#include <gtest/gtest.h>

namespace weft::engine {
namespace {

MachineReport healthy() {
  MachineReport report;
  report.cores = 4;
  report.threads = 4;
  report.memory_total = uint64_t{16} << 30;
  report.memory_available = uint64_t{12} << 30;
  report.vector_instructions = "AVX2";
  report.mkl = true;
  report.fp32_gflops_one_thread = report.bf16_gflops_one_thread = 100;
  report.fp32_gflops = report.bf16_gflops = 380;
  return report;
}

// One finding, which names what it is about.
void expect_finding(const MachineReport& report, std::string_view word) {
  const std::vector<std::string> found = findings(report);
  ASSERT_EQ(found.size(), 1U) << word;
  EXPECT_NE(found[0].find(word), std::string::npos) << found[0];
}

TEST(Doctor, HealthyMachinesHaveNoFindings) { EXPECT_TRUE(findings(healthy()).empty()); }

TEST(Doctor, EachTroubleIsNamed) {
  MachineReport report = healthy();
  report.mkl = false;
  expect_finding(report, "MKL");
  report = healthy();
  report.vector_instructions = "DEFAULT";
  expect_finding(report, "AVX2");
  report = healthy();
  report.threads = 8;
  expect_finding(report, "train.threads = 4");
  report = healthy();
  report.load = 6;
  expect_finding(report, "busy");
  report = healthy();
  report.fp32_gflops = report.bf16_gflops = 110;
  expect_finding(report, "1.10 times");
  report = healthy();
  report.bf16_gflops = 100;
  expect_finding(report, "precision = \"fp32\"");
  report = healthy();
  report.memory_available = uint64_t{1} << 30;
  expect_finding(report, "1.0 of 16.0 GiB");
}

TEST(Doctor, MeasuresThisMachine) {
  const MachineReport report = examine_machine();
  EXPECT_GE(report.cores, 1);
  EXPECT_GT(report.fp32_gflops, 0.1);
  EXPECT_GT(report.bf16_gflops, 0.1);
  EXPECT_GT(report.memory_gb_per_s, 0.1);
}

}  // namespace
}  // namespace weft::engine
