#include "tensor/operator_cases.h"

#include <cmath>

#include <ATen/ATen.h>

#include "tensor/operators.h"
#include "tensor/random.h"

namespace weft::tensor {
namespace {

using Tensors = std::vector<at::Tensor>;
using Sharded = std::vector<DTensor>;
using Place = const mesh::DeviceMesh&;

at::Tensor turned(const at::Tensor& x, const at::Tensor& cosine, const at::Tensor& sine) {
  const int64_t half = x.size(3) / 2;
  const at::Tensor first = x.slice(3, 0, half), second = x.slice(3, half);
  return x * cosine.unsqueeze(1) + at::cat({-second, first}, 3) * sine.unsqueeze(1);
}

at::Tensor attended(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
  const at::Tensor scores = at::matmul(q, k.transpose(2, 3)) / std::sqrt(static_cast<double>(q.size(3)));
  const at::Tensor later = at::ones({q.size(2), k.size(2)}, at::kBool).triu(1);
  return at::matmul(at::softmax(scores.masked_fill(later, -INFINITY), 3), v);
}

// By the definition of docs/random-numbers.md; of a whole tensor only.
constexpr RandomKey kKey{3, 5};
at::Tensor dropped(const at::Tensor& x) {
  const at::Tensor factors = at::zeros({5, 4}, at::kDouble);
  for (int64_t i = 0; i < factors.numel(); ++i) {
    const bool kept = dropout_keeps(random_word(kKey, static_cast<uint64_t>(i)), dropout_threshold(0.25));
    factors.view({-1})[i] = kept ? static_cast<float>(1 / 0.75) : 0;
  }
  return x * factors;
}

const auto kPositive = InputKind::kPositive;
const auto kPlace = InputKind::kPlace;
const auto kBit = InputKind::kBit;

}  // namespace

const std::vector<OperatorCase>& operator_cases() {
  static const std::vector<OperatorCase> cases = {
      {"mm",
       {{{6, 4}}, {{4, 5}}},
       [](Sharded& x, Place) { return mm(x[0], x[1]); },
       [](Tensors& x) { return at::matmul(x[0], x[1]); }},
      {"bmm",
       {{{5, 2, 4}}, {{5, 4, 3}}},
       [](Sharded& x, Place) { return bmm(x[0], x[1]); },
       [](Tensors& x) { return at::matmul(x[0], x[1]); }},
      {"linear",
       {{{2, 5, 4}}, {{3, 4}}},
       [](Sharded& x, Place) { return linear(x[0], x[1]); },
       [](Tensors& x) { return at::matmul(x[0], x[1].t()); }},
      {"linear with bias",
       {{{5, 4}}, {{3, 4}}, {{3}}},
       [](Sharded& x, Place) { return linear(x[0], x[1], x[2]); },
       [](Tensors& x) { return at::matmul(x[0], x[1].t()) + x[2]; },
       {"shard(1), shard(1), partial", "replicate, partial, partial", "partial, replicate, partial"}},
      {"causal_attention",
       {{{2, 3, 4, 4}}, {{2, 3, 4, 4}}, {{2, 3, 4, 5}}},
       [](Sharded& x, Place) { return causal_attention(x[0], x[1], x[2]); },
       [](Tensors& x) { return attended(x[0], x[1], x[2]); }},
      {"rotate",
       {{{2, 5, 3, 4}}, {{5, 4}}, {{5, 4}}},
       [](Sharded& x, Place) { return rotate(x[0], x[1], x[2]); },
       [](Tensors& x) { return turned(x[0], x[1], x[2]); },
       {"replicate, partial, partial"}},  // in the table alone: nobody adds tables
      {"embedding",
       {{{5, 2}, kPlace, 6}, {{6, 4}}},
       [](Sharded& x, Place p) { return embedding(x[0], x[1], p); },
       [](Tensors& x) { return at::index(x[1], {x[0]}); }},
      {"add",
       {{{5, 4}}, {{5, 4}}},
       [](Sharded& x, Place) { return add(x[0], x[1]); },
       [](Tensors& x) { return x[0] + x[1]; }},
      {"add to each row",
       {{{5, 4}}, {{4}}},
       [](Sharded& x, Place) { return add(x[0], x[1]); },
       [](Tensors& x) { return x[0] + x[1]; }},
      {"sub",
       {{{5, 4}}, {{5, 4}}},
       [](Sharded& x, Place) { return sub(x[0], x[1]); },
       [](Tensors& x) { return x[0] - x[1]; }},
      {"mul",
       {{{5, 4}}, {{5, 4}}},
       [](Sharded& x, Place) { return mul(x[0], x[1]); },
       [](Tensors& x) { return x[0] * x[1]; }},
      {"mul by a column",
       {{{5, 4}}, {{5, 1}}},
       [](Sharded& x, Place) { return mul(x[0], x[1]); },
       [](Tensors& x) { return x[0] * x[1]; }},
      {"div",
       {{{5, 4}}, {{5, 4}, kPositive}},
       [](Sharded& x, Place) { return div(x[0], x[1]); },
       [](Tensors& x) { return x[0] / x[1]; }},
      {"maximum",
       {{{5, 4}}, {{5, 4}}},
       [](Sharded& x, Place) { return maximum(x[0], x[1]); },
       [](Tensors& x) { return at::maximum(x[0], x[1]); }},
      {"neg", {{{5, 4}}}, [](Sharded& x, Place) { return neg(x[0]); }, [](Tensors& x) { return -x[0]; }},
      {"scale", {{{5, 4}}}, [](Sharded& x, Place) { return scale(x[0], 1.5); }, [](Tensors& x) { return x[0] * 1.5; }},
      {"shift", {{{5, 4}}}, [](Sharded& x, Place) { return shift(x[0], 1.5); }, [](Tensors& x) { return x[0] + 1.5; }},
      {"power",
       {{{5, 4}, kPositive}},
       [](Sharded& x, Place) { return power(x[0], 1.5); },
       [](Tensors& x) { return at::pow(x[0], 1.5); }},
      {"square", {{{5, 4}}}, [](Sharded& x, Place) { return square(x[0]); }, [](Tensors& x) { return x[0] * x[0]; }},
      {"exp", {{{5, 4}}}, [](Sharded& x, Place) { return exp(x[0]); }, [](Tensors& x) { return at::exp(x[0]); }},
      {"log",
       {{{5, 4}, kPositive}},
       [](Sharded& x, Place) { return log(x[0]); },
       [](Tensors& x) { return at::log(x[0]); }},
      {"sqrt",
       {{{5, 4}, kPositive}},
       [](Sharded& x, Place) { return sqrt(x[0]); },
       [](Tensors& x) { return at::sqrt(x[0]); }},
      {"rsqrt",
       {{{5, 4}, kPositive}},
       [](Sharded& x, Place) { return rsqrt(x[0]); },
       [](Tensors& x) { return 1 / at::sqrt(x[0]); }},
      {"abs", {{{5, 4}}}, [](Sharded& x, Place) { return abs(x[0]); }, [](Tensors& x) { return at::abs(x[0]); }},
      {"tanh", {{{5, 4}}}, [](Sharded& x, Place) { return tanh(x[0]); }, [](Tensors& x) { return at::tanh(x[0]); }},
      {"sigmoid",
       {{{5, 4}}},
       [](Sharded& x, Place) { return sigmoid(x[0]); },
       [](Tensors& x) { return 1 / (1 + at::exp(-x[0])); }},
      {"relu", {{{5, 4}}}, [](Sharded& x, Place) { return relu(x[0]); }, [](Tensors& x) { return at::relu(x[0]); }},
      {"silu",
       {{{5, 4}}},
       [](Sharded& x, Place) { return silu(x[0]); },
       [](Tensors& x) { return x[0] * at::sigmoid(x[0]); }},
      {"gelu",
       {{{5, 4}}},
       [](Sharded& x, Place) { return gelu(x[0]); },
       [](Tensors& x) { return x[0] * 0.5 * (1 + at::erf(x[0] / std::sqrt(2.0))); }},
      {"swiglu",
       {{{5, 4}}, {{5, 4}}},
       [](Sharded& x, Place) { return swiglu(x[0], x[1]); },
       [](Tensors& x) { return x[0] * at::sigmoid(x[0]) * x[1]; }},
      {"clamp",
       {{{5, 4}}},
       [](Sharded& x, Place) { return clamp(x[0], -0.5, 0.25); },
       [](Tensors& x) { return at::clamp(x[0], -0.5, 0.25); }},
      {"where",
       {{{5, 4}, kBit}, {{5, 4}}, {{5, 4}}},
       [](Sharded& x, Place) { return where(x[0], x[1], x[2]); },
       [](Tensors& x) { return at::where(x[0] == 1, x[1], x[2]); }},
      {"masked_fill",
       {{{5, 4}}, {{5, 4}, kBit}},
       [](Sharded& x, Place) { return masked_fill(x[0], x[1], 2.5); },
       [](Tensors& x) { return at::where(x[1] == 1, 2.5, x[0]); }},
      {"cast",
       {{{5, 4}}},
       [](Sharded& x, Place) { return cast(x[0], mesh::ElementType::kFloat32); },
       [](Tensors& x) { return x[0].to(at::kFloat); },
       {"partial"}},  // right for numbers that fit
      {"detach",
       {{{5, 4}, InputKind::kConstant}},
       [](Sharded& x, Place) { return detach(x[0]); },
       [](Tensors& x) { return x[0]; }},
      {"clone", {{{5, 4}}}, [](Sharded& x, Place) { return clone(x[0]); }, [](Tensors& x) { return x[0] * 1; }},
      {"sum of a dim",
       {{{5, 4}}},
       [](Sharded& x, Place) { return sum(x[0], 0); },
       [](Tensors& x) { return at::sum(x[0], 0); }},
      {"sum", {{{5, 4}}}, [](Sharded& x, Place) { return sum(x[0]); }, [](Tensors& x) { return at::sum(x[0]); }},
      // The mean of a part is another thing than a part of the mean: `plain` divides by the whole size.
      {"mean of a dim",
       {{{5, 4}}},
       [](Sharded& x, Place) { return mean(x[0], -1); },
       [](Tensors& x) { return at::sum(x[0], -1) / 4; }},
      {"mean", {{{5, 4}}}, [](Sharded& x, Place) { return mean(x[0]); }, [](Tensors& x) { return at::sum(x[0]) / 20; }},
      {"square_sum",
       {{{5, 4}}},
       [](Sharded& x, Place) { return square_sum(x[0]); },
       [](Tensors& x) { return at::sum(x[0] * x[0]); }},
      {"amax",
       {{{5, 4}}},
       [](Sharded& x, Place) { return amax(x[0], 1); },
       [](Tensors& x) { return std::get<0>(at::max(x[0], 1)); }},
      {"softmax",
       {{{5, 4}}},
       [](Sharded& x, Place) { return softmax(x[0], 1); },
       [](Tensors& x) { return at::exp(x[0]) / at::exp(x[0]).sum(1, true); }},
      {"log_softmax",
       {{{5, 4}}},
       [](Sharded& x, Place) { return log_softmax(x[0], -1); },
       [](Tensors& x) { return x[0] - at::log(at::exp(x[0]).sum(1, true)); }},
      {"cumulative_sum",
       {{{5, 4}}},
       [](Sharded& x, Place) { return cumulative_sum(x[0], 1); },
       [](Tensors& x) { return at::cumsum(x[0], 1); }},
      {"rms_norm",
       {{{3, 5, 4}}, {{4}}},
       [](Sharded& x, Place) { return rms_norm(x[0], x[1], 1e-6); },
       [](Tensors& x) { return x[0] / at::sqrt((x[0] * x[0]).mean(-1, true) + 1e-6) * x[1]; }},
      {"layer_norm",
       {{{5, 4}}, {{4}}, {{4}}},
       [](Sharded& x, Place) { return layer_norm(x[0], x[1], x[2], 1e-6); },
       [](Tensors& x) {
         const at::Tensor centred = x[0] - x[0].mean(-1, true);
         return centred / at::sqrt((centred * centred).mean(-1, true) + 1e-6) * x[1] + x[2];
       }},
      {"transpose",
       {{{5, 3, 4}}},
       [](Sharded& x, Place) { return transpose(x[0], 0, -1); },
       [](Tensors& x) { return x[0].transpose(0, 2); }},
      {"permute",
       {{{5, 3, 4}}},
       [](Sharded& x, Place) {
         return permute(x[0], {1, 2, 0});
       },
       [](Tensors& x) {
         return x[0].permute({1, 2, 0});
       }},
      {"unsqueeze",
       {{{5, 4}}},
       [](Sharded& x, Place) { return unsqueeze(x[0], 1); },
       [](Tensors& x) { return x[0].unsqueeze(1); }},
      {"squeeze",
       {{{5, 1, 4}}},
       [](Sharded& x, Place) { return squeeze(x[0], 1); },
       [](Tensors& x) { return x[0].select(1, 0); }},
      {"unflatten",
       {{{5, 12}}},
       [](Sharded& x, Place) { return unflatten(x[0], 1, 2); },
       [](Tensors& x) {
         return x[0].reshape({x[0].size(0), x[0].size(1) / 2, 2});
       }},
      {"flatten",
       {{{5, 3, 2}}},
       [](Sharded& x, Place) { return flatten(x[0], 0); },
       [](Tensors& x) {
         return x[0].reshape({x[0].size(0) * x[0].size(1), x[0].size(2)});
       }},
      {"narrow",
       {{{5, 4}}},
       [](Sharded& x, Place) { return narrow(x[0], 1, 1, 2); },
       [](Tensors& x) { return x[0].slice(1, 1, 3); }},
      {"split",
       {{{5, 4}}},
       [](Sharded& x, Place) { return split(x[0], 1, 2)[1]; },
       [](Tensors& x) { return x[0].slice(1, 2, 4); }},
      {"cat",
       {{{5, 4}}, {{5, 3}}},
       [](Sharded& x, Place) { return cat(x[0], x[1], 1); },
       [](Tensors& x) {
         return at::cat({x[0], x[1]}, 1);
       }},
      {"index_select",
       {{{5, 4}}, {{7}, kPlace, 5}},
       [](Sharded& x, Place) { return index_select(x[0], 0, x[1]); },
       [](Tensors& x) { return at::index(x[0], {x[1]}); }},
      {"dropout",
       {{{5, 4}}},
       [](Sharded& x, Place p) { return dropout(x[0], 0.25, kKey, p); },
       [](Tensors& x) { return dropped(x[0]); }},
  };
  return cases;
}

}  // namespace weft::tensor
