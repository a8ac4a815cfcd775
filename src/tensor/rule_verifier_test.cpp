#include "tensor/rule_verifier.h"

#include <optional>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "base/error.h"
#include "mesh/shard.h"
#include "tensor/operators.h"
#include "tensor/rule.h"
#include "tensor/test_shards.h"

namespace weft::tensor {
namespace {

// Threads of LibTorch's own would only wait for each other: the tensors are tiny.
class OneThread : public testing::Environment {
 public:
  void SetUp() override { at::set_num_threads(1); }
};
const auto* const kOneThread = testing::AddGlobalTestEnvironment(new OneThread);

using mesh::Spec;
using Tensors = std::vector<at::Tensor>;
using Specs = std::vector<const Spec*>;

bool has_gradient(InputKind kind) { return kind == InputKind::kNumber || kind == InputKind::kPositive; }
bool is_number(InputKind kind) { return has_gradient(kind) || kind == InputKind::kConstant; }

at::Tensor made(const CaseInput& input, int64_t seed) {
  int64_t count = 1;
  for (const int64_t size : input.shape) count *= size;
  const at::Tensor wave = at::sin((at::arange(count, at::kDouble) + static_cast<double>(seed)) * 12.9898) * 437.585;
  const at::Tensor fraction = (wave - at::floor(wave)).view(input.shape);
  switch (input.kind) {
    case InputKind::kNumber:
    case InputKind::kConstant:
      return 2 * fraction - 1;
    case InputKind::kPositive:
      return fraction + 0.5;
    case InputKind::kPlace:
      return at::floor(fraction * static_cast<double>(input.below)).to(at::kLong);
    case InputKind::kBit:
      return at::round(fraction).to(at::kByte);
  }
  return {};
}

// What all ranks computed.
struct Outcome {
  const Spec* spec = nullptr;
  Tensors outputs;              // of each rank
  std::vector<Tensors> leaves;  // of each rank
};

class Verifier {
 public:
  Verifier(const OperatorCase& operator_case, const mesh::Mesh& mesh) : case_(operator_case), mesh_(mesh) {
    for (const CaseInput& input : case_.inputs) {
      wholes_.push_back(made(input, static_cast<int64_t>(wholes_.size()) * 100));
    }
    Tensors leaves = as_leaves(wholes_);
    const at::Tensor output = case_.plain(leaves);
    output_ = output.detach();
    upper_ = made({output_.sizes().vec()}, 999).to(output_.scalar_type());
    gradients_ = gradients_of(output, leaves, upper_);
  }

  std::string run() {
    Specs chosen;
    choose(chosen);
    return fmt::format("{}", fmt::join(complaints_, "\n"));
  }

 private:
  [[nodiscard]] Tensors as_leaves(const Tensors& tensors) const {
    Tensors leaves;
    for (size_t i = 0; i < tensors.size(); ++i) {
      leaves.push_back(tensors[i].detach().clone().set_requires_grad(has_gradient(case_.inputs[i].kind)));
    }
    return leaves;
  }

  // One an input; undefined for inputs without.
  [[nodiscard]] Tensors gradients_of(const at::Tensor& output, const Tensors& leaves, const at::Tensor& upper) const {
    Tensors wanted, gradients(leaves.size());
    for (const at::Tensor& leaf : leaves) {
      if (leaf.requires_grad()) wanted.push_back(leaf);
    }
    if (!output.requires_grad()) return gradients;
    const Tensors found = torch::autograd::grad({output}, wanted, {upper}, std::nullopt, false, true);
    size_t next = 0;
    for (size_t i = 0; i < leaves.size(); ++i) {
      if (!leaves[i].requires_grad()) continue;
      gradients[i] = found[next].defined() ? found[next] : at::zeros_like(leaves[i]);
      ++next;
    }
    return gradients;
  }

