// The body of `weft tokenize`.
#pragma once

#include <iosfwd>
#include <string>

namespace weft::data {

struct TokenizeOptions {
  std::string tokenizer;  // what load_tokenizer() takes
  bool special = false;   // the tokenizer's template adds its special tokens
};

// Reads lines of JSON, {"text": S}, and answers each with a line {"ids": [...], "decoded": S}, in order and at once
// where more input does not wait already. Empty lines are passed over. InputError names the number of the first line
// that is wrong; the lines before it are answered.
void tokenize_command(const TokenizeOptions& options, std::istream& in, std::ostream& out);

}  // namespace weft::data
