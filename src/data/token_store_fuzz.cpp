// Any bytes as a store: as an .idx with its .bin (the first two bytes say where the one ends), or as a .bin alone.
// Either InputError, or a store of which every token and every document border can be asked.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <unistd.h>

#include "base/error.h"
#include "data/token_store.h"
#include "data/token_stream.h"

namespace {

using namespace weft::data;

// In memory where that can be: the files live for a moment only.
struct Folder {
  std::filesystem::path path = (std::filesystem::is_directory("/dev/shm") ? std::filesystem::path("/dev/shm")
                                                                          : std::filesystem::temp_directory_path()) /
                               ("weft-token-store-fuzz-" + std::to_string(::getpid()));
  Folder() { std::filesystem::create_directories(path); }
  ~Folder() { std::filesystem::remove_all(path); }
};

void put(const std::filesystem::path& path, std::string_view contents) {
  std::ofstream(path, std::ios::binary).write(contents.data(), static_cast<std::streamsize>(contents.size()));
}

void read_all(const std::filesystem::path& path) {
  constexpr uint64_t kVocabulary = 70000;
  try {
    const TokenStore store = TokenStore::open(path);
    (void)store.content_hash();
    for (uint64_t at = 0; at < store.size();) {
      const uint64_t end = store.document_end(at, store.size(), 2);
      if (end <= at || end > store.size()) std::abort();
      at = end;
    }
    const TokenStream stream({store, store}, kVocabulary, 2);
    if (stream.size() < 2) return;
    const Windows windows(stream, 0, stream.size(), 7, DocumentBorders::kMask);
    SampleBatch batch;
    int64_t targets = 0;
    for (uint64_t window = 0; window < windows.count(); ++window) {
      targets += windows.target_tokens(window, 1 % windows.pairs());
      windows.append(window, 1 % windows.pairs(), 0, batch);
    }
    if (targets != batch.target_tokens) std::abort();
    for (const int64_t token : batch.tokens) {
      if (token < 0 || token >= static_cast<int64_t>(kVocabulary)) std::abort();
    }
  } catch (const weft::InputError&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Folder folder_holder;
  const std::filesystem::path& folder = folder_holder.path;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  if (size < 2) return 0;
  uint16_t cut = 0;
  std::memcpy(&cut, data, sizeof cut);
  const std::string_view files = input.substr(2);
  if (cut <= files.size()) {
    put(folder / "pair.idx", files.substr(0, cut));
    put(folder / "pair.bin", files.substr(cut));
    read_all(folder / "pair.idx");
  } else {
    put(folder / "alone.bin", files);
    read_all(folder / "alone.bin");
  }
  return 0;
}
