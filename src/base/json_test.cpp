#include "base/json.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace weft {
namespace {

std::string complaint(std::string_view text, JsonLimits limits = {}) {
  try {
    (void)parse_json(text, "a.json", limits);
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Json, Parses) {
  const Json json =
      parse_json(R"( {"a": [1, -2, 3.5, {"b": null}], "c": "\u00e9\ud83d\ude00", "d": {}, "e": []} )", "a");
  EXPECT_EQ(json.dump(), R"({"a":[1,-2,3.5,{"b":null}],"c":"é😀","d":{},"e":[]})");
  EXPECT_EQ(parse_json("3", "a").dump(), "3");
  EXPECT_EQ(parse_json("18446744073709551615", "a").get<uint64_t>(), UINT64_MAX);
}

TEST(Json, RefusesWithPlace) {
  const std::pair<std::string_view, std::string_view> rows[] = {
      {"{\"a\": 1,\n \"b\" 2}", "a.json: line 2, column 6: not JSON"},
      {"{\"a\": 1", "a.json: line 1, column 8: not JSON"},
      {"", "a.json: line 1, column 1: not JSON"},
      {"{\"a\": 1} x", "a.json: line 1, column 10: not JSON"},
      {"{\"a\": 1, \"b\": {\"c\": 1, \"c\": 2}}", "a.json: the key 'c' stands twice in one object"},
      {"{\"a\": 1, \"b\": [0], \"a\": 2}", "a.json: the key 'a' stands twice in one object"},
      {"[1e999]", "a.json: line 1, column 6: not JSON"},
      {std::string_view("{}\0 ", 4), "a.json: line 1, column 3: not JSON: a zero byte"},
      {"[NaN]", "a.json: line 1, column 2: not JSON"},
      {"[\"\xff\"]", "a.json: line 1, column 3: not UTF-8"},
      {"[\"\\ud800\"]", "a.json: line 1, column 9: not JSON"},
      {"[\"\xed\xa0\x80\"]", "a.json: line 1, column 3: not UTF-8"},
      {"\xef\xbb\xbf[", "a.json: line 1, column "},
  };
  for (const auto& [text, expected] : rows) {
    const std::string found = complaint(text);
    EXPECT_EQ(found.substr(0, expected.size()), expected) << text << " gave " << found;
  }
}

TEST(Json, Bounds) {
  EXPECT_EQ(complaint("[[[1]]]", {.depth = 3}), "accepted");
  EXPECT_EQ(complaint("[[[[1]]]]", {.depth = 3}), "a.json: nested deeper than 3 levels");
  EXPECT_EQ(complaint("[1]", {.bytes = 2}), "a.json: 3 bytes of JSON, more than 2");
  EXPECT_EQ(complaint(std::string(1 << 20, '[')), "a.json: nested deeper than 64 levels");
}

template <typename Function>
std::string failure(Function function) {
  try {
    function();
  } catch (const InputError& error) {
    return error.what();
  }
  return "nothing";
}

TEST(JsonReader, NamesThePlace) {
  const Json json =
      parse_json(R"({"a": {"b": [1, "x", 3.0, 1.5]}, "n": null, "big": 9223372036854775808, "t": true})", "f");
  const JsonReader reader(json, "f");
  const auto b = reader.at("a").at("b");
  EXPECT_EQ(b.at(0).as_integer(), 1);
  EXPECT_EQ(b.at(2).as_integer(), 3);
  EXPECT_EQ(b.at(3).as_number(), 1.5);
  EXPECT_EQ(reader.boolean("t"), true);
  EXPECT_EQ(reader.integer("n", 7), 7);
  EXPECT_EQ(reader.integer("none", 8), 8);
  EXPECT_FALSE(reader.has("n"));
  EXPECT_EQ(failure([&] { (void)b.at(1).as_integer(); }), "f: a.b[1]: expected an integer, found \"x\"");
  EXPECT_EQ(failure([&] { (void)b.at(3).as_integer(); }), "f: a.b[3]: expected an integer, found 1.5");
  EXPECT_EQ(failure([&] { (void)b.at(4); }), "f: a.b: has 4 elements, element 4 was asked for");
  EXPECT_EQ(failure([&] { (void)reader.at("a").integer("c"); }), "f: a.c: missing");
  EXPECT_EQ(failure([&] { (void)reader.integer("n"); }), "f: n: expected an integer, found null");
  EXPECT_EQ(failure([&] { (void)reader.integer("big"); }),
            "f: big: expected an integer below 2^63, found 9223372036854775808");
  EXPECT_EQ(failure([&] { (void)reader.at("a").string("b"); }), "f: a.b: expected a string, found [1,\"x\",3.0,1.5]");
  EXPECT_EQ(failure([&] { (void)reader.at("t").at("x"); }), "f: t: expected an object, found true");
}

TEST(Json, DumpsWhatJsonCannotHold) {
  OrderedJson json;
  json["z"] = std::nan("");
  json["a"] = "\xff";
  EXPECT_EQ(dump_json(json), "{\"z\":null,\"a\":\"\xEF\xBF\xBD\"}");
}

}  // namespace
}  // namespace weft
