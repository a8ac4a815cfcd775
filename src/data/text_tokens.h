// Text files and JSON lines, tokenized by all cores, document by document in the order of the files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizer.h"

namespace weft::data {

struct TextOptions {
  bool bos = false;      // the tokenizer's BOS in front of each document; InputError if it has none
  bool utf8 = true;      // refuse text that is not UTF-8 (which every tokenizer but "bytes" would change)
  int threads = 0;       // 0: all cores
  bool progress = true;  // a line on standard error while it takes long
};

// The text of a document as a file holds it: a byte order mark in front is no text, everything else is, carriage
// returns too. InputError names file and line: text that is not UTF-8, a line that is not JSON or has no string "text".
void visit_documents(const std::vector<std::filesystem::path>& files, bool utf8,
                     const std::function<void(std::string_view document)>& visit);

// Calls `consume` in this thread for the ids of each document, in order, whatever the number of threads. A document
// ends with the tokenizer's end-of-text token, if it has one; where that token is written in a text, a document ends
// there as well, and a large file is shared by the threads at such places. Empty documents are left out. Errors as
// above, and the tokenizer's with the file in front; the first in the order of the files is thrown.
void tokenize_documents(const std::vector<std::filesystem::path>& files, const Tokenizer& tokenizer,
                        const TextOptions& options,
                        const std::function<void(std::span<const TokenId> document)>& consume);

}  // namespace weft::data
