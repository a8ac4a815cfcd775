#include "base/safetensors.h"

#include <cstring>

#include <gtest/gtest.h>

#include "base/error.h"

namespace weft {
namespace {

std::string complaint(std::string_view header, uint64_t data_bytes) {
  try {
    (void)parse_safetensors_header(header, 8 + header.size() + data_bytes, "m.safetensors");
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(SafetensorsHeader, ReadsWhatTheFormatAllows) {
  const std::string_view text =
      R"({"b":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},"e":{"dtype":"BF16","shape":[0,7],"data_offsets":[24,24]},)"
      R"("s":{"dtype":"I64","shape":[],"data_offsets":[24,32]},"f":{"dtype":"F8_E4M3","shape":[3],"data_offsets":[32,35]},)"
      R"("__metadata__":{"format":"pt"}}   )";
  const auto header = parse_safetensors_header(text, 8 + text.size() + 35, "m");
  ASSERT_EQ(header.tensors.size(), 4u);
  EXPECT_EQ(header.tensors[0].name, "b");
  EXPECT_EQ(header.tensors[1].name, "e");  // empty, between
  EXPECT_EQ(header.tensors[2].name, "s");
  EXPECT_EQ(header.tensors[2].shape.size(), 0u);
  EXPECT_EQ(header.tensors[3].type, StoredType::kF8E4M3);
  EXPECT_EQ(header.metadata.at("format"), "pt");
  EXPECT_EQ(header.data_offset, 8 + text.size());
  EXPECT_EQ(header.file_bytes(), 8 + text.size() + 35);
}

TEST(SafetensorsHeader, RefusesEachLie) {
  struct Row {
    std::string_view header;
    uint64_t data_bytes;
    std::string_view expected;
  };
  const Row rows[] = {
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 7,
       "m.safetensors: tensor 'a' ends at byte 8 of the data, which has 7: the file is truncated"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 9, "m.safetensors: 1 bytes after the last tensor"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4,
       "m.safetensors: a: F32 [2] takes 8 bytes, the offsets say 0 to 4"},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", 8,
       "m.safetensors: a: F32 [2] takes 8 bytes, the offsets say 8 to 0"},
      {R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}})",
       6, "m.safetensors: tensor 'b' overlaps 'a'"},
      {R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})",
       4, "m.safetensors: tensor 'b' overlaps 'a'"},
      {R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[4],"data_offsets":[5,9]}})",
       9, "m.safetensors: 1 bytes before tensor 'b' belong to no tensor"},
      {R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[1,5]}})", 5,
       "m.safetensors: 1 bytes before tensor 'a' belong to no tensor"},
      {R"({"a":{"dtype":"F64","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0,
       "m.safetensors: a: the shape [4294967296, 4294967296] has no possible size"},
      {R"({"a":{"dtype":"U8","shape":[9223372036854775807,2],"data_offsets":[0,18446744073709551614]}})", 0,
       "m.safetensors: a.data_offsets[1]: expected an integer below 2^63, found 18446744073709551614"},
      {R"({"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,0]}})", 0,
       "m.safetensors: a: the shape [-1] has no possible size"},
      {R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[-1,-1]}})", 0,
       "m.safetensors: a.data_offsets[0]: expected an offset, found -1"},
      {R"({"a":{"dtype":"F4","shape":[2],"data_offsets":[0,1]}})", 1,
       "m.safetensors: a.dtype: the element type F4 is not supported"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0]}})", 1,
       "m.safetensors: a.data_offsets: expected [begin, end], found 1 numbers"},
      {R"({"a":{"dtype":"U8","shape":["x"],"data_offsets":[0,1]}})", 1,
       "m.safetensors: a.shape[0]: expected an integer, found \"x\""},
      {R"({"a":{"shape":[1],"data_offsets":[0,1]}})", 1, "m.safetensors: a.dtype: missing"},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
       2, "m.safetensors: the key 'a' stands twice in one object"},
      {R"({"__metadata__":{"step":3}})", 0, "m.safetensors: __metadata__.step: expected a string, found 3"},
      {R"({"__metadata__":[]})", 0, "m.safetensors: __metadata__: expected an object, found []"},
      {R"( {})", 0, "m.safetensors: the header does not begin with '{': not a safetensors file"},
      {"", 0, "m.safetensors: the header does not begin with '{': not a safetensors file"},
      {R"({"a")", 0, "m.safetensors: line 1, column 5: not JSON"},
  };
  for (const auto& row : rows) {
    EXPECT_EQ(complaint(row.header, row.data_bytes).substr(0, row.expected.size()), row.expected) << row.header;
  }
}

TEST(SafetensorsHeader, LengthIsBounded) {
  const auto length = [](uint64_t claimed, uint64_t file_bytes) {
    char bytes[8];
    std::memcpy(bytes, &claimed, 8);
    try {
      return std::to_string(safetensors_header_length({bytes, 8}, file_bytes, "m"));
    } catch (const InputError& error) {
      return std::string(error.what());
    }
  };
  EXPECT_EQ(length(10, 18), "10");
  EXPECT_EQ(length(11, 18), "m: the header claims 11 bytes, the file has 10 after the length: it is truncated");
  EXPECT_EQ(length(UINT64_MAX, 18),
            "m: the header claims 18446744073709551615 bytes, more than 100000000: not a safetensors file");
  EXPECT_THROW((void)safetensors_header_length("abc", 3, "m"), InputError);
}

TEST(SafetensorsHeader, PlanReadsBack) {
  std::vector<StoredTensor> tensors;
  tensors.push_back({.name = "half", .type = StoredType::kBF16, .shape = {3}});
  tensors.push_back({.name = "z", .type = StoredType::kF32, .shape = {2, 2}});
  tensors.push_back({.name = "a", .type = StoredType::kF32, .shape = {}});
  tensors.push_back({.name = "empty", .type = StoredType::kI64, .shape = {0}});
  const auto layout = plan_safetensors(tensors, {{"format", "pt"}});
  EXPECT_EQ(layout.prefix.size() % 8, 0u);
  const uint64_t bytes = layout.header.file_bytes();
  EXPECT_EQ(bytes, layout.prefix.size() + 4 + 16 + 6);
  const uint64_t length = safetensors_header_length(layout.prefix, bytes, "m");
  const auto header = parse_safetensors_header(std::string_view(layout.prefix).substr(8, length), bytes, "m");
  ASSERT_EQ(header.tensors.size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(header.tensors[i].name, layout.header.tensors[i].name);
    EXPECT_EQ(header.tensors[i].begin, layout.header.tensors[i].begin);
    EXPECT_EQ(header.tensors[i].begin % stored_type_size(header.tensors[i].type), 0u);
  }
}

}  // namespace
}  // namespace weft
