#include "base/hash.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace weft {
namespace {

// Values of the xxHash specification and of `xxhsum -H64`, `-H3`.
TEST(Hash, KnownAnswers) {
  EXPECT_EQ(xxh64(""), 0xef46db3751d8e999);
  EXPECT_EQ(xxh64("a"), 0xd24ec4f1a98c6e5b);
  EXPECT_EQ(xxh64("abc"), 0x44bc2cf5ad770999);
  EXPECT_EQ(xxh3(""), 0x2d06800538d394c2);
  EXPECT_EQ(xxh3("a"), 0xe6c632b61e964e1f);
}

TEST(Hash, StreamingEqualsWholeHoweverItIsCut) {
  std::string text;
  for (int i = 0; i < 5000; ++i) text += static_cast<char>(i * 7 % 251);
  for (const HashKind kind : {HashKind::kXxh64, HashKind::kXxh3}) {
    const uint64_t whole = kind == HashKind::kXxh64 ? xxh64(text) : xxh3(text);
    for (const size_t cut : {size_t{1}, size_t{31}, size_t{1024}, size_t{4999}}) {
      StreamingHash hash(kind);
      for (size_t at = 0; at < text.size(); at += cut) hash.update(std::string_view(text).substr(at, cut));
      EXPECT_EQ(hash.digest(), whole);
    }
  }
}

TEST(Hash, TextsKeepTheirBorders) {
  StreamingHash first, second;
  first.update_text("ab");
  first.update_text("c");
  second.update_text("a");
  second.update_text("bc");
  EXPECT_NE(first.digest(), second.digest());
}

TEST(Hash, TextFormGoesThereAndBack) {
  EXPECT_EQ(hash_text(0xabc), "0000000000000abc");
  EXPECT_EQ(parse_hash("0000000000000abc"), 0xabcU);
  for (const char* wrong :
       {"", "abc", "0000000000000ABC", "000000000000 abc", "0x00000000000abc", "00000000000000abc"}) {
    EXPECT_THROW((void)parse_hash(wrong), InputError) << wrong;
  }
}

}  // namespace
}  // namespace weft
