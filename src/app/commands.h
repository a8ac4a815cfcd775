// The commands of weft as data: what each is for, an example, its arguments and options. Both programs read the same
// table: `weft` parses, checks and runs the deciding commands; `weft-engine` gets the same words and runs the rest.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weft::app {

enum class OptionType { kFlag, kText, kInteger, kNumber, kIntegers, kNumbers };  // kIntegers: 1,2,3

struct OptionDefinition {
  std::string name;         // "--steps"
  std::string placeholder;  // "N"; empty for a flag
  std::string text;         // one line
  OptionType type = OptionType::kText;
  std::string standard = {};            // the value where it is not given; empty: none
  std::optional<double> least = {};     // of numbers
  std::optional<double> greatest = {};  // of numbers
  std::vector<std::string> words = {};  // the allowed texts, if not empty
  bool repeated = false;                // may be given more than once
  bool required = false;
  std::string choice = {};  // exactly one of the options with the same choice must be given
};

struct ArgumentDefinition {
  std::string name;  // "RUN.toml"
  std::string text;
  bool repeated = false;  // one or more, the last argument only
  bool verbatim = false;  // the words behind "--", whatever they look like; the last argument only
};

enum class Where { kWeft, kEngine };

struct CommandDefinition {
  std::string name;     // one or two words: "data build"
  std::string text;     // one line, for the overview
  std::string details;  // more, for --help; may be empty
  std::string example;
  Where where = Where::kWeft;
  std::vector<ArgumentDefinition> arguments;
  std::vector<OptionDefinition> options;  // beside --json and --help, which every command has
};

// In the order of the overview.
[[nodiscard]] const std::vector<CommandDefinition>& commands();

// A command with what was given to it. Accessors name options with their dashes ("--steps") and arguments as in the
// definition ("RUN.toml"); asking for one that the definition lacks is a bug.
class Invocation {
 public:
  Invocation(const CommandDefinition& command, std::map<std::string, std::vector<std::string>, std::less<>> values,
             bool json);

  [[nodiscard]] const CommandDefinition& command() const { return *command_; }
  [[nodiscard]] bool json() const { return json_; }  // one JSON object on standard output and nothing else there
  [[nodiscard]] bool given(std::string_view name) const;
  [[nodiscard]] bool flag(std::string_view name) const { return given(name); }
  [[nodiscard]] const std::string& text(std::string_view name) const;
  [[nodiscard]] const std::vector<std::string>& texts(std::string_view name) const;  // empty if not given
  [[nodiscard]] int64_t integer(std::string_view name) const;
  [[nodiscard]] std::vector<int64_t> integers(std::string_view name) const;
  [[nodiscard]] double number(std::string_view name) const;
  [[nodiscard]] std::vector<double> numbers(std::string_view name) const;  // empty if not given

 private:
  const CommandDefinition* command_;
  std::map<std::string, std::vector<std::string>, std::less<>> values_;
  bool json_;
};

// What the words after the program's name mean: a command to run, or a text to print (help, version) with exit code 0.
struct Parsed {
  std::optional<Invocation> invocation;
  std::string print;
};
// Throws InputError: an unknown command or option (naming the nearest), a missing argument, a value of the wrong type
// or out of range.
[[nodiscard]] Parsed parse_command_line(const std::vector<std::string>& words, bool colour = false);

// Whether standard output is a terminal, and NO_COLOR is not set.
[[nodiscard]] bool colour_wanted();

// The help of one command; the overview of all.
[[nodiscard]] std::string help(const CommandDefinition& command, bool colour);
[[nodiscard]] std::string overview(bool colour);

}  // namespace weft::app
