#include "data/tokenizer_json.h"

#include <algorithm>
#include <limits>
#include <optional>

#include <fmt/format.h>

#include "base/error.h"
#include "base/json.h"

namespace weft::data {
namespace {

TokenId id_of(const JsonReader& json) {
  const std::int64_t id = json.as_integer();
  if (id < 0 || id > kLargestTokenId) {
    json.fail(fmt::format("expected a token id from 0 to {}, found {}", kLargestTokenId, id));
  }
  return static_cast<TokenId>(id);
}

// Straight over the library's values: a reader each for 150,000 tokens would take longer than parsing the file.
BpeModel::Tokens tokens_of(const JsonReader& json) {
  if (!json.is_object()) {
    json.fail("expected an object of tokens and their ids");
  }
  BpeModel::Tokens tokens;
  tokens.reserve(json.json().size());
  for (const auto& [text, id] : json.json().items()) {
    if (!id.is_number_unsigned() || id.get<std::uint64_t>() > kLargestTokenId) {
      json.fail(
          fmt::format("token \"{}\": expected an id from 0 to {}, found {}", text, kLargestTokenId, dump_json(id)));
    }
    tokens.emplace_back(text, id.get<TokenId>());
  }
  return tokens;
}

std::optional<std::pair<std::string, std::string>> merge_of_line(std::string_view line) {
  const std::size_t space = line.find(' ');
  if (space == std::string_view::npos || line.find(' ', space + 1) != std::string_view::npos) {
    return std::nullopt;
  }
  return std::pair(std::string(line.substr(0, space)), std::string(line.substr(space + 1)));
}

BpeModel::Merges merges_of(const JsonReader& json) {
  if (!json.is_array()) {
    json.fail("expected an array of merges");
  }
  BpeModel::Merges merges;
  merges.reserve(json.json().size());
  for (const Json& item : json.json()) {
    std::optional<std::pair<std::string, std::string>> merge;
    if (item.is_string()) {
      merge = merge_of_line(item.get_ref<const std::string&>());
    } else if (item.is_array() && item.size() == 2 && item[0].is_string() && item[1].is_string()) {
      merge = std::pair(item[0].get<std::string>(), item[1].get<std::string>());
    }
    if (!merge) {
      json.fail(fmt::format("merge {}: expected two tokens, \"a b\" or [\"a\", \"b\"], found {}", merges.size(),
                            dump_json(item)));
    }
    merges.push_back(std::move(*merge));
  }
  return merges;
}

BpeOptions options_of(const JsonReader& model) {
  if (model.has("dropout") && model.number("dropout") != 0) {
    model.at("dropout").fail("a dropout of merges is not supported");
  }
  BpeOptions options;
  options.ignore_merges = model.boolean("ignore_merges", false);
  options.fuse_unknown = model.boolean("fuse_unk", false);
  options.byte_fallback = model.boolean("byte_fallback", false);
  options.unknown_token = model.string("unk_token", "");
  options.continuing_subword_prefix = model.string("continuing_subword_prefix", "");
  options.end_of_word_suffix = model.string("end_of_word_suffix", "");
  return options;
}

// The ids that `tokenizers` gives added tokens, whatever their "id" says: the vocabulary's, or the next free one.
std::vector<AddedToken> added_tokens_of(const JsonReader& json, const TokenVocabulary& vocabulary) {
  std::vector<std::pair<AddedToken, JsonReader>> tokens;
  for (const JsonReader& item : json.items()) {
    AddedToken token;
    token.content = item.string("content");
    token.id = id_of(item.at("id"));
    token.single_word = item.boolean("single_word", false);
    token.lstrip = item.boolean("lstrip", false);
    token.rstrip = item.boolean("rstrip", false);
    token.special = item.boolean("special", false);
    token.normalized = item.boolean("normalized", !token.special);
    if (token.content.empty()) {
      item.at("content").fail("an added token must not be empty");
    }
    tokens.emplace_back(std::move(token), item);
  }
  std::stable_sort(tokens.begin(), tokens.end(), [](const auto& a, const auto& b) { return a.first.id < b.first.id; });
  TokenId next = static_cast<TokenId>(vocabulary.count());
  std::vector<AddedToken> result;
  for (auto& [token, item] : tokens) {
    const auto known = vocabulary.find(token.content);
    const TokenId expected = known ? *known : next;
    if (token.id != expected) {
      item.at("id").fail(fmt::format("the added token \"{}\" has the id {}, but {} is {}", token.content, token.id,
                                     known ? "its id in the vocabulary" : "the next free id", expected));
    }
    if (!result.empty() && result.back().id == token.id) {
      item.fail(fmt::format("the added token \"{}\" is there twice", token.content));
    }
    next = std::max<TokenId>(next, token.id + 1);
    result.push_back(std::move(token));
  }
  return result;
}

// The ids before and behind the text; processors in a sequence wrap what the ones before made.
void add_template(const JsonReader& json, BpeTokenizerParts& parts) {
  std::vector<TokenId> before;
  std::vector<TokenId> behind;
  bool seen_text = false;
  for (const JsonReader& piece : json.at("single").items()) {
    if (piece.has("Sequence")) {
      if (seen_text || piece.at("Sequence").string("id") != "A") {
        piece.fail("a template for one text holds the sequence A once");
      }
      seen_text = true;
      continue;
    }
    const JsonReader token = json.at("special_tokens").at(piece.at("SpecialToken").string("id"));
    for (const JsonReader& id : token.at("ids").items()) {
      const TokenId value = id_of(id);
      if (parts.added_tokens.find(value) == nullptr && !parts.model->vocabulary().contains(value)) {
        id.fail(fmt::format("there is no token with the id {}", value));
      }
      (seen_text ? behind : before).push_back(value);
    }
  }
  if (!seen_text) {
    json.at("single").fail("a template for one text holds the sequence A once");
  }
  parts.template_before.insert(parts.template_before.begin(), before.begin(), before.end());
  parts.template_behind.insert(parts.template_behind.end(), behind.begin(), behind.end());
}

void add_post_processor(const JsonReader& json, BpeTokenizerParts& parts) {
  const std::string type = json.string("type");
  if (type == "Sequence") {
    for (const JsonReader& item : json.at("processors").items()) {
      add_post_processor(item, parts);
    }
  } else if (type == "TemplateProcessing") {
    add_template(json, parts);
  } else if (type != "ByteLevel") {  // ByteLevel only moves offsets
    json.at("type").fail(fmt::format("the post-processor \"{}\" is not supported", type));
  }
}

}  // namespace

BpeTokenizerParts parts_of_tokenizer_json(std::string_view text, std::string_view origin) {
  const Json document = parse_json(text, origin);
  const JsonReader root(document, origin);
  const JsonReader model = root.at("model");
  const std::string type = model.string("type", model.has("merges") ? "BPE" : "");
  if (type != "BPE") {
    model.fail(fmt::format("the model \"{}\" is not supported; only BPE is", type));
  }
  BpeTokenizerParts parts;
  if (root.has("normalizer")) {
    parts.normalizer = normalizer_of_json(root.at("normalizer"));
  }
  const BpeModel::Tokens tokens = tokens_of(model.at("vocab"));
  const BpeOptions options = options_of(model);
  const bool raw_bytes = root.has("pre_tokenizer") && ends_in_byte_level(root.at("pre_tokenizer")) &&
                         BpeModel::covers_all_bytes(tokens, options);
  if (root.has("pre_tokenizer")) {
    parts.pre_tokenizer = pre_tokenizer_of_json(root.at("pre_tokenizer"), raw_bytes);
  }
  parts.model = std::make_unique<BpeModel>(tokens, merges_of(model.at("merges")), options, raw_bytes, origin);
  if (root.has("added_tokens")) {
    parts.added_tokens = AddedTokens(added_tokens_of(root.at("added_tokens"), parts.model->vocabulary()),
                                     parts.normalizer.get(), origin);
  }
  if (root.has("post_processor")) {
    add_post_processor(root.at("post_processor"), parts);
  }
  if (root.has("decoder")) {
    parts.decoder = decoder_of_json(root.at("decoder"));
  } else {
    parts.decoder.push_back(decode_join_with_spaces());
  }
  return parts;
}

BpeTokenizerParts parts_of_gpt2_files(std::string_view vocabulary, std::string_view vocabulary_origin,
                                      std::string_view merges, std::string_view merges_origin) {
  constexpr std::string_view kEndOfText = "<|endoftext|>";
  const Json document = parse_json(vocabulary, vocabulary_origin);
  const BpeModel::Tokens tokens = tokens_of(JsonReader(document, vocabulary_origin));
  if (!BpeModel::covers_all_bytes(tokens, {})) {
    throw InputError(
        fmt::format("{}: not every byte has a token; a vocabulary of GPT-2's kind has all 256", vocabulary_origin));
  }
  BpeModel::Merges pairs;
  for (std::size_t position = 0, line_number = 1; position < merges.size(); ++line_number) {
    const std::size_t end = std::min(merges.find('\n', position), merges.size());
    std::string_view line = merges.substr(position, end - position);
    position = end + 1;
    if (line.ends_with('\r')) {
      line.remove_suffix(1);
    }
    if (line.empty() || line.starts_with("#version")) {
      continue;
    }
    auto merge = merge_of_line(line);
    if (!merge) {
      throw InputError(fmt::format("{}: line {}: expected two tokens, found \"{}\"", merges_origin, line_number, line));
    }
    pairs.push_back(std::move(*merge));
  }
  BpeTokenizerParts parts;
  parts.pre_tokenizer = byte_level(false, true, false);
  parts.model = std::make_unique<BpeModel>(tokens, pairs, BpeOptions{}, true, merges_origin);
  if (const auto id = parts.model->vocabulary().find(kEndOfText)) {
    AddedToken token;
    token.content = kEndOfText;
    token.id = *id;
    token.special = true;
    parts.added_tokens = AddedTokens({token}, nullptr, vocabulary_origin);
  }
  parts.decoder.push_back(decode_byte_level());
  return parts;
}

}  // namespace weft::data
