#include "nn/tokens.h"

#include <ATen/ATen.h>

namespace weft::nn {
namespace {

HeldTokens held(const std::vector<int64_t>& units, int64_t length) {
  HeldTokens tokens;
  tokens.length = length;
  for (const int64_t unit : units) {
    const Range positions = part(length, kUnits, unit);
    tokens.units.push_back({unit, positions, tokens.count});
    tokens.count += positions.size();
  }
  return tokens;
}

}  // namespace

std::vector<TokenRun> HeldTokens::runs() const {
  std::vector<TokenRun> result;
  for (const TokenRun& unit : units) {
    if (unit.positions.size() == 0) continue;
    if (!result.empty() && result.back().positions.end == unit.positions.begin) {
      result.back().positions.end = unit.positions.end;
    } else {
      result.push_back(unit);
    }
  }
  return result;
}

HeldTokens context_tokens(const RunContext& context) {
  return held(context_units(context.shard.context, context.shard.context_rank), context.batch->whole_length());
}

HeldTokens stream_tokens(const RunContext& context) {
  return held(sequence_units(context.shard), context.batch->whole_length());
}

std::vector<TokenLeaf> token_leaves(const RunContext& context, const HeldTokens& tokens) {
  const at::Tensor ids = context.batch->sample_ids.cpu().contiguous();
  std::vector<TokenLeaf> leaves;
  for (int64_t sequence = 0; sequence < ids.numel(); ++sequence) {
    const int64_t sample = ids.const_data_ptr<int64_t>()[sequence] - context.first_sample;
    for (const TokenRun& unit : tokens.units) {
      leaves.push_back({sample * kUnits + unit.unit, sequence, unit, sequence * tokens.count + unit.first});
    }
  }
  return leaves;
}

}  // namespace weft::nn
