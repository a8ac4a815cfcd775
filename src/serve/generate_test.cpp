#include "serve/generate.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/utf8.h"
#include "model/describe.h"
#include "model/family.h"
#include "serve/evaluate.h"
#include "serve/forward_pass.h"

namespace weft::serve {
namespace {

// A byte-level model with learned positions and one with a rotation and a window, both with random weights.
class GenerateTest : public testing::TestWithParam<bool> {
 protected:
  GenerateTest() {
    if (GetParam()) {
      model::Gpt2Family family;
      fill(family);
      tree_ = family.model();
    } else {
      model::MistralFamily family;
      fill(family);
      family.kv_heads = 2;
      family.window = 5;
      tree_ = family.model();
    }
    description_ = model::describe(tree_);
    parameters_ = std::make_unique<nn::ParameterStore>(
        description_, std::vector<bool>(description_.parameters.size(), false), at::kFloat, at::kCPU);
    parameters_->initialize(3);
    // Larger matrices than a fresh model's, so that attention is not flat.
    for (size_t i = 0; i < parameters_->size(); ++i) {
      const at::Tensor& master = parameters_->master(static_cast<int>(i));
      if (master.dim() > 1) master.mul_(10);
    }
    parameters_->refresh_compute_copies();
  }

  static void fill(model::FamilyNode& family) {
    family.vocabulary = 256;
    family.width = 32;
    family.layers = 2;
    family.heads = 4;
    family.positions = 16;
  }

  // The logits behind the last token, without a cache.
  at::Tensor last_logits(std::span<const TokenId> tokens) {
    at::Tensor last;
    EvaluationOptions options;
    const auto place = static_cast<int64_t>(tokens.size()) - 1;
    options.on_logits = [&](size_t, const at::Tensor& logits) { last = logits[place]; };
    TokenRows rows(1);
    rows[0].assign(tokens.begin(), tokens.end());
    rows[0].resize(std::max<size_t>(2, tokens.size()));  // one token alone predicts nothing
    (void)evaluate(description_, *parameters_, rows, options);
    return last;
  }

  std::string refusal(std::vector<TokenId> prompt, GenerationOptions options = {}) {
    try {
      (void)generate(description_, *parameters_, prompt, options);
    } catch (const InputError& error) {
      return error.what();
    }
    return "accepted";
  }

