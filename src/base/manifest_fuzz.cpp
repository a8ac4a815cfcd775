// Any text as a manifest's contents, under a checksum that is right: either InputError, or a manifest that is written
// and read again the same.
#include <cstdlib>
#include <string>

#include "base/error.h"
#include "base/hash.h"
#include "base/manifest.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string body(reinterpret_cast<const char*>(data), size);
  const std::string text = "{\"checksum\": \"" + weft::hash_text(weft::xxh64(body)) + "\",\n" + body;
  try {
    const std::string written = weft::manifest_text(weft::parse_manifest(text, "fuzz"));
    if (weft::manifest_text(weft::parse_manifest(written, "fuzz")) != written) std::abort();
  } catch (const weft::InputError&) {
  }
  return 0;
}
