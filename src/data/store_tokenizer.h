// The tokenizer that `weft data build` leaves beside a store: the folder PREFIX.tokenizer with the tokenizer's files
// and its fingerprint in the file `fingerprint`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "data/tokenizer.h"

namespace weft::data {

// The folder beside PREFIX.idx or PREFIX.bin, whether it exists or not.
[[nodiscard]] std::filesystem::path store_tokenizer_folder(std::filesystem::path store);

// Of the tokenizer beside the store; none if there is none. InputError if the file is damaged.
[[nodiscard]] std::optional<uint64_t> store_tokenizer_fingerprint(const std::filesystem::path& store);

// Writes the folder; it must not exist.
void write_store_tokenizer(const std::filesystem::path& folder, const Tokenizer& tokenizer);

}  // namespace weft::data
