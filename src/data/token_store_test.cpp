#include "data/token_store.h"

#include <fstream>
#include <unistd.h>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/faulty_file_system.h"
#include "base/file.h"

namespace weft::data {
namespace {

namespace fs = std::filesystem;

const fs::path kStores = "tests/data/stores";

std::vector<int64_t> all(const TokenStore& store, uint64_t vocabulary = 200000) {
  std::vector<int64_t> tokens(store.size());
  store.read(0, tokens, vocabulary);
  return tokens;
}

std::vector<uint64_t> ends(const TokenStore& store, std::optional<TokenId> end_of_text = {}) {
  std::vector<uint64_t> found;
  for (uint64_t at = 0; at < store.size(); at = found.back())
    found.push_back(store.document_end(at, store.size(), end_of_text));
  return found;
}

// Without syncing, which takes milliseconds.
void put(const fs::path& path, const std::string& contents) { std::ofstream(path, std::ios::binary) << contents; }

class StoreTest : public testing::Test {
 protected:
  StoreTest()
      : folder_(fs::temp_directory_path() / ("weft-store-" + std::to_string(::getpid()) +
                                             testing::UnitTest::GetInstance()->current_test_info()->name())) {
    fs::create_directories(folder_);
  }
  ~StoreTest() override { fs::remove_all(folder_); }

  // What opening the path, or reading all of it, complains about.
  static std::string complaint(const fs::path& path, uint64_t vocabulary = 200000) {
    try {
      (void)all(TokenStore::open(path), vocabulary);
    } catch (const InputError& error) {
      EXPECT_NE(std::string(error.what()).find(path.stem().string()), std::string::npos) << error.what();
      return error.what();
    }
    return "";
  }
  static void expect_complaint(const fs::path& path, const std::string& part, uint64_t vocabulary = 200000) {
    const std::string found = complaint(path, vocabulary);
    EXPECT_NE(found.find(part), std::string::npos) << '"' << found << "\" lacks \"" << part << '"';
  }

