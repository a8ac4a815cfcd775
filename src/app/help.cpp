#include <algorithm>
#include <cstdlib>
#include <unistd.h>

#include <fmt/format.h>

#include "app/commands.h"

namespace weft::app {
namespace {

constexpr size_t kLineWidth = 100;

std::string heading(std::string_view text, bool colour) {
  return colour ? fmt::format("\033[1m{}\033[0m\n", text) : fmt::format("{}\n", text);
}

std::string option_words(const OptionDefinition& option) {
  return option.placeholder.empty() ? option.name : option.name + " " + option.placeholder;
}

// The text at a given column, continued there on further lines.
std::string wrapped(std::string_view text, size_t indent) {
  std::string lines;
  size_t column = indent;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(' ', begin), text.size());
    const std::string_view word = text.substr(begin, end - begin);
    if (column != indent && column + 1 + word.size() > kLineWidth) {
      lines += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (column != indent) {
      lines += ' ';
      ++column;
    }
    lines += word;
    column += word.size();
    begin = end + 1;
  }
  return lines;
}

std::string row(const std::string& left, std::string_view text, size_t indent) {
  return fmt::format("  {:<{}}{}\n", left, indent - 2, wrapped(text, indent));
}

std::string option_text(const OptionDefinition& option) {
  std::string text = option.text;
  if (!option.words.empty()) text += fmt::format(": {}", fmt::join(option.words, " | "));
  if (!option.standard.empty()) text += fmt::format(" [{}]", option.standard);
  if (option.repeated) text += "; may be given more than once";
  return text;
}

std::string usage(const CommandDefinition& command) {
  std::string line = "weft " + command.name;
  for (const ArgumentDefinition& argument : command.arguments) {
    if (!argument.verbatim) line += " " + argument.name + (argument.repeated ? "..." : "");
  }
  std::string open_choice;
  for (const OptionDefinition& option : command.options) {
    if (option.choice != open_choice) {
      if (!open_choice.empty()) line += ")";
      line += option.choice.empty() ? "" : " (";
      open_choice = option.choice;
    } else if (!option.choice.empty()) {
      line += " | ";
    }
    if (!option.choice.empty()) {
      line += option_words(option);
    } else if (option.required) {
      line += " " + option_words(option);
    }
  }
  if (!open_choice.empty()) line += ")";
  line += " [options]";
  if (!command.arguments.empty() && command.arguments.back().verbatim) line += " " + command.arguments.back().name;
  return line;
}

}  // namespace

bool colour_wanted() { return isatty(STDOUT_FILENO) == 1 && std::getenv("NO_COLOR") == nullptr; }

std::string help(const CommandDefinition& command, bool colour) {
  std::vector<std::pair<std::string, std::string>> arguments, options;
  for (const ArgumentDefinition& argument : command.arguments) arguments.emplace_back(argument.name, argument.text);
  for (const OptionDefinition& option : command.options)
    options.emplace_back(option_words(option), option_text(option));
  options.emplace_back("--json", "one JSON object on standard output, and nothing else there");
  options.emplace_back("--help", "this text");
  size_t indent = 0;
  for (const auto& rows : {arguments, options}) {
    for (const auto& [left, text] : rows) indent = std::max(indent, left.size() + 4);
  }

  std::string text = heading(usage(command), colour) + "\n  " + wrapped(command.text + ".", 2) + "\n";
  if (!command.details.empty()) text += "  " + wrapped(command.details, 2) + "\n";
  if (!arguments.empty()) text += "\n" + heading("Arguments", colour);
  for (const auto& [left, line] : arguments) text += row(left, line, indent);
  text += "\n" + heading("Options", colour);
  for (const auto& [left, line] : options) text += row(left, line, indent);
  return text + "\n" + heading("Example", colour) + "  " + command.example + "\n";
}

std::string overview(bool colour) {
  size_t indent = 0;
  for (const CommandDefinition& command : commands()) indent = std::max(indent, command.name.size() + 4);
  std::string text = "weft trains large language models.\n\n" + heading("Commands", colour);
  for (const CommandDefinition& command : commands()) text += row(command.name, command.text, indent);
  text += "\n" + heading("Example", colour) + "  weft train recipes/shakespeare.toml\n";
  return text + "\nweft COMMAND --help says more. Exit codes: 0 done, 1 failed, 2 wrong input, 3 stopped and saved.\n";
}

}  // namespace weft::app
