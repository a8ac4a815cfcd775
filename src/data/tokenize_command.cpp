#include "data/tokenize_command.h"

#include <istream>
#include <ostream>

#include <fmt/format.h>

#include "base/error.h"
#include "base/json.h"
#include "data/tokenizer.h"

namespace weft::data {
namespace {

std::string answer(const Tokenizer& tokenizer, const TokenizeOptions& options, std::string_view line,
                   std::string_view origin) {
  const Json document = parse_json(line, origin);
  const JsonReader json(document, origin);
  const SpecialTokens mode = options.special ? SpecialTokens::Add : SpecialTokens::Match;
  const JsonReader text = json.at("text");
  std::vector<TokenId> ids;
  try {
    ids = tokenizer.encode(text.as_string(), mode);
  } catch (const InputError& error) {
    text.fail(error.what());
  }
  OrderedJson reply;
  reply["ids"] = ids;
  reply["decoded"] = tokenizer.decode(ids);
  return dump_json(reply);
}

}  // namespace

void tokenize_command(const TokenizeOptions& options, std::istream& in, std::ostream& out) {
  const auto tokenizer = load_tokenizer(options.tokenizer);
  std::string line;
  for (std::size_t number = 1; std::getline(in, line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) {
      continue;
    }
    try {
      out << answer(*tokenizer, options, line, fmt::format("standard input, line {}", number)) << '\n';
    } catch (const InputError&) {
      out.flush();
      throw;
    }
    if (in.rdbuf()->in_avail() <= 0) {
      out.flush();
    }
    if (!out) {
      throw Error("standard output cannot be written");
    }
  }
  out.flush();
}

}  // namespace weft::data
