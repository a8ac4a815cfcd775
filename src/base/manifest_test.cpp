#include "base/manifest.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace weft {
namespace {

Manifest example() {
  Manifest manifest;
  manifest.step = 200;
  manifest.samples = 2400;
  manifest.tokens = 153600;
  manifest.seed = 1337;
  manifest.parameter_hash = 0xfedcba9876543210;
  manifest.validation_loss = 1.9051234567890123;
  manifest.configuration_hash = 7;
  manifest.fields = {{"model.width", "128"}, {"optimizer.kind", "\"adamw\""}};
  manifest.data_fingerprint = 9;
  manifest.sources = {{"a.txt", 2, 17}};
  manifest.optimizer = {{"decayed", "adamw", "bias-corrected", 200, {"layers.0.mlp.up.weight"}}};
  manifest.files = {{"parameters.safetensors", 1000, 3}, {"optimizer.safetensors", 2000, 4}};
  // A tensor in two pieces, as two ranks would write it, and a scalar.
  manifest.tensors = {
      {"value",
       "layers.0.mlp.up.weight",
       StoredType::kF32,
       {4, 6},
       {{"parameters.safetensors", "up.0", {{0, 0}, {4, 2}}, 1},
        {"parameters.safetensors", "up.1", {{0, 2}, {4, 4}}, 2}}},
      {"second_moment", "scale", StoredType::kF32, {}, {{"optimizer.safetensors", "scale", {{}, {}}, 5}}}};
  return manifest;
}

std::string complaint(const std::string& text) {
  try {
    (void)parse_manifest(text, "manifest.json");
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Manifest, ReadsBack) {
  const std::string text = manifest_text(example());
  const Manifest manifest = parse_manifest(text, "manifest.json");
  EXPECT_EQ(manifest_text(manifest), text);
  EXPECT_EQ(manifest.seed, 1337u);
  EXPECT_EQ(manifest.validation_loss, 1.9051234567890123);
  ASSERT_NE(manifest.find("second_moment", "scale"), nullptr);
  EXPECT_EQ(manifest.find("value", "scale"), nullptr);
  EXPECT_EQ(manifest.find("value", "layers.0.mlp.up.weight")->pieces[1].box.offset, (std::vector<int64_t>{0, 2}));
}

TEST(Manifest, EveryFlippedBitIsSeen) {
  const std::string text = manifest_text(example());
  for (size_t i = 0; i < text.size(); ++i) {
    for (const int bit : {0, 5, 7}) {
      std::string flipped = text;
      flipped[i] = static_cast<char>(flipped[i] ^ (1 << bit));
      EXPECT_NE(complaint(flipped), "accepted") << i << " bit " << bit;
    }
  }
  for (const size_t bytes : {size_t{0}, size_t{20}, size_t{40}, text.size() / 2, text.size() - 1}) {
    EXPECT_NE(complaint(text.substr(0, bytes)), "accepted") << bytes;
  }
}

TEST(Manifest, RefusesEachLie) {
  const auto with = [](auto change) {
    Manifest manifest = example();
    change(manifest);
    return complaint(manifest_text(manifest));
  };
  EXPECT_EQ(with([](Manifest& m) {
              m.tensors[0].pieces[1].box.offset = {0, 1};
            }),
            "manifest.json: tensors[0].pieces: pieces 0 and 1 overlap");
  EXPECT_EQ(with([](Manifest& m) { m.tensors[0].pieces.pop_back(); }),
            "manifest.json: tensors[0].pieces: the pieces hold 32 bytes of 96");
  EXPECT_EQ(with([](Manifest& m) {
              m.tensors[0].pieces[1].box.offset = {0, 3};
            }),
            "manifest.json: tensors[0].pieces[1]: the piece at [0, 3] of shape [4, 4] does not lie in "
            "'layers.0.mlp.up.weight' of shape [4, 6]");
  EXPECT_EQ(with([](Manifest& m) { m.tensors[0].pieces[0].file = "../secret"; }),
            "manifest.json: tensors[0].pieces[0].file: '../secret' is not the name of a checkpoint's file");
  EXPECT_EQ(with([](Manifest& m) { m.tensors[0].pieces[0].file = "other"; }),
            "manifest.json: tensors[0]: its file 'other' is not listed");
  EXPECT_EQ(with([](Manifest& m) { m.files[0].name = "manifest.json"; }),
            "manifest.json: files[0].name: 'manifest.json' is not the name of a checkpoint's file");
  EXPECT_EQ(with([](Manifest& m) { m.files[1].name = "parameters.safetensors"; }),
            "manifest.json: files[1]: the file is listed twice");
  EXPECT_EQ(with([](Manifest& m) { m.tensors.push_back(m.tensors[1]); }),
            "manifest.json: tensors[2]: the tensor is listed twice");
  EXPECT_EQ(with([](Manifest& m) {
              m.tensors[0].shape = {int64_t{1} << 62, 6};
            }),
            "manifest.json: tensors[0].shape: has no possible size");
  EXPECT_EQ(with([](Manifest& m) { m.step = -1; }), "manifest.json: step: expected a count, found -1");
}

}  // namespace
}  // namespace weft
