#include <charconv>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "app/commands.h"
#include "base/error.h"
#include "config/tree.h"

namespace weft::app {
namespace {

constexpr std::string_view kVersion = "weft 0.1.0\n";

const CommandDefinition* find_command(const std::string& name) {
  for (const CommandDefinition& command : commands()) {
    if (command.name == name) return &command;
  }
  return nullptr;
}

// The command that the first one or two words name, and how many they are.
std::pair<const CommandDefinition*, size_t> choose_command(const std::vector<std::string>& words) {
  if (words.size() >= 2) {
    if (const CommandDefinition* command = find_command(words[0] + " " + words[1])) return {command, 2};
  }
  if (const CommandDefinition* command = find_command(words[0])) return {command, 1};
  std::vector<std::string> names, below;
  for (const CommandDefinition& command : commands()) {
    names.push_back(command.name);
    if (command.name.starts_with(words[0] + " ")) below.push_back(command.name);
  }
  if (!below.empty()) {
    throw InputError(fmt::format("weft {0} needs one more word: {1}", words[0], fmt::join(below, ", ")));
  }
  throw InputError(fmt::format("there is no command \"{}\"{}", words[0], config::suggestion(words[0], names)));
}

template <class T>
void check_number(const OptionDefinition& option, std::string_view text, std::string_view what) {
  T value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool number = error == std::errc() && end == text.data() + text.size() && value == value;
  const bool inside = number && (!option.least || static_cast<double>(value) >= *option.least) &&
                      (!option.greatest || static_cast<double>(value) <= *option.greatest);
  if (inside) return;
  std::string range;
  if (option.least) range = fmt::format(", at least {}", *option.least);
  if (option.greatest) range += fmt::format(", at most {}", *option.greatest);
  throw InputError(fmt::format("{}: \"{}\" is not {}{}", option.name, text, what, range));
}

void check_value(const OptionDefinition& option, const std::string& text) {
  if (option.type == OptionType::kInteger) check_number<int64_t>(option, text, "an integer");
  if (option.type == OptionType::kNumber) check_number<double>(option, text, "a number");
  if (option.type == OptionType::kIntegers || option.type == OptionType::kNumbers) {
    for (size_t begin = 0; begin <= text.size();) {
      const size_t end = std::min(text.find(',', begin), text.size());
      const std::string_view one = std::string_view(text).substr(begin, end - begin);
      option.type == OptionType::kIntegers ? check_number<int64_t>(option, one, "an integer")
                                           : check_number<double>(option, one, "a number");
      begin = end + 1;
    }
  }
  if (!option.words.empty() && std::find(option.words.begin(), option.words.end(), text) == option.words.end()) {
    throw InputError(fmt::format("{}: \"{}\" is not one of {}", option.name, text, fmt::join(option.words, ", ")));
  }
}

void check_options(const CommandDefinition& command,
                   const std::map<std::string, std::vector<std::string>, std::less<>>& values) {
  std::map<std::string, std::vector<std::string>> offered;
  std::map<std::string, int> chosen;
  for (const OptionDefinition& option : command.options) {
    const std::vector<std::string>& given = values.at(option.name);
    if (option.required && given.empty()) throw InputError(fmt::format("{} is missing", option.name));
    if (!option.repeated && given.size() > 1) throw InputError(fmt::format("{} is given twice", option.name));
    if (option.type != OptionType::kFlag) {
      for (const std::string& text : given) check_value(option, text);
    }
    if (!option.choice.empty()) {
      offered[option.choice].push_back(option.name);
      chosen[option.choice] += given.empty() ? 0 : 1;
    }
  }
  for (const auto& [choice, count] : chosen) {
    if (count != 1) throw InputError(fmt::format("give one of {}", fmt::join(offered[choice], " and ")));
  }
}

std::vector<std::string> option_names(const CommandDefinition& command) {
  std::vector<std::string> names = {"--json", "--help"};
  for (const OptionDefinition& option : command.options) names.push_back(option.name);
  return names;
}

[[noreturn]] void refuse_leftover(const CommandDefinition& command, const std::string& word) {
  if (word.starts_with("-")) {
    throw InputError(fmt::format("there is no option {}{}", word, config::suggestion(word, option_names(command))));
  }
  throw InputError(fmt::format("\"{}\" is one argument too many", word));
}

// Takes what stands behind "--" away from the words of a command whose last argument wants it as it is.
std::vector<std::string> take_verbatim(const CommandDefinition& command, std::vector<std::string>& words) {
  if (command.arguments.empty() || !command.arguments.back().verbatim) return {};
  const auto dashes = std::find(words.begin(), words.end(), "--");
  if (dashes == words.end()) return {};
  std::vector<std::string> taken(dashes + 1, words.end());
  words.erase(dashes, words.end());
  return taken;
}

Parsed parse_arguments(const CommandDefinition& command, std::vector<std::string> words, bool colour) {
  CLI::App parser;
  parser.set_help_flag();
  parser.allow_extras();
  bool json = false, wants_help = false;
  parser.add_flag("--json", json);
  parser.add_flag("--help,-h", wants_help);
  std::map<std::string, std::vector<std::string>, std::less<>> values;
  std::map<std::string, bool> flags;
  for (const OptionDefinition& option : command.options) {
    std::vector<std::string>& list = values[option.name];
    if (option.type == OptionType::kFlag) {
      parser.add_flag(option.name, flags[option.name]);
    } else {
      // One value behind each mention: what follows is the next word's own affair, and [a, b] stays one text.
      parser.add_option(option.name, list)->expected(1)->allow_extra_args(false)->take_all();
    }
  }
  for (const ArgumentDefinition& argument : command.arguments) values[argument.name];

  const std::vector<std::string> verbatim = take_verbatim(command, words);
  std::reverse(words.begin(), words.end());  // as CLI11 takes them
  try {
    parser.parse(words);
  } catch (const CLI::ParseError& error) {
    throw InputError(error.what());
  }
  if (wants_help) return {{}, help(command, colour)};
  for (const auto& [name, given] : flags) {
    if (given) values[name] = {"true"};
  }
  std::vector<std::string> rest = parser.remaining();
  std::erase(rest, "--");
  size_t next = 0;
  for (const ArgumentDefinition& argument : command.arguments) {
    if (argument.verbatim && !verbatim.empty()) {
      values[argument.name] = verbatim;
      continue;
    }
    if (next < rest.size() && rest[next].starts_with("--")) refuse_leftover(command, rest[next]);
    if (argument.verbatim || next == rest.size()) {
      throw InputError(
          fmt::format("{} is missing: {}. `weft {} --help` says more", argument.name, argument.text, command.name));
    }
    do {
      values[argument.name].push_back(rest[next++]);
    } while (argument.repeated && next < rest.size() && !rest[next].starts_with("--"));
  }
  if (next < rest.size()) refuse_leftover(command, rest[next]);
  check_options(command, values);
  return {Invocation(command, std::move(values), json), ""};
}

}  // namespace

Parsed parse_command_line(const std::vector<std::string>& words, bool colour) {
  if (words.empty()) throw InputError("give a command\n\n" + overview(false));
  if (words[0] == "--help" || words[0] == "-h" || words[0] == "help") {
    if (words.size() == 1) return {{}, overview(colour)};
    const std::vector<std::string> named(words.begin() + 1, words.end());
    return {{}, help(*choose_command(named).first, colour)};
  }
  if (words[0] == "--version") return {{}, std::string(kVersion)};
  const auto [command, used] = choose_command(words);
  try {
    return parse_arguments(*command, {words.begin() + static_cast<ptrdiff_t>(used), words.end()}, colour);
  } catch (const InputError& error) {
    throw InputError(fmt::format("weft {}: {}", command->name, error.what()));
  }
}

}  // namespace weft::app