  void choose(Specs& chosen) {
    if (chosen.size() == case_.inputs.size()) return judge(chosen);
    const at::Tensor& whole = wholes_[chosen.size()];
    std::vector<mesh::Placement> kinds = {kR, kI};
    if (is_number(case_.inputs[chosen.size()].kind)) kinds.push_back(kP);
    for (int64_t dim = 0; dim < whole.dim(); ++dim) kinds.push_back(shard(static_cast<int8_t>(dim)));
    std::vector<size_t> places(mesh_.axes.size(), 0);
    while (true) {
      std::vector<mesh::Placement> placements;
      for (const size_t place : places) placements.push_back(kinds[place]);
      chosen.push_back(spec_of(whole, mesh_, placements));
      choose(chosen);
      chosen.pop_back();
      size_t axis = 0;
      while (axis < places.size() && ++places[axis] == kinds.size()) places[axis++] = 0;
      if (axis == places.size()) return;
    }
  }

  // The placements of the inputs on the only axis.
  [[nodiscard]] std::string text(const Specs& specs) const {
    std::vector<std::string> words;
    for (const Spec* spec : specs) {
      std::vector<std::string> axes;
      for (const mesh::Placement placement : spec->placements) axes.push_back(mesh::text(placement));
      words.push_back(fmt::format("{}", fmt::join(axes, " x ")));
    }
    return fmt::format("{}", fmt::join(words, ", "));
  }

  [[nodiscard]] Tensors parts_of(const Specs& specs, int rank) const {
    Tensors parts;
    for (size_t i = 0; i < specs.size(); ++i) {
      parts.push_back(part_for(wholes_[i], *specs[i], rank, static_cast<int64_t>(i)));
    }
    return as_leaves(parts);
  }

  void judge(const Specs& specs) {
    Outcome outcome;
    try {
      for (int rank = 0; rank < mesh_.ranks(); ++rank) {
        outcome.leaves.push_back(parts_of(specs, rank));
        std::vector<DTensor> inputs;
        for (size_t i = 0; i < specs.size(); ++i) inputs.push_back({outcome.leaves.back()[i], specs[i]});
        const DTensor output = case_.sharded(inputs, mesh::DeviceMesh(mesh_, rank));
        outcome.spec = output.spec;
        outcome.outputs.push_back(output.local);
      }
    } catch (const Error&) {
      return look_for_a_rule(specs);
    }
    const std::string wrong = mistake(outcome, specs);
    if (!wrong.empty()) complaints_.push_back(fmt::format("{}: wrong rule: {}: {}", case_.name, text(specs), wrong));
  }

  void look_for_a_rule(const Specs& specs) {
    if (mesh_.axes.size() != 1 || case_.refused.contains(text(specs))) return;
    size_t invariant = 0;
    for (const Spec* spec : specs) invariant += spec->placements[0] == kI ? 1 : 0;
    if (invariant > 0 && invariant < specs.size()) return;
    Outcome outcome;
    try {
      for (int rank = 0; rank < mesh_.ranks(); ++rank) {
        outcome.leaves.push_back(parts_of(specs, rank));
        outcome.outputs.push_back(case_.plain(outcome.leaves.back()));
      }
    } catch (const std::exception&) {
      return;  // the parts do not even fit each other
    }
    std::vector<mesh::Placement> candidates = {invariant > 0 ? kI : kR, kP};
    for (int64_t dim = 0; dim < output_.dim(); ++dim) candidates.push_back(shard(static_cast<int8_t>(dim)));
    for (const mesh::Placement candidate : candidates) {
      outcome.spec = spec_of(output_, mesh_, {candidate});
      if (!mistake(outcome, specs).empty()) continue;
      complaints_.push_back(fmt::format("{}: missing rule: {} -> {}", case_.name, text(specs), mesh::text(candidate)));
    }
  }

  // "" if the parts are those of `whole` in this spec.
  [[nodiscard]] std::string difference(const Tensors& parts, const Spec& spec, const at::Tensor& whole) const {
    Spec summed = spec;
    mesh::AxisSet partial = 0;
    for (size_t axis = 0; axis < spec.placements.size(); ++axis) {
      if (spec.placements[axis] != kP) continue;
      partial |= mesh::axis_bit(axis);
      summed.placements[axis] = kR;
    }
    if (spec.shape != whole.sizes().vec()) return "shape";
    for (int rank = 0; rank < mesh_.ranks(); ++rank) {
      const at::Tensor expected = part_for(whole, summed, rank, 0).to(at::kDouble);
      at::Tensor sum = at::zeros_like(expected);
      for (const int member : mesh::DeviceMesh(mesh_, rank).members(partial)) {
        const at::Tensor& part = parts[static_cast<size_t>(member)];
        if (part.sizes() != expected.sizes()) return fmt::format("shape on rank {}", rank);
        sum += part.to(at::kDouble);
      }
      const double tolerance = output_.scalar_type() == at::kFloat ? 1e-5 : 1e-9;
      if (!at::allclose(sum, expected, tolerance, tolerance)) return fmt::format("rank {}", rank);
    }
    return "";
  }

