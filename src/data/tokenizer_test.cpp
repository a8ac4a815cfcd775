#include "data/tokenizer.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

#include <gtest/gtest.h>

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

// Checks the rows of the tokenizers named; returns how many there were of each.
std::map<std::string, int> check_goldens(const std::string& file, const std::vector<std::string>& names) {
  const Json rows = read_json_file(file);
  std::map<std::string, std::unique_ptr<Tokenizer>> tokenizers;
  std::map<std::string, int> counts;
  for (const Json& row : rows) {
    const std::string name = row["tokenizer"];
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      continue;
    }
    auto& tokenizer = tokenizers[name];
    if (tokenizer == nullptr) {
      tokenizer = load_tokenizer(directory_of(name));
    }
    check_row(*tokenizer, row, file.find("zoo/") != std::string::npos);
    ++counts[name];
  }
  return counts;
}

TEST(Tokenizer, KnownAnswersOfGpt2) { EXPECT_EQ(check_goldens(kTokenizers + "goldens.json", {"gpt2"}).at("gpt2"), 25); }

TEST(Tokenizer, KnownAnswersOfTheZoo) {
  const std::vector<std::string> names = {"bytelevel_bpe_1024", "llama2_bpe_1024"};
  const auto counts = check_goldens(kTokenizers + "zoo/goldens.json", names);
  EXPECT_EQ(counts.at(names[0]), 40);
  EXPECT_EQ(counts.at(names[1]), 40);
}

TEST(Tokenizer, KnownAnswersOfTheLargeOnes) {
  if (std::getenv("WEFT_TEST_DATA") == nullptr) {
    GTEST_SKIP() << "WEFT_TEST_DATA is not set: qwen3's and deepseek_v3's tokenizer.json are not in the project";
  }
  const auto counts = check_goldens(kTokenizers + "goldens.json", {"qwen3", "deepseek_v3"});
  EXPECT_EQ(counts.at("qwen3"), 25);
  EXPECT_EQ(counts.at("deepseek_v3"), 25);
}

TEST(Tokenizer, BosAndEos) {
  const auto gpt2 = load_tokenizer(kTokenizers + "gpt2");
  EXPECT_EQ(gpt2->eos_id(), 50256U);
  EXPECT_EQ(gpt2->bos_id(), 50256U);
  EXPECT_EQ(gpt2->vocabulary_size(), 50257U);
  const auto llama = load_tokenizer(directory_of("llama2_bpe_1024"));
  EXPECT_EQ(llama->bos_id(), 1U);
  EXPECT_EQ(llama->eos_id(), 2U);
  EXPECT_EQ(llama->vocabulary_size(), 1024U);
}

// A broken character in the middle of the ids: nothing is shown of it before it is decided.
TEST(Tokenizer, StreamsHoldBackPartOfACharacter) {
  for (const std::string name : {"bytelevel_bpe_1024", "llama2_bpe_1024"}) {
    const auto tokenizer = load_tokenizer(directory_of(name));
    const std::string text = "caf\u00e9 \U0001f600 \u6df1 end";
    const auto ids = tokenizer->encode(text);
    const auto stream = tokenizer->stream_decoder();
    std::string shown;
    std::size_t empty = 0;
    for (const TokenId id : ids) {
      const std::string part = stream->push(id);
      empty += part.empty() ? 1 : 0;
      EXPECT_EQ(part.find("\uFFFD"), std::string::npos);
      shown += part;
    }
    EXPECT_EQ(shown + stream->finish(), text) << name;
    EXPECT_GE(empty, 6U) << name;  // the first bytes of the three characters
    EXPECT_EQ(stream->push(ids[0]), tokenizer->stream_decoder()->push(ids[0])) << "as new after finish()";
  }
}

TEST(Tokenizer, UnknownIdsDecodeToNothing) {
  const auto tokenizer = load_tokenizer(kTokenizers + "gpt2");
  const std::vector<TokenId> ids = {15496, 60000, 11, 4000000000U};
  EXPECT_EQ(tokenizer->decode(ids), "Hello,");
}

TEST(Tokenizer, InvalidUtf8BecomesReplacementCharacters) {
  const std::string broken =
      "a\xE4\xBD"
      "b\xFF\xC3";
  const std::string repaired = "a\uFFFDb\uFFFD\uFFFD";
  for (const std::string name : {"gpt2", "bytelevel_bpe_1024", "llama2_bpe_1024"}) {
    const auto tokenizer = load_tokenizer(directory_of(name));
    EXPECT_EQ(tokenizer->encode(broken), tokenizer->encode(repaired)) << name;
  }
}

