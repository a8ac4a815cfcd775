#include "data/dataset.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <unistd.h>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file.h"
#include "config/toml.h"
#include "config/tree.h"
#include "data/store_tokenizer.h"

namespace weft::data {
namespace {

namespace fs = std::filesystem;

class DatasetTest : public testing::Test {
 protected:
  DatasetTest()
      : folder_(fs::temp_directory_path() / ("weft-dataset-" + std::to_string(::getpid()) +
                                             testing::UnitTest::GetInstance()->current_test_info()->name())) {
    fs::create_directories(folder_);
  }
  ~DatasetTest() override { fs::remove_all(folder_); }

  std::string put(const std::string& name, const std::string& contents) const {
    std::ofstream(folder_ / name, std::ios::binary) << contents;
    return (folder_ / name).string();
  }
  static DataNode node(std::vector<std::string> sources, int64_t context, std::string tokenizer = "characters") {
    DataNode made;
    made.sources = std::move(sources);
    made.context = context;
    made.tokenizer = std::move(tokenizer);
    return made;
  }
  static Dataset open(const DataNode& node, uint64_t seed = 1) {
    auto tokenizer = make_tokenizer(node);
    const uint64_t vocabulary = tokenizer->vocabulary_size();
    return Dataset(node, std::move(tokenizer), vocabulary, seed);
  }
  static std::string complaint(const DataNode& node) {
    try {
      (void)open(node);
    } catch (const InputError& error) {
      return error.what();
    }
    return "nothing thrown";
  }

