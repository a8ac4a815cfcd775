#include "data/text_tokens.h"

#include <fstream>
#include <unistd.h>

#include <gtest/gtest.h>

#include "base/error.h"
#include "data/ordered_workers.h"
#include "data/source_files.h"
#include "data/tokenizer_own.h"

namespace weft::data {
namespace {

namespace fs = std::filesystem;

class TextTest : public testing::Test {
 protected:
  TextTest()
      : folder_(fs::temp_directory_path() / ("weft-text-" + std::to_string(::getpid()) +
                                             testing::UnitTest::GetInstance()->current_test_info()->name())) {
    fs::create_directories(folder_);
  }
  ~TextTest() override { fs::remove_all(folder_); }

  fs::path put(const std::string& name, const std::string& contents) const {
    std::ofstream(folder_ / name, std::ios::binary) << contents;
    return folder_ / name;
  }
  // Documents as bytes, the end-of-text token as "$".
  static std::vector<std::string> documents(const std::vector<fs::path>& files, int threads = 1, bool utf8 = true) {
    std::vector<std::string> found;
    const auto tokenizer = make_byte_tokenizer();
    tokenize_documents(files, *tokenizer, {.utf8 = utf8, .threads = threads, .progress = false},
                       [&](std::span<const TokenId> ids) {
                         std::string& text = found.emplace_back();
                         for (const TokenId id : ids) text += id == 256 ? '$' : static_cast<char>(id);
                       });
    return found;
  }
  static std::string complaint(const std::vector<fs::path>& files) {
    try {
      (void)documents(files);
    } catch (const InputError& error) {
      return error.what();
    }
    return "nothing thrown";
  }

