// The committed Hugging Face models: what weft computes from them against what transformers computed
// (tests/data/hf_models).
#include <cmath>
#include <filesystem>
#include <set>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "base/safetensors_file.h"
#include "checkpoint/stored_tensor.h"
#include "serve/evaluate.h"
#include "serve/generate.h"
#include "serve/loaded_model.h"

namespace weft::serve {
namespace {

namespace fs = std::filesystem;

const fs::path kModels = "tests/data/hf_models";

class HuggingFaceModel : public testing::TestWithParam<std::string> {
 protected:
  HuggingFaceModel()
      : golden_(kModels / GetParam() / "golden.safetensors"),
        facts_(read_json_file(kModels / GetParam() / "golden.json")) {}

  at::Tensor golden(const std::string& name) const {
    const StoredTensor* tensor = golden_.find(name);
    EXPECT_NE(tensor, nullptr) << name;
    return checkpoint::tensor_of(golden_.data(*tensor), tensor->type, tensor->shape);
  }
  TokenRows rows() const {
    const at::Tensor ids = golden("input_ids");
    TokenRows rows;
    for (int64_t row = 0; row < ids.size(0); ++row) {
      const auto* begin = ids[row].const_data_ptr<int64_t>();
      rows.emplace_back(begin, begin + ids.size(1));
    }
    return rows;
  }

  SafetensorsFile golden_;
  Json facts_;
};

TEST_P(HuggingFaceModel, LogitsAndLoss) {
  auto loaded = load_model(kModels / GetParam(), at::kFloat);
  EXPECT_TRUE(loaded.source.warnings.empty()) << loaded.source.warnings.front();
  const at::Tensor expected = golden("logits");
  std::set<size_t> seen;
  EvaluationOptions options;
  options.on_logits = [&](size_t row, const at::Tensor& logits) {
    seen.insert(row);
    EXPECT_LT((logits - expected[static_cast<int64_t>(row)]).abs().max().item<double>(), 1e-5);
  };
  const auto result = evaluate(loaded.description(), *loaded.parameters, rows(), options);
  EXPECT_EQ(seen.size(), 2u);
  EXPECT_EQ(result.tokens, 2 * 47);
  EXPECT_NEAR(result.loss, facts_.at("loss_f64").get<double>(), 5e-6);
}

TEST_P(HuggingFaceModel, FieldNamesOfTransformers4) {
  const fs::path directory = fs::temp_directory_path() / ("weft-v4-" + GetParam());
  fs::remove_all(directory);
  fs::create_directories(directory);
  fs::copy(kModels / GetParam() / "config_v4.json", directory / "config.json");
  fs::copy(kModels / GetParam() / "model.safetensors", directory / "model.safetensors");
  auto loaded = load_model(directory, at::kFloat);
  EXPECT_TRUE(loaded.source.warnings.empty()) << loaded.source.warnings.front();
  const auto result = evaluate(loaded.description(), *loaded.parameters, rows());
  EXPECT_NEAR(result.loss, facts_.at("loss_f64").get<double>(), 5e-6);
  fs::remove_all(directory);
}

TEST_P(HuggingFaceModel, Gradients) {
  auto loaded = load_model(kModels / GetParam(), at::kFloat);
  EvaluationOptions options;
  options.gradients = true;
  (void)evaluate(loaded.description(), *loaded.parameters, rows(), options);
  const auto gradients =
      checkpoint::in_hugging_face_layout(loaded.description(), loaded.source.architecture,
                                         [&](int parameter) { return loaded.parameters->gradient(parameter); });
  EXPECT_EQ(gradients.size(), facts_.at("grad_norm").size());
  for (const auto& [name, gradient] : gradients) {
    const auto norm = facts_.at("grad_norm").at(name).get<double>();
    EXPECT_NEAR(gradient.norm().item<double>(), norm, 1e-5 * norm) << name;
    if (golden_.find("grad." + name) != nullptr) {
      const at::Tensor expected = golden("grad." + name);
      EXPECT_LT((gradient - expected).norm().item<double>(), 1e-5 * norm) << name;
    }
  }
}

TEST_P(HuggingFaceModel, GreedyText) {
  auto loaded = load_model(kModels / GetParam(), at::kFloat);
  const auto prompt = facts_.at("greedy").at("prompt").get<std::vector<TokenId>>();
  GenerationOptions options;
  options.sampling.temperature = 0;
  options.max_tokens = 20;
  const auto result = generate(loaded.description(), *loaded.parameters, prompt, options);
  EXPECT_EQ(result.tokens, facts_.at("greedy").at("new").get<std::vector<TokenId>>());
  EXPECT_EQ(result.stop, StopReason::kLength);
}

INSTANTIATE_TEST_SUITE_P(Models, HuggingFaceModel, testing::Values("gpt2", "llama_tied", "llama_untied", "qwen3"),
                         [](const auto& model) { return model.param; });

}  // namespace
}  // namespace weft::serve
