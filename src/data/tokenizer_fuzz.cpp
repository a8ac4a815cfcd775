// Any bytes as a tokenizer.json, and what follows a zero byte as text: either InputError, or a tokenizer whose ids all
// have a row and that decodes them the same in one go and streamed, never ending inside a character.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/utf8.h"
#include "data/tokenizer_bpe.h"
#include "data/tokenizer_json.h"

namespace {

using namespace weft::data;

void check(const Tokenizer& tokenizer, std::string_view text) {
  for (const SpecialTokens mode : {SpecialTokens::Match, SpecialTokens::Plain, SpecialTokens::Add}) {
    const std::vector<TokenId> ids = tokenizer.encode(text, mode);
    for (const TokenId id : ids) {
      if (id >= tokenizer.vocabulary_size()) std::abort();
    }
    const auto stream = tokenizer.stream_decoder(false);
    std::string streamed;
    for (const TokenId id : ids) {
      const std::string part = stream->push(id);
      if (!weft::is_utf8(part)) std::abort();
      streamed += part;
    }
    if (streamed + stream->finish() != tokenizer.decode(ids)) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  // A zero byte, which JSON cannot hold, parts the file from the text.
  const std::string_view file = input.substr(0, input.find('\0'));
  // Short, since a regular expression may well be quadratic.
  const std::string_view text =
      file.size() < size ? input.substr(file.size() + 1, 512) : "Hello <s> it's\r\n\n 12345 \xC3\xA9\xCC\x81 \xE4";
  try {
    check(BpeTokenizer(parts_of_tokenizer_json(file, "fuzz")), text);
  } catch (const weft::InputError&) {
  }
  return 0;
}
