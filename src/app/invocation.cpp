#include <charconv>

#include "app/commands.h"
#include "base/check.h"
#include "base/error.h"

namespace weft::app {

Invocation::Invocation(const CommandDefinition& command,
                       std::map<std::string, std::vector<std::string>, std::less<>> values, bool json)
    : command_(&command), values_(std::move(values)), json_(json) {}

const std::vector<std::string>& Invocation::texts(std::string_view name) const {
  const auto found = values_.find(name);
  WEFT_CHECK(found != values_.end());
  return found->second;
}

bool Invocation::given(std::string_view name) const { return !texts(name).empty(); }

const std::string& Invocation::text(std::string_view name) const {
  const std::vector<std::string>& all = texts(name);
  if (!all.empty()) return all.back();
  for (const OptionDefinition& option : command_->options) {
    if (option.name == name) return option.standard;
  }
  static const std::string kNone;
  return kNone;
}

namespace {

// The parser has let only well-formed numbers through.
template <class T>
T parsed(std::string_view text) {
  T value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  WEFT_CHECK(error == std::errc() && end == text.data() + text.size());
  return value;
}

template <class T>
std::vector<T> parsed_list(std::string_view rest) {
  std::vector<T> values;
  while (!rest.empty()) {
    const size_t comma = rest.find(',');
    values.push_back(parsed<T>(rest.substr(0, comma)));
    rest = comma == std::string_view::npos ? std::string_view() : rest.substr(comma + 1);
  }
  return values;
}

}  // namespace

int64_t Invocation::integer(std::string_view name) const { return parsed<int64_t>(text(name)); }

double Invocation::number(std::string_view name) const { return parsed<double>(text(name)); }

std::vector<int64_t> Invocation::integers(std::string_view name) const { return parsed_list<int64_t>(text(name)); }

std::vector<double> Invocation::numbers(std::string_view name) const { return parsed_list<double>(text(name)); }

}  // namespace weft::app