  fs::path folder_;
};

std::string text(size_t size) {
  std::string made;
  for (uint32_t state = 1; made.size() < size;) {
    state = state * 1664525 + 1013904223;
    made += static_cast<char>('a' + (state >> 16) % 26);
  }
  return made;
}

void expect_equal(const SampleBatch& left, const SampleBatch& right) {
  EXPECT_EQ(left.rows, right.rows);
  EXPECT_EQ(left.length, right.length);
  EXPECT_EQ(left.tokens, right.tokens);
  EXPECT_EQ(left.targets, right.targets);
  EXPECT_EQ(left.positions, right.positions);
  EXPECT_EQ(left.documents, right.documents);
  EXPECT_EQ(left.sample_ids, right.sample_ids);
  EXPECT_EQ(left.target_tokens, right.target_tokens);
}

// nanoGPT's numbers for its shakespeare_char: 65 characters, 1,003,854 for training, 111,540 for validation, which are
// 1,742 windows of 64 and a shorter one.
TEST_F(DatasetTest, ShakespeareIsSplitAsNanoGptDoes) {
  const Dataset data = open(node({"recipes/data/tiny_shakespeare.txt"}, 64));
  EXPECT_EQ(make_tokenizer(node({"recipes/data/tiny_shakespeare.txt"}, 64))->vocabulary_size(), 65U);
  EXPECT_EQ(data.training_tokens(), 1003854U);
  EXPECT_EQ(data.validation_tokens(), 111540U);
  EXPECT_EQ(data.training_windows(), (1003853U + 63) / 64);
  EXPECT_EQ(data.validation_windows(), 1743);
  EXPECT_EQ(data.summary(), "1,003,854 training tokens in 15,686 windows of 64, 111,540 tokens for validation");

  // x = data[i : i + 64], y = data[i + 1 : i + 65] for i = 0, 64, ...; sorted characters are the ids.
  std::string whole = read_file("recipes/data/tiny_shakespeare.txt");
  std::string characters = whole;
  std::sort(characters.begin(), characters.end());
  characters.erase(std::unique(characters.begin(), characters.end()), characters.end());
  const SampleBatch batch = data.validation_batch(0, 1743);
  EXPECT_EQ(batch.target_tokens, 111539);
  EXPECT_EQ(data.validation_batch(0, 1742).target_tokens, 1742 * 64);
  for (size_t i = 0; i < 111539; ++i) {
    ASSERT_EQ(characters[static_cast<size_t>(batch.tokens[i])], whole[1003854 + i]);
    ASSERT_EQ(characters[static_cast<size_t>(batch.targets[i])], whole[1003855 + i]);
    ASSERT_EQ(batch.positions[i], static_cast<int64_t>(i % 64));
  }
}

TEST_F(DatasetTest, AnEpochPredictsEveryTokenOnceAndEpochsAreCutElsewhere) {
  const Dataset data = open(node({put("a.txt", text(1000))}, 16));
  const auto windows = static_cast<int64_t>(data.training_windows());
  EXPECT_EQ(windows, (899 + 15) / 16);
  const std::string whole = text(1000);
  std::map<char, int> expected;
  for (size_t i = 1; i < 900; ++i) ++expected[whole[i]];
  std::vector<SampleBatch> epochs;
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    epochs.push_back(data.training_batch(static_cast<uint64_t>(epoch * windows), windows));
    EXPECT_EQ(epochs.back().target_tokens, 899);
    std::map<char, int> counts;
    for (const int64_t target : epochs.back().targets) {
      if (target >= 0) ++counts[static_cast<char>('a' + target)];
    }
    EXPECT_EQ(counts, expected);
  }
  std::set<std::vector<int64_t>> rows;
  for (const SampleBatch& epoch : epochs) {
    for (int64_t row = 0; row < windows; ++row)
      rows.insert({epoch.tokens.begin() + row * 16, epoch.tokens.begin() + (row + 1) * 16});
  }
  EXPECT_GT(rows.size(), static_cast<size_t>(windows) * 5 / 2);
}

// Phases with sequences of another length and another mixture: rows are as long as the phase says, each number is
// served as its place in the order says, and before the second phase all is as without it.
TEST_F(DatasetTest, PhasesChangeLengthAndMixture) {
  DataNode config = node({put("a.txt", text(700)), put("b.txt", std::string(300, 'b'))}, 8, "bytes");
  config.weights = {1, 1};
  auto tokenizer = make_tokenizer(config);
  const uint64_t vocabulary = tokenizer->vocabulary_size();
  const Dataset data(config, tokenizer, vocabulary, 1, {{0, 8, {}}, {50, 8, {0, 1}}, {70, 32, {1, 0}}});
  const Dataset plain = open(config);
  expect_equal(data.training_batch(0, 50), plain.training_batch(0, 50));
  const SampleBatch only_b = data.training_batch(50, 20), longer = data.training_batch(70, 10);
  EXPECT_EQ(std::set<int64_t>(only_b.tokens.begin(), only_b.tokens.end()).size(), 1U);
  EXPECT_EQ(longer.length, 32);
  EXPECT_GT(std::set<int64_t>(longer.tokens.begin(), longer.tokens.end()).size(), 2U);
  EXPECT_EQ(data.training_targets(60, 20), data.training_targets(60, 10) + longer.target_tokens);
  EXPECT_EQ(longer.sample_ids.front(), 70);
}

// A resume, another cut into micro-batches, and a second object give the same samples.
TEST_F(DatasetTest, SamplesDependOnTheirNumberAlone) {
  for (const char* documents : {"join", "mask"}) {
    DataNode config = node(
        {put("a.txt", text(500)), put("b.jsonl", "{\"text\": \"abc\"}\n{\"text\": \"defgh\"}\n{\"text\": \"xyz\"}\n")},
        8, "bytes");
    config.weights = {3, 1};
    config.documents = documents;
    const Dataset data = open(config), again = open(config), other = open(config, 2);
    const SampleBatch whole = data.training_batch(0, 300);
    expect_equal(again.training_batch(0, 300), whole);
    EXPECT_NE(other.training_batch(0, 300).tokens, whole.tokens);
    EXPECT_EQ(data.training_targets(0, 300), whole.target_tokens);
    for (const int64_t cut : {1, 7, 128}) {
      SampleBatch joined;
      int64_t targets = 0;
      for (int64_t first = 0; first < 300; first += cut) {
        const int64_t count = std::min(cut, 300 - first);
        const SampleBatch part = again.training_batch(static_cast<uint64_t>(first), count);
        targets += again.training_targets(static_cast<uint64_t>(first), count);
        joined.rows += part.rows;
        joined.length = part.length;
        joined.target_tokens += part.target_tokens;
        for (const auto member : {&SampleBatch::tokens, &SampleBatch::targets, &SampleBatch::positions,
                                  &SampleBatch::documents, &SampleBatch::sample_ids}) {
          (joined.*member).insert((joined.*member).end(), (part.*member).begin(), (part.*member).end());
        }
      }
      expect_equal(joined, whole);
      EXPECT_EQ(targets, whole.target_tokens);
    }
    EXPECT_EQ(whole.sample_ids.front(), 0);
    EXPECT_EQ(data.training_batch(1000, 2).sample_ids, (std::vector<int64_t>{1000, 1001}));
  }
}

TEST_F(DatasetTest, MaskedDocumentsRestartAndAreNotPredictedFromOneAnother) {
  DataNode config = node({put("a.jsonl", "{\"text\": \"ab\"}\n{\"text\": \"cde\"}\n")}, 16, "bytes");
  config.documents = "mask";
  config.validation = 0.0;
  config.validation = std::vector<std::string>{config.sources[0]};
  const SampleBatch batch = open(config).validation_batch(0, 1);
  // a b $ c d e $: six pairs, the one from $ to c is not predicted, ten places are padding.
  EXPECT_EQ(std::vector<int64_t>(batch.tokens.begin(), batch.tokens.begin() + 7),
            (std::vector<int64_t>{'a', 'b', 256, 'c', 'd', 'e', 0}));
  EXPECT_EQ(std::vector<int64_t>(batch.targets.begin(), batch.targets.begin() + 7),
            (std::vector<int64_t>{'b', 256, -1, 'd', 'e', 256, -1}));
  EXPECT_EQ(std::vector<int64_t>(batch.positions.begin(), batch.positions.begin() + 8),
            (std::vector<int64_t>{0, 1, 2, 0, 1, 2, 0, 1}));
  EXPECT_EQ(std::vector<int64_t>(batch.documents.begin(), batch.documents.begin() + 8),
            (std::vector<int64_t>{0, 0, 0, 1, 1, 1, 2, 2}));
  EXPECT_EQ(batch.target_tokens, 5);
}

TEST_F(DatasetTest, ATextShorterThanASampleIsPadded) {
  DataNode config = node({put("a.txt", "hello")}, 100);
  config.validation = 0.0;
  const Dataset data = open(config);
  EXPECT_EQ(data.training_windows(), 1U);
  const SampleBatch batch = data.training_batch(5, 1);
  EXPECT_EQ(batch.target_tokens, 4);
  EXPECT_EQ(batch.tokens.size(), 100U);
  EXPECT_EQ(data.validation_windows(), 0);
}

TEST_F(DatasetTest, ANewcomersTextWithCarriageReturnsAndAMark) {
  const Dataset data = open(node(
      {put("my.txt", "\xEF\xBB\xBF" + std::string("Erste Zeile: \xC3\xA4\xC3\xB6\xC3\xBC.\r\nZweite Zeile.\r\n"))}, 4));
  EXPECT_EQ(data.training_tokens() + data.validation_tokens(), 34U);
}

TEST_F(DatasetTest, SaysWhatIsWrong) {
  const auto expect = [&](const DataNode& config, const std::string& part) {
    const std::string found = complaint(config);
    EXPECT_NE(found.find(part), std::string::npos) << '"' << found << "\" lacks \"" << part << '"';
  };
  expect(node({}, 8, "bytes"), "data.sources is empty");
  expect(node({put("empty.txt", "")}, 8), "there is no text in");
  expect(node({put("empty.txt", "")}, 8, "bytes"), "empty.txt is empty");
  expect(node({put("tiny.txt", "abc")}, 8), "each part needs at least 2 (data.validation = 0");
  expect(node({(folder_ / "none.txt").string()}, 8), "none.txt");
  expect(node({"tests/data/stores/megatron_int32.idx"}, 8), "holds tokens");
  DataNode config = node({put("a.txt", text(100))}, 8);
  config.weights = {1, 2};
  expect(config, "data.weights has 2 numbers for 1 entries");
  config = node({put("a.txt", text(100))}, 8);
  config.validation = std::vector<std::string>{put("one.txt", "a")};
  expect(config, "data.validation: 1 tokens");
  config = node({put("a.txt", text(100))}, 8);
  EXPECT_THROW(Dataset(config, make_tokenizer(config), 25, 1), InputError);
  config.tokenizer.reset();
  EXPECT_EQ(make_tokenizer(config), nullptr);
  try {
    Dataset(config, nullptr, 100, 1);
    FAIL() << "nothing thrown";
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("data.tokenizer is not set"), std::string::npos);
  }
}

