#include "data/tokenizer.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <map>
#include <thread>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "data/tokenizer_own.h"

namespace weft::data {
namespace {

namespace fs = std::filesystem;

const std::string kTokenizers = "tests/data/tokenizers/";

std::vector<TokenId> ids_of(const Json& json) { return json.get<std::vector<TokenId>>(); }

std::string streamed(const Tokenizer& tokenizer, const std::vector<TokenId>& ids, bool skip) {
  const auto decoder = tokenizer.stream_decoder(skip);
  std::string text;
  for (const TokenId id : ids) {
    const std::string part = decoder->push(id);
    text += part;
  }
  return text + decoder->finish();
}

// The directory of a tokenizer of the goldens; empty where the large ones are not at hand.
std::string directory_of(const std::string& name) {
  for (const std::string& place : {kTokenizers + name, kTokenizers + "zoo/" + name}) {
    if (fs::exists(place)) {
      return place;
    }
  }
  const char* data = std::getenv("WEFT_TEST_DATA");
  return data == nullptr ? "" : std::string(data) + "/tokenizers/" + name;
}

// A key that differs from `ids` or `decoded` is written; goldens.json never writes decoded_with_special_skipped and the
// zoo's never ids_plain, so where special tokens are in the text those are unknown.
void check_row(const Tokenizer& tokenizer, const Json& row, bool of_zoo) {
  const std::string text = row["text"];
  const Json& plain = row.contains("ids_plain") ? row["ids_plain"] : row["ids"];
  const Json& with = row.contains("ids_with_special") ? row["ids_with_special"] : row["ids"];
  const Json& skipped =
      row.contains("decoded_with_special_skipped") ? row["decoded_with_special_skipped"] : row["decoded"];
  const std::vector<TokenId> ids = tokenizer.encode(text);
  EXPECT_EQ(ids, ids_of(row["ids"])) << text;
  if (!of_zoo) {
    EXPECT_EQ(tokenizer.encode(text, SpecialTokens::Plain), ids_of(plain)) << text;
  }
  EXPECT_EQ(tokenizer.encode(text, SpecialTokens::Add), ids_of(with)) << text;
  EXPECT_EQ(tokenizer.decode(ids), row["decoded"].get<std::string>()) << text;
  if (of_zoo || !row.contains("ids_plain")) {
    EXPECT_EQ(tokenizer.decode(ids_of(with), true), skipped.get<std::string>()) << text;
  }
  EXPECT_EQ(streamed(tokenizer, ids, false), row["decoded"].get<std::string>()) << text;
}

// Returns the number of rows checked of each tokenizer.
std::map<std::string, int> check_goldens(const std::string& file) {
  const Json rows = read_json_file(file);
  std::map<std::string, std::unique_ptr<Tokenizer>> tokenizers;
  std::map<std::string, int> counts;
  for (const Json& row : rows) {
    const std::string name = row["tokenizer"];
    const std::string directory = directory_of(name);
    if (directory.empty()) {
      continue;
    }
    auto& tokenizer = tokenizers[name];
    if (tokenizer == nullptr) {
      tokenizer = load_tokenizer(directory);
    }
    check_row(*tokenizer, row, file.find("zoo/") != std::string::npos);
    ++counts[name];
  }
  return counts;
}

TEST(Tokenizer, KnownAnswersOfGpt2) { EXPECT_EQ(check_goldens(kTokenizers + "goldens.json")["gpt2"], 25); }

TEST(Tokenizer, KnownAnswersOfTheZoo) {
  const auto counts = check_goldens(kTokenizers + "zoo/goldens.json");
  EXPECT_EQ(counts.at("bytelevel_bpe_1024"), 40);
  EXPECT_EQ(counts.at("llama2_bpe_1024"), 40);
}

TEST(Tokenizer, KnownAnswersOfTheLargeOnes) {
  if (std::getenv("WEFT_TEST_DATA") == nullptr) {
    GTEST_SKIP() << "WEFT_TEST_DATA is not set: qwen3's and deepseek_v3's tokenizer.json are not in the project";
  }
  const auto counts = check_goldens(kTokenizers + "goldens.json");
  EXPECT_EQ(counts.at("qwen3"), 25);
  EXPECT_EQ(counts.at("deepseek_v3"), 25);
}

}  // namespace
}  // namespace weft::data