  fs::path folder_;
};

TEST_F(StoreTest, ReadsEveryTypeThatMegatronWrites) {
  for (const char* type : {"uint8", "int8", "int16", "int32", "int64", "float64", "float32", "uint16"}) {
    for (const char* end : {".idx", ".bin", ""}) {
      const TokenStore store = TokenStore::open((kStores / (std::string("megatron_") + type)).string() + end);
      EXPECT_EQ(all(store), (std::vector<int64_t>{5, 6, 7, 8, 2, 9, 2, 10, 11, 12, 13, 2, 120, 0, 1, 2})) << type;
      EXPECT_EQ(store.documents(), 4U);
      EXPECT_EQ(ends(store), (std::vector<uint64_t>{5, 7, 12, 16}));
    }
  }
  EXPECT_EQ(all(TokenStore::open(kStores / "megatron_multimodal.idx")), (std::vector<int64_t>{1, 2, 3, 4}));
}

TEST_F(StoreTest, ReadsBothVariantsOfLlmC) {
  EXPECT_EQ(all(TokenStore::open(kStores / "llm_c_gpt2.bin")),
            (std::vector<int64_t>{50256, 5, 6, 7, 50256, 9, 10, 11, 12, 3}));
  EXPECT_EQ(all(TokenStore::open(kStores / "llm_c_llama3.bin")),
            (std::vector<int64_t>{50256, 5, 6, 7, 50256, 9, 10, 11, 12, 128000}));
}

TEST_F(StoreTest, ReadsBareTokensAndFindsTheirDocuments) {
  const TokenStore store = TokenStore::open(kStores / "nanogpt.bin");
  EXPECT_EQ(all(store), (std::vector<int64_t>{50256, 5, 6, 7, 50256, 9, 10, 11, 12}));
  EXPECT_FALSE(store.has_documents());
  EXPECT_EQ(ends(store), std::vector<uint64_t>{9});
  EXPECT_EQ(ends(store, 50256), (std::vector<uint64_t>{1, 5, 9}));
  EXPECT_EQ(store.document_end(1, 3, 50256), 3U);
}

TEST_F(StoreTest, NamesFileAndPositionOfATokenBeyondTheVocabulary) {
  expect_complaint(kStores / "nanogpt.bin", "nanogpt.bin: token 0 is 50256, but the vocabulary has the tokens 0 to 49",
                   50);
  expect_complaint(kStores / "megatron_int32.bin", "token 12 is 120", 120);
  EXPECT_EQ(complaint(kStores / "megatron_int32.bin", 121), "");
}

TEST_F(StoreTest, WhatItWritesIsWhatMegatronWrites) {
  MegatronWriter writer(folder_ / "a", TokenType::kInt32);
  for (const std::vector<TokenId>& document :
       {std::vector<TokenId>{5, 6, 7, 8, 2}, {9, 2}, {10, 11, 12, 13, 2}, {120, 0, 1, 2}}) {
    writer.add(document);
  }
  EXPECT_EQ(writer.documents(), 4U);
  EXPECT_EQ(writer.tokens(), 16U);
  EXPECT_FALSE(fs::exists(folder_ / "a.bin"));
  writer.commit();
  EXPECT_EQ(read_file(folder_ / "a.bin"), read_file(kStores / "megatron_int32.bin"));
  const TokenStore store = TokenStore::open(folder_ / "a.idx"), peer = TokenStore::open(kStores / "megatron_int32.idx");
  EXPECT_EQ(all(store), all(peer));
  EXPECT_EQ(ends(store), ends(peer));
  EXPECT_EQ(store.content_hash(), peer.content_hash());
  // The third document of the other has two sequences, which is all that differs.
  EXPECT_EQ(read_file(folder_ / "a.idx").size() + 12, read_file(kStores / "megatron_int32.idx").size());
}

TEST_F(StoreTest, EmptyDocumentsAndNoDocumentsGoThereAndBack) {
  {
    MegatronWriter writer(folder_ / "a", megatron_token_type(100));
    for (const std::vector<TokenId>& document : {std::vector<TokenId>{}, {1, 2}, {}, {}, {3}, {}}) writer.add(document);
    writer.commit();
    const TokenStore store = TokenStore::open(folder_ / "a");
    EXPECT_EQ(all(store), (std::vector<int64_t>{1, 2, 3}));
    EXPECT_EQ(store.documents(), 6U);
    EXPECT_EQ(ends(store), (std::vector<uint64_t>{2, 3}));
    EXPECT_EQ(store.type(), TokenType::kUint16);
  }
  MegatronWriter writer(folder_ / "b", megatron_token_type(65500));
  writer.commit();
  const TokenStore store = TokenStore::open(folder_ / "b");
  EXPECT_EQ(store.size(), 0U);
  EXPECT_EQ(store.type(), TokenType::kInt32);
}

TEST_F(StoreTest, AFullDiskLeavesNothing) {
  for (const uint64_t bytes : {0, 3, 10, 40}) {
    FaultyFileSystem disk;
    disk.fill_after(bytes);
    EXPECT_THROW(
        {
          MegatronWriter writer(folder_ / "a", TokenType::kUint16, disk);
          writer.add(std::vector<TokenId>{1, 2, 3});
          writer.commit();
        },
        Error);
    EXPECT_FALSE(fs::exists(folder_ / "a.idx"));
  }
}

// Every byte of the index changed, and every length of it: the store is refused or still describes the same bytes.
TEST_F(StoreTest, ADamagedIndexIsRefusedOrHarmless) {
  const std::string index = read_file(kStores / "megatron_int32.idx");
  fs::copy_file(kStores / "megatron_int32.bin", folder_ / "a.bin");
  for (size_t place = 0; place < index.size(); ++place) {
    for (const int change : {1, 0x80, 0xFF}) {
      std::string damaged = index;
      damaged[place] = static_cast<char>(damaged[place] ^ change);
      put(folder_ / "a.idx", damaged);
      try {
        const TokenStore store = TokenStore::open(folder_ / "a.idx");
        (void)ends(store);
        (void)all(store);
      } catch (const InputError&) {
      }
    }
  }
  for (size_t size = 0; size < index.size(); ++size) {
    put(folder_ / "a.idx", index.substr(0, size));
    EXPECT_NE(complaint(folder_ / "a.idx"), "");
  }
}

TEST_F(StoreTest, SaysWhatIsWrongWithAStore) {
  expect_complaint(folder_ / "none.bin", "No such file");
  expect_complaint(folder_ / "none.idx", "No such file");
  expect_complaint(folder_ / "none", "no token store");
  write_file(folder_ / "odd.bin", "123");
  expect_complaint(folder_ / "odd.bin", "odd");

  std::string llm = read_file(kStores / "llm_c_gpt2.bin");
  write_file(folder_ / "short.bin", llm.substr(0, llm.size() - 1));
  expect_complaint(folder_ / "short.bin", "the header says 10 tokens, which is 1044 bytes, but the file has 1043");
  write_file(folder_ / "header.bin", llm.substr(0, 1000));
  expect_complaint(folder_ / "header.bin", "the file ends at 1000");
  llm[11] = '\x80';
  write_file(folder_ / "negative.bin", llm);
  expect_complaint(folder_ / "negative.bin", "the header says -");
  llm[4] = 3;
  write_file(folder_ / "version.bin", llm);
  expect_complaint(folder_ / "version.bin", "version 3");
  llm[0] = static_cast<char>(llm[0] + 2);
  write_file(folder_ / "questions.bin", llm);
  expect_complaint(folder_ / "questions.bin", "multiple-choice");

  const std::string bin = read_file(kStores / "megatron_int32.bin");
  fs::copy_file(kStores / "megatron_int32.idx", folder_ / "m.idx");
  write_file(folder_ / "m.bin", bin + "x");
  expect_complaint(folder_ / "m.bin", "says 16 tokens of 4 bytes, which is 64 bytes, but the file has 65");
}

TEST_F(StoreTest, RefusesValuesThatAreNoTokens) {
  for (const char* type : {"int8", "int64", "float32", "float64"}) {
    const std::string name = std::string("megatron_") + type;
    std::string bin = read_file(kStores / (name + ".bin"));
    bin[bin.size() - 1] = static_cast<char>(0xC1);  // negative, whatever the type
    bin[3] = static_cast<char>(bin[3] ^ 0x3F);      // of a float: no whole number
    write_file(folder_ / (name + ".bin"), bin);
    fs::copy_file(kStores / (name + ".idx"), folder_ / (name + ".idx"));
    EXPECT_NE(complaint(folder_ / (name + ".bin"), uint64_t{1} << 40), "") << type;
  }
}

TEST_F(StoreTest, TheHashSeesTokensAndDocuments) {
  const auto hash = [](std::vector<uint16_t> tokens, std::vector<uint64_t> starts) {
    return TokenStore("memory", std::move(tokens), std::move(starts)).content_hash();
  };
  const uint64_t base = hash({1, 2, 3}, {0, 2});
  EXPECT_EQ(base, hash({1, 2, 3}, {0, 2}));
  EXPECT_NE(base, hash({1, 2, 4}, {0, 2}));
  EXPECT_NE(base, hash({1, 2, 3}, {0, 1}));
  EXPECT_NE(base, hash({1, 2, 3}, {}));
  EXPECT_NE(base, hash({1, 2, 3, 0}, {0, 2}));
  // Beyond the size that is read whole: the first and the last token still count.
  std::vector<uint16_t> large(40 << 20);
  const uint64_t large_hash = hash(large, {});
  large.back() = 1;
  const uint64_t last_changed = hash(large, {});
  EXPECT_NE(last_changed, large_hash);
  large.front() = 1;
  EXPECT_NE(hash(large, {}), last_changed);
}

}  // namespace
}  // namespace weft::data