TEST_F(DatasetTest, StoresNeedNoTokenizerButKeepToTheVocabulary) {
  DataNode config = node({"tests/data/stores/megatron_int32.idx", "tests/data/stores/llm_c_gpt2.bin"}, 8);
  config.tokenizer.reset();
  config.validation = 0.0;
  const Dataset data(config, nullptr, 50257, 1);
  EXPECT_EQ(data.training_tokens(), 26U);
  EXPECT_EQ(data.training_batch(0, 4).target_tokens, 25);
  const Dataset small(config, nullptr, 1000, 1);
  EXPECT_THROW((void)small.training_batch(0, 4), InputError);
}

TEST_F(DatasetTest, AStoreIsNotReadWithAnotherTokenizer) {
  const auto bytes = load_tokenizer("bytes");
  {
    MegatronWriter writer(folder_ / "a", TokenType::kUint16);
    std::vector<TokenId> ids = bytes->encode(text(100));
    writer.add(ids);
    writer.commit();
  }
  write_store_tokenizer(folder_ / "a.tokenizer", *bytes);
  DataNode config = node({(folder_ / "a.idx").string()}, 8, "bytes");
  EXPECT_EQ(open(config).training_tokens(), 90U);
  config.tokenizer.reset();
  ASSERT_NE(make_tokenizer(config), nullptr);
  EXPECT_EQ(make_tokenizer(config)->fingerprint(), bytes->fingerprint());
  const auto characters = make_tokenizer(node({put("a.txt", text(100))}, 8));
  EXPECT_THROW(Dataset(config, characters, 300, 1), InputError);
}

