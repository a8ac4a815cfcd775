// What a sharded tensor adds to an operator on tensors of 64 elements. Run by bench/dispatch.
//
//   dispatch_speed time OPERATOR              one line of JSON: CPU nanoseconds a call, plain and sharded, of each
//   round dispatch_speed run OPERATOR plain|sharded CALLS    just the calls, for a counter of instructions
#include <ctime>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "kernel/process.h"
#include "tensor/operators.h"
#include "tensor/random.h"

// Where a counter begins a new section: bench/dispatch.py names it to callgrind.
extern "C" __attribute__((noinline)) void section_begins() { asm volatile(""); }

namespace {

using namespace weft;
using tensor::DTensor;

struct Pair {
  std::function<void()> plain, sharded;
};

DTensor sharded(const at::Tensor& local, mesh::Placement placement) {
  const mesh::Mesh mesh{{{"tp", 4}}};
  std::vector<int64_t> shape = local.sizes().vec();
  if (placement.kind == mesh::PlacementKind::kShard) shape[static_cast<size_t>(placement.dim)] *= 4;
  return {local, mesh::intern({.mesh = mesh, .placements = {placement}, .shape = shape})};
}

std::map<std::string, Pair> pairs() {
  static const at::Tensor a = at::ones({8, 8}), b = at::ones({8, 8}), w = at::ones({8});
  static const at::Tensor recorded = at::ones({8, 8}).set_requires_grad(true);
  static const mesh::Placement rows{mesh::PlacementKind::kShard, 0}, columns{mesh::PlacementKind::kShard, 1},
      whole{mesh::PlacementKind::kReplicate};
  static const DTensor ar = sharded(a, rows), br = sharded(b, rows), bw = sharded(b, whole), ww = sharded(w, whole),
                       ac = sharded(a, columns), recorded_r = sharded(recorded, rows);
  return {
      {"detach", {[] { (void)a.detach(); }, [] { (void)tensor::detach(ar); }}},
      {"transpose", {[] { (void)a.transpose(0, 1); }, [] { (void)tensor::transpose(ar, 0, 1); }}},
      {"mul", {[] { (void)at::mul(a, b); }, [] { (void)tensor::mul(ar, br); }}},
      {"mul by a number", {[] { (void)at::mul(a, 1.5); }, [] { (void)tensor::scale(ar, 1.5); }}},
      {"add", {[] { (void)at::add(a, b); }, [] { (void)tensor::add(ar, br); }}},
      {"mm", {[] { (void)at::mm(a, b); }, [] { (void)tensor::mm(ar, bw); }}},
      {"mm to partial", {[] { (void)at::mm(a, b); }, [] { (void)tensor::mm(ac, br); }}},
      {"gelu", {[] { (void)at::gelu(a); }, [] { (void)tensor::gelu(ar); }}},
      {"layer_norm",
       {[] { (void)at::layer_norm(a, {8}, w, w, 1e-5); }, [] { (void)tensor::layer_norm(ar, ww, ww, 1e-5); }}},
      {"mul, recorded", {[] { (void)at::mul(recorded, b); }, [] { (void)tensor::mul(recorded_r, br); }}},
  };
}

double nanoseconds(const std::function<void()>& call, int calls = 20000) {
  timespec begin{}, end{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &begin);
  for (int i = 0; i < calls; ++i) call();
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
  return (static_cast<double>(end.tv_sec - begin.tv_sec) * 1e9 + static_cast<double>(end.tv_nsec - begin.tv_nsec)) /
         calls;
}

int time(const Pair& pair, int calls) {
  std::vector<double> plain, others;
  for (int round = 0; round < 10; ++round) {
    plain.push_back(nanoseconds(pair.plain, calls));
    others.push_back(nanoseconds(pair.sharded, calls));
  }
  // The first round warms caches.
  plain.erase(plain.begin());
  others.erase(others.begin());
  fmt::print("{{\"plain\": [{}], \"sharded\": [{}]}}\n", fmt::join(plain, ", "), fmt::join(others, ", "));
  return 0;
}

int time_random() {
  const mesh::Spec* spec = mesh::intern({.shape = {1024, 1024}});
  const mesh::DeviceMesh alone({}, 0);
  const at::Tensor key = at::zeros({2}, at::kUInt64), to = at::empty({1024, 1024});
  time({[&] { (void)at::_philox_uniform(at::empty_like(to), key); },
        [&] {
          (void)tensor::uniform(spec, {0, 0}, alone);
        }},
       3);
  return time({[&] { (void)at::_philox_normal(at::empty_like(to), key); },
               [&] {
                 (void)tensor::normal(spec, {0, 0}, 1, alone);
               }},
              3);
}

constexpr int kCounted = 1000;

// In the order of names; each pair's plain calls come first.
int count() {
  const auto all = pairs();
  for (const auto& [name, pair] : all) {  // the first call finds rules and loads kernels
    pair.plain();
    pair.sharded();
  }
  for (const auto& [name, pair] : all) {
    for (const auto& call : {pair.plain, pair.sharded}) {
      section_begins();
      for (int i = 0; i < kCounted; ++i) call();
    }
  }
  section_begins();
  return 0;
}

int run(const std::vector<std::string>& words) {
  if (!words.empty() && words[0] == "random") return time_random();
  if (!words.empty() && words[0] == "count") return count();
  const auto all = pairs();
  const auto found = words.size() < 2 || words[0] != "time" ? all.end() : all.find(words[1]);
  if (found == all.end()) throw InputError("usage: dispatch_speed time OPERATOR | count | random");
  return time(found->second, 20000);
}

}  // namespace

int main(int count, char** arguments) try {
  kernel::start_process({.threads = 1});
  return run({arguments + 1, arguments + count});
} catch (const weft::Error& error) {
  fmt::print(stderr, "{}\n", error.what());
  return static_cast<int>(error.exit_code());
}