  model::ModelNode tree_;
  model::ModelDescription description_;
  std::unique_ptr<nn::ParameterStore> parameters_;
};

TEST_P(GenerateTest, TheCacheChangesNothing) {
  const std::vector<TokenId> text = {7, 200, 3, 3, 90, 41, 255, 0, 8, 17, 33, 2};
  GrowingSequence sequence(description_, *parameters_);
  // In pieces of several sizes: the prompt at once, then one by one, then several behind a cache.
  size_t at = 0;
  for (const size_t count : {size_t{4}, size_t{1}, size_t{1}, size_t{3}, size_t{2}, size_t{1}}) {
    const auto logits = sequence.append(std::span(text).subspan(at, count));
    at += count;
    EXPECT_LT((logits - last_logits(std::span(text).first(at))).abs().max().item<float>(), 1e-4) << at;
  }
  EXPECT_EQ(sequence.length(), 12);
  sequence.clear();
  const auto again = sequence.append(std::span(text).first(4));
  EXPECT_LT((again - last_logits(std::span(text).first(4))).abs().max().item<float>(), 1e-4);
}

TEST_P(GenerateTest, ForgetsTheBeginningBehindTheContext) {
  GenerationOptions options;
  options.sampling.temperature = 0;
  options.max_tokens = 30;
  const std::vector<TokenId> prompt = {1, 2, 3};
  const auto result = generate(description_, *parameters_, prompt, options);
  ASSERT_EQ(result.tokens.size(), 30u);
  EXPECT_TRUE(result.forgot);
  // By hand: after 16 tokens the last 8 stay.
  std::vector<TokenId> text = prompt, seen = prompt;
  for (const TokenId expected : result.tokens) {
    if (seen.size() == 17) seen.assign(seen.end() - 8, seen.end());
    EXPECT_EQ(last_logits(seen).argmax().item<int64_t>(), expected) << text.size();
    text.push_back(expected);
    seen.push_back(expected);
  }
}

TEST_P(GenerateTest, StopsWhereItIsTold) {
  GenerationOptions options;
  options.sampling.temperature = 1;
  options.max_tokens = 12;
  const std::vector<TokenId> prompt = {65, 66};
  const auto whole = generate(description_, *parameters_, prompt, options);
  EXPECT_EQ(whole.stop, StopReason::kLength);
  EXPECT_FALSE(whole.forgot);
  options.end_of_text = {whole.tokens[5]};
  const auto ended = generate(description_, *parameters_, prompt, options);
  EXPECT_EQ(ended.stop, StopReason::kEnd);
  EXPECT_EQ(ended.tokens.back(), whole.tokens[5]);
  EXPECT_LE(ended.tokens.size(), 6u);
  options.end_of_text = {};
  int told = 0;
  const auto stopped = generate(description_, *parameters_, prompt, options, [&](TokenId) { return ++told < 3; });
  EXPECT_EQ(stopped.tokens, std::vector<TokenId>(whole.tokens.begin(), whole.tokens.begin() + 3));
  options.max_tokens = 0;
  EXPECT_TRUE(generate(description_, *parameters_, prompt, options).tokens.empty());
}

TEST_P(GenerateTest, StreamsWholeCharacters) {
  const auto tokenizer = data::load_tokenizer("bytes");
  GenerationOptions options;
  options.sampling.temperature = 1.5;
  options.max_tokens = 60;
  std::string joined;
  const auto result = generate_text(description_, *parameters_, *tokenizer, tokenizer->encode("ab"), options,
                                    [&](std::string_view piece) {
                                      EXPECT_TRUE(is_utf8(piece));
                                      EXPECT_FALSE(piece.empty());
                                      joined += piece;
                                    });
  EXPECT_EQ(joined, result.text);
  EXPECT_EQ(joined, tokenizer->decode(result.generation.tokens));
  EXPECT_EQ(result.generation.tokens.size(), 60u);
}

TEST_P(GenerateTest, RefusesBadPrompts) {
  EXPECT_EQ(refusal({}), "the prompt is empty: give at least one token to continue");
  EXPECT_EQ(refusal({1, 256}), "token 256 of the prompt is beyond the model's vocabulary of 256");
  EXPECT_EQ(refusal(std::vector<TokenId>(17, 1)), "the prompt has 17 tokens, more than the model's context of 16");
  EXPECT_EQ(refusal(std::vector<TokenId>(16, 1)), "accepted");
  GenerationOptions options;
  options.sampling.top_p = 2;
  EXPECT_EQ(refusal({1}, options), "top-p is 2, it must be above 0 and at most 1");
}

TEST_P(GenerateTest, EvaluationRefusesBadRows) {
  const auto said = [&](const TokenRows& rows) {
    try {
      (void)evaluate(description_, *parameters_, rows);
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_EQ(said({{1, 2}, {3, 300}}), "row 1, token 1: id 300 is beyond the model's vocabulary of 256");
  EXPECT_EQ(said({{1, 2}, std::vector<TokenId>(17, 1)}), "row 1 has 17 tokens, more than the model's context of 16");
  EXPECT_EQ(said({{1}, {}}), "no token to predict: every row has fewer than two tokens");
  EXPECT_EQ(said({}), "no token to predict: every row has fewer than two tokens");
  EXPECT_EQ(said({{1}, {}, {1, 2}}), "accepted");
}

// Rows of different lengths: the mean is over tokens, not over rows.
TEST_P(GenerateTest, EvaluationCountsTokens) {
  const std::vector<TokenId> text = {7, 200, 3, 3, 90, 41, 255, 0, 8, 17, 33, 2, 9};
  const TokenRows rows = cut_into_windows(text, 5);
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[2], (std::vector<TokenId>{33, 2, 9}));
  const auto together = evaluate(description_, *parameters_, rows);
  EXPECT_EQ(together.tokens, 4 + 4 + 2);
  double sum = 0;
  for (const auto& row : rows) {
    const auto one = evaluate(description_, *parameters_, {row});
    sum += one.loss * static_cast<double>(one.tokens);
  }
  EXPECT_NEAR(together.loss, sum / 10, 1e-6 * together.loss);
  EXPECT_DOUBLE_EQ(together.perplexity(), std::exp(together.loss));
}

INSTANTIATE_TEST_SUITE_P(Positions, GenerateTest, testing::Bool(),
                         [](const auto& kind) { return kind.param ? "learned" : "rotated"; });

}  // namespace
}  // namespace weft::serve
