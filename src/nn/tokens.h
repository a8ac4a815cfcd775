// Which tokens of its sequences a value holds on a rank, and the leaves that sums over tokens have in strict mode.
#pragma once

#include <cstdint>
#include <vector>

#include "base/units.h"
#include "nn/run_context.h"

namespace weft::nn {

// Consecutive tokens of a sequence.
struct TokenRun {
  int64_t unit = 0;   // the sequence unit (shard.h) of the first
  Range positions;    // in the whole sequence
  int64_t first = 0;  // place of the first among the tokens held
};

struct HeldTokens {
  std::vector<TokenRun> units;  // in the order in which they lie
  int64_t length = 0;           // of whole sequences
  int64_t count = 0;            // held of each sequence

  // The same tokens in as few runs as possible; no empty ones.
  [[nodiscard]] std::vector<TokenRun> runs() const;
};

// All that the context rank holds: embed, query_key_value, attention, mlp, logits, loss.
[[nodiscard]] HeldTokens context_tokens(const RunContext& context);
// What the residual stream holds: norm, residual.
[[nodiscard]] HeldTokens stream_tokens(const RunContext& context);

// One sample's tokens of one unit, as rows of a matrix [sequences * held, ...].
struct TokenLeaf {
  int64_t leaf = 0;  // (sample id - first sample) * kUnits + unit
  int64_t sequence = 0;
  TokenRun tokens;
  int64_t row = 0;  // of the first
  [[nodiscard]] int64_t rows() const { return tokens.positions.size(); }
};

// The leaves of the micro-batch's sums over these tokens; those of empty units too, which are zero.
[[nodiscard]] std::vector<TokenLeaf> token_leaves(const RunContext& context, const HeldTokens& tokens);

}  // namespace weft::nn
