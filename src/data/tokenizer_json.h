// Reads the parts of a BPE tokenizer from Hugging Face's tokenizer.json and from GPT-2's files. What weft does not do
// exactly as `tokenizers` does is refused by name. Truncation and padding are ignored, as transformers does between
// calls.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_fwd.h"
#include "data/tokenizer_bpe.h"

namespace weft {
class JsonReader;
}

namespace weft::data {

// All functions throw InputError naming file and key.
BpeTokenizerParts parts_of_tokenizer_json(std::string_view text, std::string_view origin);
BpeTokenizerParts parts_of_gpt2_files(std::string_view vocabulary, std::string_view vocabulary_origin,
                                      std::string_view merges, std::string_view merges_origin);

// The single components; null readers (JSON null or absent) are the caller's.
std::unique_ptr<Normalizer> normalizer_of_json(const JsonReader& json);
// `raw_bytes`: a ByteLevel at the end leaves raw bytes for a model whose pieces are bytes.
std::unique_ptr<PreTokenizer> pre_tokenizer_of_json(const JsonReader& json, bool raw_bytes);
bool ends_in_byte_level(const JsonReader& json);
DecoderSteps decoder_of_json(const JsonReader& json);

}  // namespace weft::data