  fs::path folder_;
};

using Strings = std::vector<std::string>;

TEST_F(TextTest, ATextIsADocumentWithoutItsByteOrderMark) {
  EXPECT_EQ(documents({put("a.txt", "\xEF\xBB\xBFone\r\ntwo\r\n"), put("empty.txt", ""), put("b.md", "b\xC3\xA4")}),
            (Strings{"one\r\ntwo\r\n$", "b\xC3\xA4$"}));
}

TEST_F(TextTest, JsonLinesAreADocumentEach) {
  EXPECT_EQ(documents({put("a.jsonl",
                           "{\"text\": \"one\\ntwo\"}\r\n\n  \n{\"id\": 3, \"text\": \"\"}\n{\"text\": \"\\u00e4\"}")}),
            (Strings{"one\ntwo$", "\xC3\xA4$"}));
}

TEST_F(TextTest, AnEndOfTextTokenInATextEndsADocument) {
  EXPECT_EQ(documents({put("a.txt", "one<|endoftext|>\ntwo <|endoftext|><|endoftext|>three")}),
            (Strings{"one$", "\ntwo $", "$", "three$"}));
  EXPECT_EQ(documents({put("b.txt", "one<|endoftext|>")}), Strings{"one$"});
  EXPECT_EQ(documents({put("c.jsonl", "{\"text\": \"one<|endoftext|>two\"}")}), (Strings{"one$", "two$"}));
}

// Parts of one file, and lines counted across them.
TEST_F(TextTest, ALargeTextIsSharedByThreads) {
  std::string text;
  Strings expected;
  for (int i = 0; i < 70000; ++i) {
    text += "\nstory number " + std::to_string(i);
    expected.push_back("\nstory number " + std::to_string(i) + "$");
    text += "<|endoftext|>";
  }
  ASSERT_GT(text.size(), size_t{2} << 20);
  EXPECT_EQ(documents({put("a.txt", text)}, 1), expected);
  EXPECT_EQ(documents({put("a.txt", text)}, 3), expected);
  EXPECT_NE(complaint({put("b.txt", text + "\xFF")}).find("b.txt: line 70001: not UTF-8"), std::string::npos);
}

TEST_F(TextTest, SaysWhereTextIsNoText) {
  EXPECT_NE(complaint({put("latin.txt", "one\ntwo \xE4 three")}).find("latin.txt: line 2: not UTF-8 (byte 0xE4)"),
            std::string::npos);
  EXPECT_NE(complaint({put("wide.txt", std::string("\xFF\xFE") + "a")}).find("UTF-16"), std::string::npos);
  EXPECT_NE(complaint({put("a.gz", "x")}).find("does not read .gz"), std::string::npos);
  EXPECT_NE(complaint({folder_ / "none.txt"}).find("No such file"), std::string::npos);
  EXPECT_EQ(documents({put("raw.txt", "\xE4")}, 1, false), Strings{"\xE4$"});
}

TEST_F(TextTest, SaysWhichLineIsBroken) {
  std::string lines;
  for (int i = 0; i < 40000; ++i) lines += "{\"text\": \"a line that is long enough for several units\"}\n";
  for (const char* broken :
       {"{\"text\": \"no end}", "{\"text\": 3}", "{\"body\": \"x\"}", "[1]", "{\"text\": \"\xE4\"}"}) {
    const std::string found = complaint({put("a.jsonl", lines + broken + "\n" + lines)});
    EXPECT_NE(found.find("a.jsonl:40001: "), std::string::npos) << found;
  }
}

// Also that the first error in the order of the files is the one reported.
TEST_F(TextTest, ThreadsDoNotChangeTheOrder) {
  std::vector<fs::path> files;
  for (int i = 0; i < 20; ++i) {
    std::string lines;
    for (int line = 0; line < 3000 * (i % 3); ++line)
      lines += "{\"text\": \"file " + std::to_string(i) + " line " + std::to_string(line) + "\"}\n";
    files.push_back(put("a" + std::to_string(i) + ".jsonl", lines));
    files.push_back(put("b" + std::to_string(i) + ".txt", "text " + std::to_string(i)));
  }
  const Strings one = documents(files, 1);
  EXPECT_EQ(one.size(), 20 + 3000 * (7 + 12));
  EXPECT_EQ(documents(files, 3), one);
  put("b7.txt", "\xFF");
  put("b12.txt", "\xFF");
  for (const int threads : {1, 4}) {
    try {
      (void)documents(files, threads);
      FAIL() << "nothing thrown";
    } catch (const InputError& error) {
      EXPECT_NE(std::string(error.what()).find("b7.txt"), std::string::npos);
    }
  }
}

TEST_F(TextTest, WhatConsumeThrowsEndsTheWork) {
  const auto file = put("a.txt", "text");
  const auto tokenizer = make_byte_tokenizer();
  EXPECT_THROW(tokenize_documents(std::vector<fs::path>(50, file), *tokenizer, {.threads = 2, .progress = false},
                                  [](std::span<const TokenId>) { throw Error("full"); }),
               Error);
}

TEST_F(TextTest, ATokenizersComplaintNamesTheFile) {
  CharacterVocabulary vocabulary;
  vocabulary.add("ab");
  const auto tokenizer = vocabulary.make_tokenizer();
  const std::vector<fs::path> files = {put("a.jsonl", "{\"text\": \"ab\"}\n{\"text\": \"abc\"}\n")};
  try {
    tokenize_documents(files, *tokenizer, {.progress = false}, [](std::span<const TokenId>) {});
    FAIL() << "nothing thrown";
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("a.jsonl:2: "), std::string::npos) << error.what();
  }
  EXPECT_THROW(tokenize_documents(files, *tokenizer, {.bos = true, .progress = false}, [](std::span<const TokenId>) {}),
               InputError);
}

TEST_F(TextTest, PatternsNameFilesOnceAndInOrder) {
  for (const char* name : {"b.txt", "a.txt", "c.bin", "c.idx", "d.bin", "[x].txt"}) put(name, "");
  fs::create_directory(folder_ / "folder");
  const auto names = [&](const std::string& pattern) {
    Strings found;
    for (const auto& file : find_files((folder_ / pattern).string())) found.push_back(file.filename().string());
    return found;
  };
  EXPECT_EQ(names("?.txt"), (Strings{"a.txt", "b.txt"}));
  EXPECT_EQ(names("[x].txt"), Strings{"[x].txt"});
  EXPECT_EQ(names("*.bin"), (Strings{"c.idx", "d.bin"}));
  EXPECT_EQ(names("[cd].*"), (Strings{"c.idx", "d.bin"}));
  EXPECT_THROW((void)names("z*"), InputError);
  EXPECT_THROW((void)names("folder"), InputError);
}

TEST_F(TextTest, RelativePatternsAreLookedForInTheFoldersInOrder) {
  fs::create_directories(folder_ / "first");
  fs::create_directories(folder_ / "second");
  put("first/a.txt", "");
  put("second/a.txt", "");
  put("second/b.txt", "");
  const std::vector<fs::path> folders = {folder_ / "first", folder_ / "second"};
  EXPECT_EQ(absolute_pattern("a.txt", folders), (folder_ / "first/a.txt").string());
  EXPECT_EQ(absolute_pattern("b*.txt", folders), (folder_ / "second/b*.txt").string());
  EXPECT_EQ(absolute_pattern("c.txt", folders), (folder_ / "first/c.txt").string());
  EXPECT_EQ(absolute_pattern("/c.txt", folders), "/c.txt");
}

TEST(OrderedWorkers, KeepTheOrderOfUnevenWork) {
  int next = 0;
  std::vector<int> results;
  work_in_order<int, int>(
      4, [&]() -> std::optional<int> { return next < 500 ? std::optional(next++) : std::nullopt; },
      [](const int& unit) {
        volatile int spin = 0;
        for (int i = 0; i < (unit % 7) * 2000; ++i) spin = spin + i;
        return unit * 2;
      },
      [&](int result) { results.push_back(result); });
  ASSERT_EQ(results.size(), 500U);
  for (int i = 0; i < 500; ++i) ASSERT_EQ(results[static_cast<size_t>(i)], 2 * i);
}

}  // namespace
}  // namespace weft::data
