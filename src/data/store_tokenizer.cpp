#include "data/store_tokenizer.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"

namespace weft::data {

namespace {
constexpr const char* kFingerprintFile = "fingerprint";
}

std::filesystem::path store_tokenizer_folder(std::filesystem::path store) {
  return store.replace_extension(".tokenizer");
}

std::optional<uint64_t> store_tokenizer_fingerprint(const std::filesystem::path& store) {
  const auto file = store_tokenizer_folder(store) / kFingerprintFile;
  if (!std::filesystem::exists(file)) return std::nullopt;
  std::string text = read_file(file, 64);
  if (text.ends_with('\n')) text.pop_back();
  try {
    return parse_hash(text);
  } catch (const InputError& error) {
    throw InputError(fmt::format("{}: {}", file.string(), error.what()));
  }
}

void write_store_tokenizer(const std::filesystem::path& folder, const Tokenizer& tokenizer) {
  AtomicFolder written(folder);
  tokenizer.save(written.partial());
  written.write(kFingerprintFile, hash_text(tokenizer.fingerprint()) + "\n");
  written.commit();
}

}  // namespace weft::data