// A piece that is one long word must not take quadratic time: hundreds of kilobytes are done at once.
TEST(Tokenizer, LongPieces) {
  const auto tokenizer = load_tokenizer(kTokenizers + "gpt2");
  std::string text;
  std::uint32_t state = 1;
  for (int i = 0; i < 300'000; ++i) {
    state = state * 1664525U + 1013904223U;
    text += static_cast<char>('a' + (state >> 24) % 26);
  }
  const auto ids = tokenizer->encode(text);
  EXPECT_EQ(tokenizer->decode(ids), text);
  // A space can only start a piece, so the pieces' ids stand next to each other.
  auto twice = ids;
  const auto second = tokenizer->encode(" " + text);
  twice.insert(twice.end(), second.begin(), second.end());
  EXPECT_EQ(tokenizer->encode(text + " " + text), twice);
}

TEST(Tokenizer, SeveralThreadsEncodeTheSame) {
  const auto tokenizer = load_tokenizer(kTokenizers + "gpt2");
  const std::string text = read_file("recipes/data/tiny_shakespeare.txt").substr(0, 200'000);
  const auto expected = load_tokenizer(kTokenizers + "gpt2")->encode(text);
  std::vector<std::vector<TokenId>> results(4);
  std::vector<std::thread> threads;
  for (auto& result : results) {
    threads.emplace_back([&] { result = tokenizer->encode(text); });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  for (const auto& result : results) {
    EXPECT_EQ(result, expected);
  }
}

class Folder {
 public:
  Folder() : path_(fs::temp_directory_path() / ("weft_tokenizer_test_" + std::to_string(::getpid()))) {
    fs::remove_all(path_);
    fs::create_directories(path_);
  }
  ~Folder() { fs::remove_all(path_); }
  [[nodiscard]] fs::path path() const { return path_; }
  void write(const std::string& name, const std::string& content) const { write_file(path_ / name, content); }

 private:
  fs::path path_;
};

TEST(Tokenizer, SavedAndLoadedIsTheSame) {
  CharacterVocabulary characters;
  characters.add("b\u00e9a\n\U0001f600 a");
  std::vector<std::unique_ptr<Tokenizer>> tokenizers;
  tokenizers.push_back(load_tokenizer("bytes"));
  tokenizers.push_back(characters.make_tokenizer());
  tokenizers.push_back(load_tokenizer(kTokenizers + "gpt2"));
  tokenizers.push_back(load_tokenizer(directory_of("llama2_bpe_1024")));
  std::set<std::uint64_t> fingerprints;
  for (const auto& tokenizer : tokenizers) {
    const Folder folder;
    tokenizer->save(folder.path());
    const auto again = load_tokenizer(folder.path().string());
    EXPECT_EQ(again->fingerprint(), tokenizer->fingerprint());
    EXPECT_EQ(again->vocabulary_size(), tokenizer->vocabulary_size());
    EXPECT_EQ(again->eos_id(), tokenizer->eos_id());
    EXPECT_EQ(again->encode("a b\n"), tokenizer->encode("a b\n"));
    fingerprints.insert(tokenizer->fingerprint());
  }
  EXPECT_EQ(fingerprints.size(), tokenizers.size());
}

TEST(Tokenizer, ConfigurationNamesBosAndEos) {
  const Folder folder;
  folder.write("tokenizer.json", read_file(directory_of("llama2_bpe_1024") + "/tokenizer.json"));
  const auto plain = load_tokenizer(folder.path().string());
  folder.write("special_tokens_map.json", R"({"bos_token": "<unk>", "eos_token": "<unk>"})");
  EXPECT_EQ(load_tokenizer(folder.path().string())->bos_id(), 0U);
  folder.write("tokenizer_config.json", R"({"bos_token": null, "eos_token": {"content": "<s>"}})");
  const auto configured = load_tokenizer((folder.path() / "tokenizer.json").string());
  EXPECT_EQ(configured->bos_id(), std::nullopt);
  EXPECT_EQ(configured->eos_id(), 1U);
  EXPECT_NE(configured->fingerprint(), plain->fingerprint());
  folder.write("tokenizer_config.json", R"({"eos_token": "<nowhere>"})");
  try {
    (void)load_tokenizer(folder.path().string());
    FAIL() << "an unknown eos_token was accepted";
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("tokenizer_config.json: eos_token"), std::string::npos) << error.what();
  }
}

TEST(Bytes, EveryByteAndEndOfText) {
  const auto tokenizer = load_tokenizer("bytes");
  std::string all;
  for (int byte = 0; byte < 256; ++byte) {
    all += static_cast<char>(byte);
  }
  const auto ids = tokenizer->encode(all);
  ASSERT_EQ(ids.size(), 256U);
  EXPECT_EQ(ids[255], 255U);
  EXPECT_EQ(tokenizer->vocabulary_size(), 257U);
  EXPECT_EQ(tokenizer->encode("a<|endoftext|>"), (std::vector<TokenId>{97, 256}));
  EXPECT_EQ(tokenizer->encode("<|endoftext|>", SpecialTokens::Plain).size(), 13U);
  const std::vector<TokenId> broken = {0xC3, 256, 0xC3, 0xA9};
  EXPECT_EQ(tokenizer->decode(broken), "\uFFFD<|endoftext|>\u00e9");
  EXPECT_EQ(tokenizer->decode(broken, true), "\uFFFD\u00e9");
}

// tokenizer.json, which weft reads as `tokenizers` does, encodes as the tokenizer that it was exported from.
TEST(Bytes, ExportedForHuggingFace) {
  const fs::path folder = fs::path(testing::TempDir()) / "weft-exported-bytes";
  fs::create_directories(folder);
  const auto tokenizer = load_tokenizer("bytes");
  tokenizer->export_hugging_face(folder);
  const auto exported = load_tokenizer((folder / "tokenizer.json").string());
  const std::string text = "  a\u00e9<|endoftext|>\r\n\u65e5\U0001F600";
  for (const SpecialTokens mode : {SpecialTokens::Match, SpecialTokens::Plain, SpecialTokens::Add}) {
    EXPECT_EQ(exported->encode(text, mode), tokenizer->encode(text, mode));
  }
  const std::vector<TokenId> broken = {0xC3, 256, 0xC3, 0xA9};
  EXPECT_EQ(exported->decode(broken), tokenizer->decode(broken));
  EXPECT_EQ(exported->eos_id(), 256U);
  EXPECT_EQ(exported->vocabulary_size(), 257U);
  EXPECT_EQ(load_tokenizer(folder.string())->fingerprint(), tokenizer->fingerprint());
  fs::remove_all(folder);
}

TEST(Characters, ExportedForHuggingFace) {
  const fs::path folder = fs::path(testing::TempDir()) / "weft-exported-characters";
  fs::create_directories(folder);
  CharacterVocabulary vocabulary;
  vocabulary.add("h\"\\e l\u00f6\r\n\u65e5\t");
  const auto tokenizer = vocabulary.make_tokenizer();
  tokenizer->export_hugging_face(folder);
  const auto exported = load_tokenizer((folder / "tokenizer.json").string());
  const std::string text = "\u65e5\u65e5  h\"ell\u00f6\\\t\r\n";
  EXPECT_EQ(exported->encode(text), tokenizer->encode(text));
  EXPECT_EQ(exported->decode(exported->encode(text)), text);
  EXPECT_EQ(exported->eos_id(), std::nullopt);
  EXPECT_EQ(load_tokenizer(folder.string())->fingerprint(), tokenizer->fingerprint());
  fs::remove_all(folder);
}

TEST(Characters, SortedAsNanoGpt) {
  CharacterVocabulary vocabulary;
  vocabulary.add("hello");
  vocabulary.add(" w\u00f6rld\n");
  const auto tokenizer = vocabulary.make_tokenizer();
  // sorted(set(text)) = "\n", " ", d, e, h, l, o, r, w, ö
  EXPECT_EQ(tokenizer->encode("h\u00f6 \n"), (std::vector<TokenId>{4, 9, 1, 0}));
  EXPECT_EQ(tokenizer->decode(tokenizer->encode("w\u00f6rld")), "w\u00f6rld");
  EXPECT_EQ(tokenizer->token_id("\u00f6"), 9U);
  EXPECT_EQ(tokenizer->token_id("he"), std::nullopt);
  EXPECT_EQ(tokenizer->eos_id(), std::nullopt);
  try {
    (void)tokenizer->encode("old\nhex");
    FAIL() << "an unknown character was accepted";
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("\"x\" (line 2, column 3)"), std::string::npos) << error.what();
  }
  EXPECT_THROW((void)CharacterVocabulary().make_tokenizer(), InputError);
}

}  // namespace
}  // namespace weft::data