TEST_F(DatasetTest, TheFingerprintChangesWithTheContentAlone) {
  const auto fingerprint = [](const DataNode& config) { return open(config).fingerprint().hash(); };
  const DataNode config = node({put("a.txt", text(1000))}, 8, "bytes");
  const uint64_t base = fingerprint(config);
  EXPECT_EQ(fingerprint(node({put("renamed.txt", text(1000))}, 8, "bytes")), base);
  EXPECT_NE(fingerprint(node({put("b.txt", text(1001))}, 8, "bytes")), base);
  std::string changed = text(1000);
  changed[500] = 'A';
  EXPECT_NE(fingerprint(node({put("c.txt", changed)}, 8, "bytes")), base);
  EXPECT_NE(fingerprint(node({put("a.txt", text(1000))}, 8, "characters")), base);
  DataNode split = config;
  split.validation = 0.2;
  EXPECT_NE(fingerprint(split), base);
  EXPECT_NE(open(config).fingerprint().text().find("a.txt: 900 tokens"), std::string::npos)
      << open(config).fingerprint().text();
}

TEST_F(DatasetTest, TheNodeReadsBothFormsOfValidation) {
  const auto read = [](const std::string& toml) {
    DataNode made;
    config::Origins origins;
    config::apply(config::parse_toml(toml, "run.toml"), made, origins);
    return made;
  };
  EXPECT_EQ(std::get<double>(read("validation = 0.25").validation), 0.25);
  EXPECT_EQ(std::get<double>(read("validation = 0").validation), 0);
  EXPECT_EQ(std::get<std::vector<std::string>>(read("validation = \"a.txt\"").validation),
            std::vector<std::string>{"a.txt"});
  EXPECT_EQ(std::get<std::vector<std::string>>(read("validation = [\"a\", \"b\"]").validation),
            (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(read("sources = \"a.txt\"").sources, std::vector<std::string>{"a.txt"});
  for (const char* wrong : {"validation = 0.9", "validation = true", "validation = [1]", "documents = \"other\"",
                            "context = 0", "weights = [1, -1]", "source = \"a\""}) {
    EXPECT_THROW((void)read(wrong), InputError) << wrong;
  }
  const DataNode made = read("sources = [\"a\"]\ncontext = 8\nvalidation = [\"b\"]\n");
  EXPECT_TRUE(config::differences(made, read(config::dump(made))).empty());
  EXPECT_FALSE(config::differences(made, read("sources = [\"a\"]\ncontext = 8\nvalidation = 0.1\n")).empty());
}

}  // namespace
}  // namespace weft::data
