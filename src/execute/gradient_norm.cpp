#include "execute/gradient_norm.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include <ATen/ATen.h>

#include "kernel/update.h"

namespace weft::execute {
namespace {

constexpr const char* kWhat = "norm of the gradient";

// The gradients of what this rank owns: whole groups where it owns all of them.
std::vector<at::Tensor> owned_gradients(const nn::ParameterStore& parameters) {
  std::vector<at::Tensor> owned;
  for (const auto& group : parameters.groups()) {
    bool all = true;
    for (const int index : group.pieces) all = all && parameters.piece(index).owned == parameters.piece(index).range;
    if (all) {
      owned.push_back(group.gradient);
      continue;
    }
    int64_t begin = 0;
    for (const int index : group.pieces) {
      const nn::Piece& piece = parameters.piece(index);
      if (piece.owned.size() > 0) {
        owned.push_back(group.gradient.narrow(0, begin + piece.owned.begin - piece.range.begin, piece.owned.size()));
      }
      begin += piece.range.size();
    }
  }
  return owned;
}

template <typename Number>
void all_reduce(comm::Communicator* holders, std::span<Number> numbers, mesh::ElementType type,
                comm::Reduction reduction) {
  if (holders == nullptr) return;
  holders->all_reduce({numbers.data(), static_cast<int64_t>(numbers.size()), type}, reduction, kWhat)->wait();
}

double greatest(const std::vector<at::Tensor>& gradients) {
  double most = 0;
  for (const at::Tensor& gradient : gradients) {
    const double here = gradient.numel() == 0 ? 0 : gradient.abs().max().item<double>();
    if (!std::isfinite(here)) return std::numeric_limits<double>::infinity();
    most = std::max(most, here);
  }
  return most;
}

constexpr int kFraction = 62;  // bits behind the point
constexpr int kWordBits = 40;

// A sum of at most 2^57 squares in three words, so that words of many ranks can be added without a carry.
std::array<int64_t, 3> words_of(__int128 sum) {
  constexpr auto kMask = (static_cast<__int128>(1) << kWordBits) - 1;
  return {static_cast<int64_t>(sum & kMask), static_cast<int64_t>((sum >> kWordBits) & kMask),
          static_cast<int64_t>(sum >> (2 * kWordBits))};
}

double strict_norm(const std::vector<at::Tensor>& gradients, comm::Communicator* holders) {
  double most = greatest(gradients);
  all_reduce(holders, std::span(&most, 1), mesh::ElementType::kFloat64, comm::Reduction::kMax);
  if (most == 0 || !std::isfinite(most)) return most;
  const int exponent = std::ilogb(most) + 1;
  const double scale = std::ldexp(1.0, -exponent);
  __int128 sum = 0;
  for (const at::Tensor& gradient : gradients) {
    const at::Tensor here = gradient.cpu().contiguous();
    const auto* numbers = here.const_data_ptr<float>();
    for (int64_t i = 0; i < here.numel(); ++i) {
      const double scaled = static_cast<double>(numbers[i]) * scale;  // exact, as is its square of 48 bits
      sum += std::llrint(std::ldexp(scaled * scaled, kFraction));
    }
  }
  std::array<int64_t, 3> words = words_of(sum);
  all_reduce(holders, std::span<int64_t>(words), mesh::ElementType::kInt64, comm::Reduction::kSum);
  __int128 total = 0;
  for (size_t word = 0; word < words.size(); ++word) {
    total += static_cast<__int128>(words[word]) << (kWordBits * static_cast<int>(word));
  }
  return std::ldexp(std::sqrt(std::ldexp(static_cast<double>(total), -kFraction)), exponent);
}

}  // namespace

double gradient_norm(const nn::ParameterStore& parameters, comm::Communicator* holders, bool strict) {
  const std::vector<at::Tensor> gradients = owned_gradients(parameters);
  if (strict) return strict_norm(gradients, holders);
  double squares = 0;
  for (const at::Tensor& gradient : gradients) squares += kernel::sum_of_squares(gradient);
  all_reduce(holders, std::span(&squares, 1), mesh::ElementType::kFloat64, comm::Reduction::kSum);
  return std::sqrt(squares);
}

}  // namespace weft::execute
