// weft's side of bench/muon: CPU seconds of making one matrix orthogonal, of its bare products, of a step of Muon on it
// and of AdamW on flat buffers, one thread. Reads lines "rows columns" or "adamw tensors elements" from standard input
// and answers each with one JSON line.
#include <ctime>
#include <iostream>
#include <sstream>
#include <string>

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "kernel/process.h"
#include "kernel/random.h"
#include "optim/newton_schulz.h"
#include "optim/optimizer.h"

namespace {

using namespace weft;

double cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

template <class Work>
double seconds(Work work) {
  const double start = cpu_seconds();
  work();
  return cpu_seconds() - start;
}

at::Tensor normal(int64_t elements) {
  at::Tensor values = at::empty({elements}, at::kFloat);
  kernel::fill_normal(values, {1, 0}, 0, 1);
  return values;
}

// Five times the three products of a step, of an (n, k) matrix and n <= k, with outputs that are there already.
void bare_products(const at::Tensor& x, const at::Tensor& gram, const at::Tensor& square, const at::Tensor& out) {
  for (int step = 0; step < 5; ++step) {
    at::Tensor first = gram, second = square, third = out;
    at::mm_out(first, x, x.t());
    at::mm_out(second, gram, gram);
    at::mm_out(third, square, x);
  }
}

void answer_muon(int64_t rows, int64_t columns) {
  const at::Tensor matrix = normal(rows * columns).view({rows, columns});
  const at::Tensor x = rows > columns ? matrix.t().contiguous() : matrix;
  const int64_t shorter = std::min(rows, columns);
  const at::Tensor gram = at::zeros({shorter, shorter}), square = at::zeros({shorter, shorter}),
                   out = at::zeros_like(x);
  const auto steps = optim::quintic_steps("jordan");
  std::vector<optim::Group> groups = {
      {1, 1, true, matrix.clone().view({-1}), {{"matrix", 0, rows * columns, {rows, columns}}}}};
  const auto optimizer = optim::make_optimizer(recipe::Muon{}, std::move(groups));
  const at::Tensor gradient = matrix.view({-1});
  const double orthogonal = seconds([&] { static_cast<void>(optim::orthogonalised(matrix, steps)); });
  const double products = seconds([&] { bare_products(x, gram, square, out); });
  const double step = seconds([&] { optimizer->step({&gradient, 1}, 1, std::vector{1e-3}); });
  fmt::print("{{\"orthogonal\": {}, \"products\": {}, \"step\": {}}}\n", orthogonal, products, step);
}

void answer_adamw(int64_t tensors, int64_t elements) {
  std::vector<optim::Group> groups = {{1, 1, false, normal(tensors * elements), {}}};
  const auto optimizer = optim::make_optimizer(recipe::AdamW{}, std::move(groups));
  const at::Tensor gradient = normal(tensors * elements);
  constexpr int kRepeats = 20;
  const double step = seconds([&] {
    for (int repeat = 0; repeat < kRepeats; ++repeat) optimizer->step({&gradient, 1}, 1, std::vector{1e-3});
  });
  fmt::print("{{\"step\": {}}}\n", step / kRepeats);
}

}  // namespace

int main() {
  weft::kernel::start_process({.threads = 1});
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string first;
    int64_t rows = 0, columns = 0;
    words >> first;
    const bool adamw = first == "adamw";
    if (adamw) {
      words >> rows >> columns;
      answer_adamw(rows, columns);
    } else {
      rows = std::stoll(first);
      words >> columns;
      answer_muon(rows, columns);
    }
    std::fflush(stdout);
  }
  return 0;
}
