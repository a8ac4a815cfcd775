// What tokenizer files may not hold, and what is said about it.
#include "data/tokenizer_json.h"

#include <sstream>

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/json.h"
#include "data/tokenize_command.h"

namespace weft::data {
namespace {

Json small() {
  return parse_json(R"({
    "added_tokens": [{"id": 4, "content": "<s>", "special": true}],
    "normalizer": null,
    "pre_tokenizer": {"type": "Whitespace"},
    "post_processor": null,
    "decoder": {"type": "Fuse"},
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2, "c": 3}, "merges": ["a b"]}
  })",
                    "small");
}

// The InputError of loading `json`, without the file's name; "" if it loads.
std::string complaint(const Json& json) {
  try {
    (void)BpeTokenizer(parts_of_tokenizer_json(dump_json(json), "t.json"));
    return "";
  } catch (const InputError& error) {
    const std::string text = error.what();
    EXPECT_EQ(text.substr(0, 8), "t.json: ") << text;
    return text.substr(8);
  }
}

std::string complaint_after(std::string_view pointer, std::string_view value) {
  Json json = small();
  json[Json::json_pointer(std::string(pointer))] = parse_json(value, "value");
  return complaint(json);
}

TEST(TokenizerJson, TheSmallOneLoads) {
  EXPECT_EQ(complaint(small()), "");
  const BpeTokenizer tokenizer(parts_of_tokenizer_json(dump_json(small()), "t.json"));
  EXPECT_EQ(tokenizer.encode("<s>ab ba c"), (std::vector<TokenId>{4, 2, 1, 0, 3}));
}

struct Wrong {
  const char* pointer;
  const char* value;
  const char* complaint;  // a part of it
};

class WrongTokenizer : public testing::TestWithParam<Wrong> {};

TEST_P(WrongTokenizer, IsNamed) {
  const std::string found = complaint_after(GetParam().pointer, GetParam().value);
  EXPECT_NE(found.find(GetParam().complaint), std::string::npos)
      << GetParam().pointer << " = " << GetParam().value << ": " << (found.empty() ? "it loaded" : found);
}

