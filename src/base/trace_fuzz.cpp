// Any text as a trace: either InputError, or a trace that is written and read again the same.
#include <cstdlib>
#include <string>

#include "base/error.h"
#include "base/trace.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const std::string text = weft::trace_json(weft::parse_trace({reinterpret_cast<const char*>(data), size}, "fuzz"));
    if (weft::trace_json(weft::parse_trace(text, "fuzz")) != text) std::abort();
  } catch (const weft::InputError&) {
  }
  return 0;
}
