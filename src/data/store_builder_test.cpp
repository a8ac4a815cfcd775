#include "data/store_builder.h"

#include <fstream>
#include <set>
#include <unistd.h>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file.h"
#include "data/dataset.h"

namespace weft::data {
namespace {

namespace fs = std::filesystem;

class BuildTest : public testing::Test {
 protected:
  BuildTest()
      : folder_(fs::temp_directory_path() / ("weft-build-" + std::to_string(::getpid()) +
                                             testing::UnitTest::GetInstance()->current_test_info()->name())) {
    fs::create_directories(folder_ / "out");
  }
  ~BuildTest() override { fs::remove_all(folder_); }

  std::string put(const std::string& name, const std::string& contents) const {
    std::ofstream(folder_ / name, std::ios::binary) << contents;
    return (folder_ / name).string();
  }
  [[nodiscard]] BuildOptions options(std::vector<std::string> inputs, std::string tokenizer, int threads = 2) const {
    return {std::move(inputs), std::move(tokenizer), folder_ / "out" / "corpus", false, threads, false};
  }
  [[nodiscard]] std::set<std::string> written() const {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_ / "out")) names.insert(entry.path().filename().string());
    return names;
  }
  std::string complaint(const BuildOptions& chosen) const {
    const auto before = written();
    std::string found = "nothing thrown";
    try {
      (void)build_store(chosen);
    } catch (const InputError& error) {
      found = error.what();
    }
    EXPECT_EQ(written(), before);
    return found;
  }

  fs::path folder_;
};

// A store trains as the text it was made of does: the same samples.
TEST_F(BuildTest, AStoreGivesTheSamplesOfItsText) {
  put("a.txt", "The quick brown fox.\r\n");
  put("b.txt", "jumps over the lazy dog");
  const std::string lines = put("c.jsonl", "{\"text\": \"one\"}\n{\"text\": \"two <|endoftext|> three\"}\n");
  const std::vector<std::string> inputs = {(folder_ / "*.txt").string(), lines};
  const BuiltStore store = build_store(options(inputs, "bytes"));
  EXPECT_EQ(store.documents, 5U);
  EXPECT_EQ(written(), (std::set<std::string>{"corpus.bin", "corpus.idx", "corpus.tokenizer"}));

  for (const char* documents : {"join", "mask"}) {
    DataNode text;
    text.sources = inputs;
    text.tokenizer = "bytes";
    text.context = 5;
    text.documents = documents;
    DataNode mapped = text;
    mapped.sources = {store.idx.string()};
    mapped.tokenizer.reset();
    const auto tokenizer = make_tokenizer(mapped);
    ASSERT_NE(tokenizer, nullptr);
    const Dataset first(text, make_tokenizer(text), 257, 1), second(mapped, tokenizer, 257, 1);
    EXPECT_EQ(first.training_tokens() + first.validation_tokens(), store.tokens);
    const SampleBatch a = first.training_batch(0, 100), b = second.training_batch(0, 100);
    EXPECT_EQ(a.tokens, b.tokens);
    EXPECT_EQ(a.targets, b.targets);
    EXPECT_EQ(a.documents, b.documents);
    EXPECT_EQ(a.positions, b.positions);
  }
}

TEST_F(BuildTest, CharactersAreKeptBesideTheStore) {
  const BuiltStore store = build_store(options({put("a.txt", "hello w\xC3\xB6rld")}, "characters"));
  DataNode node;
  node.sources = {store.idx.string()};
  EXPECT_EQ(make_tokenizer(node)->encode("w\xC3\xB6").size(), 2U);
  EXPECT_EQ(store.tokens, 11U);
}

TEST_F(BuildTest, TheNumberOfThreadsChangesNoByte) {
  std::string lines;
  for (int i = 0; i < 60000; ++i) lines += "{\"text\": \"document number " + std::to_string(i * 7919) + "\"}\n";
  const std::string input = put("a.jsonl", lines);
  const BuiltStore one = build_store(options({input}, "bytes", 1));
  BuildOptions other = options({input}, "bytes", 5);
  other.output = folder_ / "out" / "other";
  const BuiltStore five = build_store(other);
  EXPECT_EQ(one.documents, 60000U);
  EXPECT_EQ(read_file(one.bin), read_file(five.bin));
  EXPECT_EQ(read_file(one.idx), read_file(five.idx));
}

TEST_F(BuildTest, NothingIsWrittenOnAMistakeAndNothingOverwritten) {
  const std::string good = put("good.txt", "text"), broken = put("broken.jsonl", "{\"text\": \"a\"}\n{\"text\"\n");
  EXPECT_NE(complaint(options({good, broken}, "bytes")).find("broken.jsonl:2"), std::string::npos);
  EXPECT_NE(complaint(options({put("empty.txt", "")}, "bytes")).find("there is no text"), std::string::npos);
  EXPECT_NE(complaint(options({(folder_ / "none*").string()}, "bytes")).find("none*"), std::string::npos);
  EXPECT_NE(complaint(options({good}, "no/such/folder")).find("no/such/folder"), std::string::npos);
  BuildOptions nowhere = options({good}, "bytes");
  nowhere.output = folder_ / "missing" / "corpus";
  EXPECT_NE(complaint(nowhere).find("there is no folder"), std::string::npos);

  const BuiltStore store = build_store(options({good}, "bytes"));
  const std::string before = read_file(store.bin);
  EXPECT_NE(complaint(options({broken}, "bytes")).find("exists already"), std::string::npos);
  EXPECT_EQ(read_file(store.bin), before);
  EXPECT_NE(complaint({{store.idx.string()}, "bytes", folder_ / "out" / "more", false, 1, false}).find("holds tokens"),
            std::string::npos);
  fs::remove(store.bin);
  fs::remove(store.idx);
  EXPECT_NE(complaint(options({good}, "characters")).find("another tokenizer"), std::string::npos);
  EXPECT_EQ(build_store(options({good}, "bytes")).tokens, 5U);
}

}  // namespace
}  // namespace weft::data