INSTANTIATE_TEST_SUITE_P(
    Model, WrongTokenizer,
    testing::Values(Wrong{"/model/type", R"("Unigram")", "model: the model \"Unigram\" is not supported"},
                    Wrong{"/model", "3", "model"}, Wrong{"/model/vocab", "[]", "model.vocab: expected an object"},
                    Wrong{"/model/vocab/a", "-1", "token \"a\": expected an id"},
                    Wrong{"/model/vocab/a", "1.5", "token \"a\": expected an id"},
                    Wrong{"/model/vocab/a", "\"0\"", "token \"a\": expected an id"},
                    Wrong{"/model/vocab/a", "4194304", "token \"a\": expected an id from 0 to 4194303"},
                    Wrong{"/model/vocab/a", "1", "have the same id 1"},
                    Wrong{"/model/merges", R"(["a b", "a b"])", "is there twice, as merges 0 and 1"},
                    Wrong{"/model/merges", R"(["a x"])", "\"x\" is not a token"},
                    Wrong{"/model/merges", R"(["b a"])", "\"ba\" is not a token"},
                    Wrong{"/model/merges", R"(["ab"])", "merge 0: expected two tokens"},
                    Wrong{"/model/merges", R"([["a", "b", "c"]])", "merge 0: expected two tokens"},
                    Wrong{"/model/merges", R"([["a", 1]])", "merge 0: expected two tokens"},
                    Wrong{"/model/merges", "{}", "model.merges: expected an array"},
                    Wrong{"/model/dropout", "0.1", "model.dropout: a dropout of merges is not supported"},
                    Wrong{"/model/continuing_subword_prefix", R"("###")", "shorter than the continuing_subword_prefix"},
                    Wrong{"/model/fuse_unk", "1", "model.fuse_unk"}));

INSTANTIATE_TEST_SUITE_P(
    AddedTokens, WrongTokenizer,
    testing::Values(Wrong{"/added_tokens", R"([{"id": 7, "content": "X"}])", "added_tokens[0].id"},
                    Wrong{"/added_tokens", R"([{"id": 7, "content": "X"}])", "the next free id is 4"},
                    Wrong{"/added_tokens", R"([{"id": 1, "content": "a"}])", "its id in the vocabulary"},
                    Wrong{"/added_tokens", R"([{"id": 4, "content": ""}])", "must not be empty"},
                    Wrong{"/added_tokens", R"([{"id": 0, "content": "a"}, {"id": 0, "content": "a"}])",
                          "is there twice"},
                    Wrong{"/added_tokens", R"([{"id": -1, "content": "a"}])", "expected a token id"},
                    Wrong{"/added_tokens", R"([{"id": 4}])", "content"}));

INSTANTIATE_TEST_SUITE_P(
    Components, WrongTokenizer,
    testing::Values(
        Wrong{"/normalizer", R"({"type": "BertNormalizer"})", "normalizer.type: the normalizer \"BertNormalizer\""},
        Wrong{"/normalizer", R"({"type": "Sequence", "normalizers": [{"type": "Nmt"}]})", "normalizers[0].type"},
        Wrong{"/normalizer", R"({"type": "Replace", "pattern": {"String": ""}, "content": "x"})", "an empty pattern"},
        Wrong{"/normalizer", R"({"type": "Strip", "strip_left": true})", "strip_right"},
        Wrong{"/pre_tokenizer", R"({"type": "BertPreTokenizer"})", "the pre-tokenizer \"BertPreTokenizer\""},
        Wrong{"/pre_tokenizer", R"j({"type": "Split", "pattern": {"Regex": "a"}, "behavior": "isolated"})j",
              "is none of Removed"},
        Wrong{"/pre_tokenizer", R"({"type": "Metaspace", "replacement": "__"})", "expected one character"},
        Wrong{"/pre_tokenizer", R"({"type": "Metaspace", "replacement": "_", "prepend_scheme": "last"})",
              "is none of always"},
        Wrong{"/decoder", R"({"type": "WordPiece"})", "the decoder \"WordPiece\" is not supported"},
        Wrong{"/decoder", R"({"type": "Strip", "content": " ", "start": -1, "stop": 0})",
              "decoder.start: expected a count"},
        Wrong{"/post_processor", R"({"type": "BertProcessing"})", "the post-processor \"BertProcessing\""},
        Wrong{"/post_processor", R"({"type": "TemplateProcessing", "single": [], "special_tokens": {}})",
              "the sequence A once"}));

// What Oniguruma and PCRE2 read differently, and what is no regular expression.
TEST(TokenizerJson, RefusedRegularExpressions) {
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {"(", "regular expression"},      {R"(\h)", R"(\h is not)"},        {"[a&&b]", "&&"},
      {"[a[b]]", "a class inside"},     {"[[:alpha:]]", "POSIX"},         {"a{1,2}+", "possessive"},
      {R"(\p{Foo})", "property Foo"},   {"(?<n>a)", "groups that start"}, {"[a", "not closed"},
      {R"(a\)", "ends in a backslash"}, {R"(\bx)", "word boundaries"},    {"", "an empty pattern"},
      {R"(\p)", "a name in braces"},    {R"(\x{12)", "is not closed"},    {R"(\K)", R"(\K is not)"},
  };
  for (const auto& [pattern, expected] : wrong) {
    Json json = small();
    json["pre_tokenizer"] = {{"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Removed"}};
    const std::string found = complaint(json);
    EXPECT_EQ(found.find("pre_tokenizer"), 0U) << pattern << ": " << found;
    EXPECT_NE(found.find(expected), std::string::npos) << pattern << ": " << found;
  }
}

TEST(TokenizerJson, NotJson) {
  EXPECT_THROW((void)parts_of_tokenizer_json("{", "t.json"), InputError);
  EXPECT_THROW((void)parts_of_tokenizer_json("", "t.json"), InputError);
  EXPECT_THROW((void)parts_of_tokenizer_json(std::string(100000, '['), "t.json"), InputError);
  EXPECT_THROW((void)parts_of_tokenizer_json("\"\xFF\"", "t.json"), InputError);
  const std::string twice = R"({"model": {"vocab": {"a": 0, "a": 1}, "merges": []}})";
  EXPECT_THROW((void)parts_of_tokenizer_json(twice, "t.json"), InputError);
}

