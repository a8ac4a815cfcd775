// weft's side of compare_with_tokenizers.py. Reads lines of JSON: {"load": PATH}, {"export": PATH}, {"text": S,
// "plain": bool}, or
// {"ids": [...]}; answers each with one line: {} or {"error": S}, or the ids in every mode and what they decode to.
#include <exception>
#include <iostream>
#include <memory>
#include <string>

#include "base/json.h"
#include "data/tokenizer.h"

namespace {

using weft::Json;
using weft::data::SpecialTokens;
using weft::data::TokenId;
using weft::data::Tokenizer;

std::string streamed(const Tokenizer& tokenizer, const std::vector<TokenId>& ids, bool skip) {
  const auto decoder = tokenizer.stream_decoder(skip);
  std::string text;
  for (const TokenId id : ids) {
    text += decoder->push(id);
  }
  return text + decoder->finish();
}

Json answer(std::unique_ptr<Tokenizer>& tokenizer, const Json& request) {
  if (request.contains("load")) {
    tokenizer = weft::data::load_tokenizer(request["load"].get<std::string>());
    return {{"size", tokenizer->vocabulary_size()}};
  }
  if (request.contains("export")) {
    tokenizer->export_hugging_face(request["export"].get<std::string>());
    return Json::object();
  }
  if (request.contains("ids")) {
    const auto ids = request["ids"].get<std::vector<TokenId>>();
    return {{"decoded", tokenizer->decode(ids)}, {"skipped", streamed(*tokenizer, ids, true)}};
  }
  const std::string text = request["text"];
  const std::vector<TokenId> ids = tokenizer->encode(text);
  return {{"ids", ids},
          {"plain", tokenizer->encode(text, SpecialTokens::Plain)},
          {"special", tokenizer->encode(text, SpecialTokens::Add)},
          {"decoded", tokenizer->decode(ids)},
          {"skipped", tokenizer->decode(ids, true)}};
}

}  // namespace

int main() {
  std::ios::sync_with_stdio(false);
  std::unique_ptr<Tokenizer> tokenizer;
  std::string line;
  while (std::getline(std::cin, line)) {
    Json reply;
    try {
      reply = answer(tokenizer, weft::parse_json(line, "request"));
    } catch (const std::exception& error) {
      reply = {{"error", error.what()}};
    }
    std::cout << weft::dump_json(reply) << std::endl;
  }
  return 0;
}
