// Any text: either InputError, or a schedule that is written and read again the same, and that the passes take or
// refuse with InputError.
#include <cstdlib>
#include <string>

#include "base/error.h"
#include "schedule/passes.h"
#include "schedule/text_form.h"

namespace {

using namespace weft::schedule;

template <typename Pass>
void try_pass(const Pass& pass) {
  try {
    (void)csv(pass());
  } catch (const weft::InputError&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const Schedule schedule = read_csv(text, "fuzz");
    const Schedule again = read_csv(csv(schedule), "fuzz");
    if (hash(again) != hash(schedule)) std::abort();
    try_pass([&] { return merge_backward(split_backward(schedule)); });
    try_pass([&] { return prune_frozen(forward_only(schedule)); });
    for (const MessagePlace place : {MessagePlace::kSender, MessagePlace::kTime, MessagePlace::kLate}) {
      try_pass([&] { return limit_run_ahead(place_messages(schedule, place, {}), 2); });
    }
    try_pass([&] { return place_shards(schedule, 2); });
    try_pass([&] { return place_shards(schedule, 1, false); });
    try_pass([&] { return defer_forwards(schedule); });
    try_pass([&] { return limit_run_ahead(schedule, 1); });
    try_pass([&] { return recompute(schedule, std::vector<bool>(schedule.stages.size(), true)); });
  } catch (const weft::InputError&) {
  }
  return 0;
}