TEST(TokenizerJson, HolesInTheVocabularyAreAllowed) {
  Json json = small();
  json["model"]["vocab"]["c"] = 9;
  json["added_tokens"] = Json::array();
  const BpeTokenizer tokenizer(parts_of_tokenizer_json(dump_json(json), "t.json"));
  EXPECT_EQ(tokenizer.vocabulary_size(), 10U);
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("c")), "c");
  EXPECT_EQ(tokenizer.decode(std::vector<TokenId>{5}), "");
}

TEST(TokenizerJson, AnUnknownTokenThatIsNotThereFailsWhenItIsNeeded) {
  Json json = small();
  json["model"]["unk_token"] = "<unk>";
  const BpeTokenizer tokenizer(parts_of_tokenizer_json(dump_json(json), "t.json"));
  EXPECT_EQ(tokenizer.encode("ab").size(), 1U);
  EXPECT_THROW((void)tokenizer.encode("x"), InputError);
}

TEST(Gpt2Files, BrokenMerges) {
  const std::string vocabulary = "tests/data/tokenizers/gpt2/vocab.json";
  std::string tokens = "{";
  for (int byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    static int next = 256;
    Json token = std::string();
    std::string text;
    const int code = printable ? byte : next++;
    text = code < 128 ? std::string(1, static_cast<char>(code))
                      : std::string{static_cast<char>(0xC0 | (code >> 6)), static_cast<char>(0x80 | (code & 63))};
    tokens += dump_json(Json(text)) + ": " + std::to_string(byte) + ", ";
  }
  tokens += "\"ab\": 256}";
  const auto load = [&](std::string_view merges) {
    return BpeTokenizer(parts_of_gpt2_files(tokens, "v", merges, "m"));
  };
  EXPECT_EQ(load("#version: 0.2\r\na b\r\n").encode("ab"), (std::vector<TokenId>{256}));
  for (const std::string_view merges : {"a b\nabc\n", "a b\na b\n", "a c\n", "a  b\n"}) {
    EXPECT_THROW((void)load(merges), InputError) << merges;
  }
  EXPECT_THROW((void)parts_of_gpt2_files("{\"a\": 0}", "v", "", "m"), InputError);
}

TEST(TokenizeCommand, AnswersLineByLine) {
  std::istringstream in("{\"text\": \"<s>hello\"}\n\n{\"text\": \"h\\u00e9\"}\n");
  std::ostringstream out;
  tokenize_command({"tests/data/tokenizers/zoo/llama2_bpe_1024", true}, in, out);
  std::istringstream lines(out.str());
  std::string first;
  std::string second;
  std::getline(lines, first);
  std::getline(lines, second);
  const Json reply = parse_json(first, "reply");
  EXPECT_EQ(reply["ids"], Json::parse("[1, 1, 361, 341, 310]"));
  EXPECT_EQ(reply["decoded"], "<s><s> hello");
  EXPECT_EQ(parse_json(second, "reply")["decoded"], "<s> h\u00e9");
}

TEST(TokenizeCommand, NamesTheWrongLine) {
  for (const std::string wrong : {"{\"text\": 3}", "{\"txt\": \"a\"}", "[1]", "{", "{\"text\": \"\xFF\"}"}) {
    std::istringstream in("{\"text\": \"a\"}\n" + wrong + "\n{\"text\": \"b\"}\n");
    std::ostringstream out;
    try {
      tokenize_command({"bytes", false}, in, out);
      ADD_FAILURE() << wrong << " was accepted";
    } catch (const InputError& error) {
      EXPECT_NE(std::string(error.what()).find("standard input, line 2"), std::string::npos) << error.what();
    }
    EXPECT_EQ(out.str(), "{\"ids\":[97],\"decoded\":\"a\"}\n");
  }
}

}  // namespace
}  // namespace weft::data
