// Frequencies against those that transformers computes (tests/data/rope), read through a config.json.
#include <cmath>

#include <gtest/gtest.h>

#include "base/json.h"
#include "model/hugging_face.h"

namespace weft::model {
namespace {

TEST(Rope, GivesTransformersFrequencies) {
  const Json golden = read_json_file("tests/data/rope/golden.json");
  ASSERT_EQ(golden.size(), 10u);
  for (const Json& row : golden) {
    const Json config = {{"architectures", {"LlamaForCausalLM"}},
                         {"vocab_size", 8},
                         {"hidden_size", 256},
                         {"intermediate_size", 8},
                         {"num_hidden_layers", 1},
                         {"num_attention_heads", 2},
                         {"head_dim", row["head_dim"]},
                         {"max_position_embeddings", row["max_position_embeddings"]},
                         {"rope_parameters", row["rope_parameters"]}};
    const std::string name = row["rope_parameters"].dump();
    const HuggingFaceConfig read = parse_hugging_face_config(config.dump(), "row");
    EXPECT_TRUE(read.warnings.empty()) << name << read.warnings.front();
    const auto& attention = dynamic_cast<const GroupedQueryAttention&>(*read.model.layer.attention);
    const RopeFrequencies frequencies = attention.rope->frequencies(attention.head_dim);
    ASSERT_EQ(frequencies.inverse.size(), row["inverse"].size()) << name;
    for (size_t i = 0; i < frequencies.inverse.size(); ++i) {
      const double expected = row["inverse"][i];
      EXPECT_NEAR(frequencies.inverse[i] / expected, 1, 3e-6) << name << " " << i;  // theirs are float32
    }
    EXPECT_DOUBLE_EQ(frequencies.attention_factor, row["attention_factor"].get<double>()) << name;
  }
}

}  // namespace
}  // namespace weft::model