  [[nodiscard]] std::string mistake(const Outcome& outcome, const Specs& specs) const {
    std::string wrong = difference(outcome.outputs, *outcome.spec, output_);
    if (!wrong.empty()) return fmt::format("value as {}: {}", outcome.spec->text(), wrong);
    std::vector<Tensors> of_ranks;
    for (int rank = 0; rank < mesh_.ranks(); ++rank) {
      const auto place = static_cast<size_t>(rank);
      const at::Tensor upper = part_for(upper_, *mesh::gradient_spec(*outcome.spec), rank, 3);
      of_ranks.push_back(gradients_of(outcome.outputs[place], outcome.leaves[place], upper));
    }
    for (size_t input = 0; input < specs.size(); ++input) {
      if (!gradients_[input].defined()) continue;
      Tensors parts;
      for (const Tensors& gradients : of_ranks) parts.push_back(gradients[input]);
      if (!parts[0].defined()) return fmt::format("no gradient of input {}", input + 1);
      wrong = difference(parts, *mesh::gradient_spec(*specs[input]), gradients_[input]);
      if (!wrong.empty()) return fmt::format("gradient of input {}: {}", input + 1, wrong);
    }
    return "";
  }

  const OperatorCase& case_;
  const mesh::Mesh& mesh_;
  Tensors wholes_, gradients_;
  at::Tensor output_, upper_;
  std::vector<std::string> complaints_;
};

OperatorCase softmax_case(const Rule& rule) {
  return {"softmax",
          {{{5, 4}}},
          [&rule](std::vector<DTensor>& x, const mesh::DeviceMesh&) {
            const Spec* spec = rule(x[0].spec);
            return DTensor{at::softmax(x[0].local, 1), spec};
          },
          [](Tensors& x) { return at::softmax(x[0], 1); }};
}

TEST(RuleVerifier, AWrongRuleIsReported) {
  const Rule any_dim("softmax", "a b -> a b");
  const std::string wrong = verify(softmax_case(any_dim), {{{"tp", 2}}});
  EXPECT_EQ(wrong, "softmax: wrong rule: shard(1): value as f64[5, 4] {tp: shard(1)}: rank 0");
  const Rule linear("softmax", "a b -> a b", {.linear = Linear::kEach, .whole = "b"});
  EXPECT_NE(verify(softmax_case(linear), {{{"tp", 2}}}).find("wrong rule: partial"), std::string::npos);
}

TEST(RuleVerifier, AMissingRuleIsReported) {
  const Rule no_dim("softmax", "a b -> a b", {.whole = "a b"});
  EXPECT_EQ(verify(softmax_case(no_dim), {{{"tp", 3}}}), "softmax: missing rule: shard(0) -> shard(0)");
  const Rule right("softmax", "a b -> a b", {.whole = "b"});
  EXPECT_EQ(verify(softmax_case(right), {{{"tp", 3}}}), "");
}

// A product whose gradient of a replicated factor would be claimed whole: the value is right, the gradient is not.
TEST(RuleVerifier, AWrongGradientIsReported) {
  const OperatorCase scaled{"scaled",
                            {{{5, 4}}},
                            [](std::vector<DTensor>& x, const mesh::DeviceMesh&) {
                              return DTensor{x[0].local * 2 - x[0].local.detach(), neg(x[0]).spec};
                            },
                            [](Tensors& x) { return x[0] * 1; }};
  EXPECT_NE(verify(scaled, {{{"tp", 2}}}).find("gradient of input 1"), std::string::npos);
}

}  // namespace

std::string verify(const OperatorCase& operator_case, const mesh::Mesh& mesh) {
  return Verifier(operator_case, mesh).run();
}

}  // namespace weft::tensor
