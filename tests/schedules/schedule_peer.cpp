// Prints schedules for compare_with_torch.py:
//   schedule_peer make KIND ROLES CHUNKS MICRO_BATCHES [shards=N] [place=sender|time|late] [ahead=N]
//   schedule_peer read FILE.csv
#include <charconv>
#include <exception>
#include <string_view>

#include <fmt/format.h>

#include "base/error.h"
#include "schedule/generate.h"
#include "schedule/passes.h"
#include "schedule/text_form.h"

namespace weft::schedule {
namespace {

int32_t number(std::string_view text) {
  int32_t result = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), result);
  if (error != std::errc{} || end != text.data() + text.size()) throw InputError(fmt::format("{} is no number", text));
  return result;
}

MessagePlace place_of(std::string_view text) {
  if (text == "sender") return MessagePlace::kSender;
  return text == "time" ? MessagePlace::kTime : MessagePlace::kLate;
}

Schedule make(std::span<char*> arguments) {
  GenerateOptions options;
  options.roles = number(arguments[1]);
  options.chunks = number(arguments[2]);
  options.micro_batches = number(arguments[3]);
  Schedule schedule = generate(kind_of(arguments[0]).value(), options);
  for (const std::string_view argument : arguments.subspan(4)) {
    const std::string_view key = argument.substr(0, argument.find('='));
    const std::string_view value = argument.substr(key.size() + 1);
    if (key == "shards") schedule = place_shards(schedule, number(value));
    if (key == "place") schedule = place_messages(schedule, place_of(value), {});
    if (key == "ahead") schedule = limit_run_ahead(schedule, number(value));
  }
  return schedule;
}

}  // namespace
}  // namespace weft::schedule

int main(int count, char** arguments) {
  try {
    const std::span<char*> given(arguments + 2, static_cast<size_t>(count - 2));
    const bool reads = std::string_view(arguments[1]) == "read";
    fmt::print("{}",
               weft::schedule::csv(reads ? weft::schedule::read_csv_file(given[0]) : weft::schedule::make(given)));
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
  return 0;
}
