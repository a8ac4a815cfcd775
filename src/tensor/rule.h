// What an operator does to placements: a line of factors, looked up by the specs of its inputs.
// docs/sharded-tensors.md.
//
//   const Rule rule("mm", "m k, k n -> m n", {.linear = Linear::kEach});
//
// Each word is one dim's factor; a factor that several dims share has one size. On every mesh axis, alone:
//   all inputs invariant                   -> invariant; invariant beside anything else is an error
//   all inputs replicate                   -> replicate
//   a factor cut in all its holders, the inputs without it replicate
//                                          -> cut, or partial where the output lacks it (it was added over)
//   kEach: one linear input partial, the others replicate;   kTogether: all linear inputs partial, the others replicate
//                                          -> partial
// Nothing else is allowed: a rule never moves data, and its error names both specs and the call that fixes it.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mesh/spec.h"

namespace weft::tensor {

enum class Linear : uint8_t {
  kNo,
  kEach,      // in each of the linear inputs, the others fixed
  kTogether,  // in all linear inputs at once
};

struct RuleOptions {
  Linear linear = Linear::kNo;
  uint32_t linear_inputs = ~0U;  // bit i: input i
  std::string_view whole = "";   // factors that no axis may cut
  int type_of = 0;               // the input whose element type the output has
};

// The same with numbers for factors, for operators whose dims are arguments.
struct Factors {
  static constexpr int kOne = -1;          // a dim of size 1 of the output
  std::vector<std::vector<int>> inputs;    // of each dim
  std::vector<int> output;                 // of each dim
  std::vector<int> whole;                  // may not be cut
  std::vector<int64_t> output_sizes = {};  // where they differ from the inputs'; empty: they do not
};

class Rule {
 public:
  static constexpr size_t kMostInputs = 4;
  using Inputs = std::span<const mesh::Spec* const>;
  using Arguments = std::array<int64_t, 3>;
  // Returns the output's spec; throws Error.
  using Infer = std::function<const mesh::Spec*(const Rule&, Inputs, const Arguments&)>;

  // In the notation, "..." stands for leading dims, aligned at the last one and broadcast: a dim of size 1 does not
  // hold the factor.
  Rule(std::string_view name, std::string_view notation, RuleOptions options = {});
  Rule(std::string_view name, Infer infer, RuleOptions options = {});
  ~Rule();
  Rule(const Rule&) = delete;
  Rule& operator=(const Rule&) = delete;

  // The output's spec. `arguments` are whatever the answer depends on beside the specs. Safe from several threads; a
  // lookup takes no lock.
  template <typename... Specs>
  const mesh::Spec* operator()(const Specs*... specs) const {
    return with({}, specs...);
  }
  template <typename... Specs>
  const mesh::Spec* with(Arguments arguments, const Specs*... specs) const {
    static_assert(sizeof...(specs) <= kMostInputs);
    return find({{specs...}, arguments, static_cast<int>(sizeof...(specs))});
  }

  // What infer functions call.
  [[nodiscard]] const mesh::Spec* infer(Inputs inputs, const Factors& factors) const;
  [[nodiscard]] const mesh::Spec* infer(Inputs inputs, const Factors& factors, const RuleOptions& options) const;
  [[nodiscard]] const std::string& name() const { return name_; }

 private:
  struct Key {
    std::array<const mesh::Spec*, kMostInputs> specs = {};
    Arguments arguments = {};
    int count = 0;
    friend bool operator==(const Key&, const Key&) = default;
  };
  struct Entry {
    Key key;
    const mesh::Spec* output = nullptr;
    Entry* next = nullptr;
  };
  static constexpr size_t kBuckets = 64;

  const mesh::Spec* find(const Key& key) const;
  const mesh::Spec* add(const Key& key, std::atomic<Entry*>& bucket) const;

  std::string name_;
  RuleOptions options_;
  Infer infer_;
  // Chains that only grow, so that readers need no lock.
  mutable std::array<std::atomic<Entry*>, kBuckets> buckets_ = {};
};

}  // namespace weft::tensor
