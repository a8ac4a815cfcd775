#include "base/philox.h"

#include <gtest/gtest.h>

#include "base/hash.h"

namespace weft {
namespace {

// kat_vectors of Random123 (Salmon, Moraes, Dror, Shaw), lines "philox4x32 10".
TEST(Philox, KnownAnswersOfRandom123) {
  static_assert(philox4x32_10(0, 0) == PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  EXPECT_EQ(philox4x32_10(~uint64_t{0}, ~uint64_t{0}, ~uint64_t{0}),
            (PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32_10(0x299f31d0a4093822, 0x85a308d3243f6a88, 0x0370734413198a2e),
            (PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

// Answers of ATen's _philox_key_fold_in (2.15.0).
TEST(Philox, FoldIsThatOfATen) {
  struct Row {
    RandomKey key;
    uint64_t data;
    RandomKey folded;
  };
  const Row rows[] = {
      {{0, 0}, 0, {0xe169c58d6627e8d5, 0x9b00dbd8bc57ac4c}},
      {{0, 0}, 1, {0x5cb200dbf8e4cca4, 0x97eff67b1a574eb}},
      {{1, 0}, 0, {0xe50a0ebce3e80670, 0xb615aa2795f222c0}},
      {{0x11f71fb04cb, 7}, 5, {0xf4c9a1b0ad2cb224, 0x84e8f80a78f6e99f}},
      {{0x8000000000000005, 0x10000000000}, 0x200000000, {0x1f494d490d7baeb, 0x97e84573a1f1fa03}},
      {{~uint64_t{0}, ~uint64_t{0} - 3}, 9, {0xd7682c446e5f04e2, 0x408274dde4108c77}},
  };
  for (const Row& row : rows) EXPECT_EQ(fold(row.key, row.data), row.folded) << row.key.seed << " " << row.data;
}

// Answers of ATen's _philox_uniform_ and _philox_normal_ (2.15.0) with the key {1234567890123, 7}.
TEST(Philox, UniformsAndNormalsAreThoseOfATen) {
  const RandomKey key{1234567890123, 7};
  const float uniforms[] = {0.653828979F, 0.0439790487F, 0.536449313F, 0.0471267104F,
                            0.516283154F, 0.323249102F,  0.293262661F, 0.726481676F};
  const float normals[] = {0.709685087F, -1.59637094F, -0.734356701F, 0.439002544F,
                           0.764623165F, -0.16534093F, 0.99902159F,   -0.283700109F};
  for (uint64_t g = 0; g < 8; ++g) {
    EXPECT_EQ(uniform_of_word(random_word(key, g)), uniforms[g]);
    EXPECT_NEAR(random_normal(key, g), normals[g], 1e-6);
  }
}

TEST(Philox, KeysOfUseDifferInEveryPart) {
  const RandomKey key = random_key(1, RandomPurpose::kDropout, 2, xxh64("layer.0"));
  EXPECT_NE(key, random_key(2, RandomPurpose::kDropout, 2, xxh64("layer.0")));
  EXPECT_NE(key, random_key(1, RandomPurpose::kParameters, 2, xxh64("layer.0")));
  EXPECT_NE(key, random_key(1, RandomPurpose::kDropout, 3, xxh64("layer.0")));
  EXPECT_NE(key, random_key(1, RandomPurpose::kDropout, 2, xxh64("layer.1")));
  EXPECT_EQ(key, fold(fold(fold({1, 0}, 2), 2), 0xbd3db46861344ee7));
}

TEST(Philox, ExtremeWordsStayFinite) {
  EXPECT_EQ(uniform_of_word(0xFFFFFFFF), 1 - 0x1p-24F);
  EXPECT_EQ(uniform_of_word(0xFF000000), 0);
  EXPECT_NEAR(normals_of_words(0, 0)[0], 6.7637, 1e-4);
  EXPECT_TRUE(std::isfinite(normals_of_words(0xFFFFFFFF, 0xFFFFFFFF)[0]));
  EXPECT_EQ(dropout_threshold(0), 0x1000000U);
  EXPECT_TRUE(dropout_keeps(0xFFFFFFFF, dropout_threshold(0)));
  EXPECT_EQ(dropout_threshold(0.25), 0xC00000U);
}

TEST(Philox, NormalsHaveTheirMoments) {
  const RandomKey key = random_key(5, RandomPurpose::kParameters, 0, 0);
  double sum = 0, squares = 0, fourth = 0;
  constexpr int kCount = 200000;
  for (uint64_t g = 0; g < kCount; ++g) {
    const double x = random_normal(key, g);
    sum += x;
    squares += x * x;
    fourth += x * x * x * x;
  }
  EXPECT_NEAR(sum / kCount, 0, 0.01);
  EXPECT_NEAR(squares / kCount, 1, 0.015);
  EXPECT_NEAR(fourth / kCount, 3, 0.1);
}

}  // namespace
}  // namespace weft
