// Normalizers, pre-tokenizers and decoders of tokenizer.json.
#include <iterator>

#include <fmt/format.h>

#include "base/json.h"
#include "data/tokenizer_json.h"
#include "data/tokenizer_regex.h"
#include "data/unicode.h"

namespace weft::data {
namespace {

std::string place(const JsonReader& json) { return fmt::format("{}: {}", json.origin(), json.path()); }

// {"String": s} or {"Regex": r}, as a regular expression.
std::string pattern_of(const JsonReader& json) {
  const JsonReader pattern = json.at("pattern");
  const bool literal = pattern.has("String");
  const JsonReader text = pattern.at(literal ? "String" : "Regex");
  if (text.as_string().empty()) {
    text.fail("an empty pattern is not supported");
  }
  return literal ? literal_pattern(text.as_string()) : text.as_string();
}

// A string of one character.
std::string character_of(const JsonReader& json) {
  const std::string& text = json.as_string();
  std::size_t position = 0;
  if (!text.empty()) {
    next_code_point(text, position);
  }
  if (text.empty() || position != text.size()) {
    json.fail(fmt::format("expected one character, found \"{}\"", text));
  }
  return text;
}

SplitBehavior behavior_of(const JsonReader& json) {
  const std::string& name = json.as_string();
  if (name == "Removed") return SplitBehavior::Removed;
  if (name == "Isolated") return SplitBehavior::Isolated;
  if (name == "MergedWithPrevious") return SplitBehavior::MergedWithPrevious;
  if (name == "MergedWithNext") return SplitBehavior::MergedWithNext;
  if (name == "Contiguous") return SplitBehavior::Contiguous;
  json.fail(fmt::format("\"{}\" is none of Removed, Isolated, MergedWithPrevious, MergedWithNext, Contiguous", name));
}

struct MetaspaceFields {
  std::string replacement;
  PrependScheme scheme;
  bool split;
};

MetaspaceFields metaspace_of(const JsonReader& json) {
  MetaspaceFields fields{character_of(json.at("replacement")), PrependScheme::Always, json.boolean("split", true)};
  if (json.has("prepend_scheme")) {
    const std::string scheme = json.string("prepend_scheme");
    if (scheme != "always" && scheme != "first" && scheme != "never") {
      json.at("prepend_scheme").fail(fmt::format("\"{}\" is none of always, first, never", scheme));
    }
    fields.scheme = scheme == "always"  ? PrependScheme::Always
                    : scheme == "first" ? PrependScheme::First
                                        : PrependScheme::Never;
  }
  // The key of older files.
  if (!json.boolean("add_prefix_space", true)) {
    if (json.has("prepend_scheme") && fields.scheme != PrependScheme::Never) {
      json.at("add_prefix_space").fail("false contradicts prepend_scheme");
    }
    fields.scheme = PrependScheme::Never;
  }
  return fields;
}

std::size_t count_of(const JsonReader& json) {
  const std::int64_t count = json.as_integer();
  if (count < 0) {
    json.fail("expected a count");
  }
  return static_cast<std::size_t>(count);
}

void add_decoders(const JsonReader& json, DecoderSteps& steps) {
  const std::string type = json.string("type");
  if (type == "Sequence") {
    for (const JsonReader& item : json.at("decoders").items()) {
      add_decoders(item, steps);
    }
  } else if (type == "ByteLevel") {
    steps.push_back(decode_byte_level());
  } else if (type == "ByteFallback") {
    steps.push_back(decode_byte_fallback());
  } else if (type == "Fuse") {
    steps.push_back(decode_fuse());
  } else if (type == "Replace") {
    steps.push_back(decode_replace(pattern_of(json), json.string("content"), place(json)));
  } else if (type == "Strip") {
    const std::string content = character_of(json.at("content"));
    std::size_t position = 0;
    steps.push_back(
        decode_strip(next_code_point(content, position), count_of(json.at("start")), count_of(json.at("stop"))));
  } else if (type == "Metaspace") {
    const MetaspaceFields fields = metaspace_of(json);
    steps.push_back(decode_metaspace(fields.replacement, fields.scheme != PrependScheme::Never));
  } else {
    json.at("type").fail(fmt::format("the decoder \"{}\" is not supported", type));
  }
}

}  // namespace

std::unique_ptr<Normalizer> normalizer_of_json(const JsonReader& json) {
  const std::string type = json.string("type");
  if (type == "Sequence") {
    std::vector<std::unique_ptr<Normalizer>> stages;
    for (const JsonReader& item : json.at("normalizers").items()) {
      stages.push_back(normalizer_of_json(item));
    }
    return stages.empty() ? nullptr : sequence(std::move(stages));
  }
  if (type == "NFC") return unicode_form(UnicodeForm::Nfc);
  if (type == "NFD") return unicode_form(UnicodeForm::Nfd);
  if (type == "NFKC") return unicode_form(UnicodeForm::Nfkc);
  if (type == "NFKD") return unicode_form(UnicodeForm::Nfkd);
  if (type == "Lowercase") return lowercase();
  if (type == "Prepend") return prepend(json.string("prepend"));
  if (type == "Strip") return strip(json.boolean("strip_left"), json.boolean("strip_right"));
  if (type == "Replace") return replace(pattern_of(json), json.string("content"), place(json));
  json.at("type").fail(fmt::format("the normalizer \"{}\" is not supported", type));
}

bool ends_in_byte_level(const JsonReader& json) {
  const std::string type = json.string("type");
  if (type != "Sequence") {
    return type == "ByteLevel";
  }
  const std::vector<JsonReader> items = json.at("pretokenizers").items();
  return !items.empty() && ends_in_byte_level(items.back());
}

std::unique_ptr<PreTokenizer> pre_tokenizer_of_json(const JsonReader& json, bool raw_bytes) {
  const std::string type = json.string("type");
  if (type == "Sequence") {
    const std::vector<JsonReader> items = json.at("pretokenizers").items();
    std::vector<std::unique_ptr<PreTokenizer>> stages;
    for (std::size_t i = 0; i < items.size(); ++i) {
      stages.push_back(pre_tokenizer_of_json(items[i], raw_bytes && i + 1 == items.size()));
    }
    return chain(std::move(stages));
  }
  if (type == "ByteLevel") {
    return byte_level(json.boolean("add_prefix_space"), json.boolean("use_regex", true), !raw_bytes);
  }
  if (type == "Split") {
    return split_by_pattern(pattern_of(json), behavior_of(json.at("behavior")), json.boolean("invert", false),
                            place(json));
  }
  if (type == "Digits") return split_digits(json.boolean("individual_digits", false));
  if (type == "Punctuation") {
    return split_punctuation(json.has("behavior") ? behavior_of(json.at("behavior")) : SplitBehavior::Isolated);
  }
  if (type == "Whitespace") return split_words_and_symbols();
  if (type == "WhitespaceSplit") return split_at_whitespace();
  if (type == "Metaspace") {
    MetaspaceFields fields = metaspace_of(json);
    return metaspace(std::move(fields.replacement), fields.scheme, fields.split);
  }
  json.at("type").fail(fmt::format("the pre-tokenizer \"{}\" is not supported", type));
}

DecoderSteps decoder_of_json(const JsonReader& json) {
  DecoderSteps steps;
  add_decoders(json, steps);
  return steps;
}

}  // namespace weft::data
