#include "config/node.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace weft::config {
namespace {

std::string real_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  // The shortest digits that give the same number back; TOML tells reals from integers by a point or an exponent.
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char byte : text) {
    switch (byte) {
      case '"':
        result += "\\\"";
        break;
      case '\\':
        result += "\\\\";
        break;
      case '\n':
        result += "\\n";
        break;
      case '\t':
        result += "\\t";
        break;
      case '\r':
        result += "\\r";
        break;
      default:
        if (static_cast<unsigned char>(byte) < 0x20 || byte == 0x7f) {
          result += fmt::format("\\u{:04X}", static_cast<unsigned char>(byte));
        } else {
          result += byte;
        }
    }
  }
  return result + "\"";
}

template <class T, class Text>
std::string list_text(const std::vector<T>& list, Text text) {
  std::string result = "[";
  for (size_t i = 0; i < list.size(); ++i) result += (i == 0 ? "" : ", ") + text(list[i]);
  return result + "]";
}

constexpr std::array<std::string_view, 8> kTypeNames = {
    "true or false",      "an integer",        "a number",          "a string",
    "a list of integers", "a list of numbers", "a list of strings", "a number or a list of strings"};

bool takes(Field::Type type, const Value& value) {
  if (type == Field::Type::kRealOrTexts) {
    return std::holds_alternative<double>(value) || std::holds_alternative<std::vector<std::string>>(value);
  }
  // The alternatives of Value stand in the order of Type, behind monostate.
  return type < Field::Type::kRealOrTexts && value.index() == static_cast<size_t>(type) + 1;
}

// Integers serve as reals, an empty list as a list of anything (TOML cannot tell), and a string as a list of one.
Value convert(const Value& value, Field::Type type) {
  const bool real = type == Field::Type::kReal || type == Field::Type::kRealOrTexts;
  const bool texts = type == Field::Type::kTexts || type == Field::Type::kRealOrTexts;
  if (real && std::holds_alternative<int64_t>(value)) return static_cast<double>(std::get<int64_t>(value));
  if (texts && std::holds_alternative<std::string>(value))
    return std::vector<std::string>{std::get<std::string>(value)};
  if (const auto* integers = std::get_if<std::vector<int64_t>>(&value)) {
    if (type == Field::Type::kReals) return std::vector<double>(integers->begin(), integers->end());
    if (texts && integers->empty()) return std::vector<std::string>();
  }
  return value;
}

void check_number(const Field& field, double number) {
  if (std::isnan(number)) throw InputError("is not a number");
  const bool too_small = field.least && (field.least_excluded ? number <= *field.least : number < *field.least);
  const bool too_great =
      field.greatest && (field.greatest_excluded ? number >= *field.greatest : number > *field.greatest);
  if (too_small || too_great) {
    std::string allowed;
    if (field.least) allowed = fmt::format("{} {}", field.least_excluded ? "above" : "at least", *field.least);
    if (field.greatest) {
      allowed += fmt::format("{}{} {}", allowed.empty() ? "" : " and ", field.greatest_excluded ? "below" : "at most",
                             *field.greatest);
    }
    throw InputError(fmt::format("is {}; it must be {}", number, allowed));
  }
}

template <class T>
void check_length(const Field& field, const std::vector<T>& list) {
  if (!field.elements || list.size() == *field.elements) return;
  throw InputError(fmt::format("has {} elements; it must have {}", list.size(), *field.elements));
}

void check_word(const Field& field, const std::string& word) {
  if (field.words.empty() || std::find(field.words.begin(), field.words.end(), word) != field.words.end()) return;
  throw InputError(fmt::format("is \"{}\"; it must be one of \"{}\"", word, fmt::join(field.words, "\", \"")));
}

}  // namespace

std::string_view name(Hint hint) {
  constexpr std::array<std::string_view, 5> kNames = {"architecture", "core", "optional", "performance", "expert"};
  return kNames[static_cast<size_t>(hint)];
}

std::string value_text(const Value& value) {
  struct Writer {
    std::string operator()(std::monostate) const { return "(not set)"; }
    std::string operator()(bool flag) const { return flag ? "true" : "false"; }
    std::string operator()(int64_t number) const { return fmt::format("{}", number); }
    std::string operator()(double number) const { return real_text(number); }
    std::string operator()(const std::string& text) const { return quoted(text); }
    std::string operator()(const std::vector<int64_t>& list) const { return list_text(list, *this); }
    std::string operator()(const std::vector<double>& list) const { return list_text(list, *this); }
    std::string operator()(const std::vector<std::string>& list) const { return list_text(list, *this); }
  };
  return std::visit(Writer{}, value);
}

std::unique_ptr<Node> KindList::make(std::string_view kind) const {
  for (const Entry& entry : entries_) {
    if (entry.kind == kind) return entry.make();
  }
  return nullptr;
}

std::vector<std::string> KindList::names() const {
  std::vector<std::string> names;
  for (const Entry& entry : entries_) names.emplace_back(entry.kind);
  return names;
}

void Field::set(const Value& given) {
  const Value value = convert(given, type);
  if (!takes(type, value)) {
    throw InputError(fmt::format("is {}; it must be {}", value_text(value),
                                 is_value() ? kTypeNames[static_cast<size_t>(type)] : "a table"));
  }
  if (const auto* number = std::get_if<int64_t>(&value)) check_number(*this, static_cast<double>(*number));
  if (const auto* number = std::get_if<double>(&value)) check_number(*this, *number);
  if (const auto* word = std::get_if<std::string>(&value)) check_word(*this, *word);
  if (const auto* list = std::get_if<std::vector<int64_t>>(&value)) {
    check_length(*this, *list);
    for (const int64_t number : *list) check_number(*this, static_cast<double>(number));
  }
  if (const auto* list = std::get_if<std::vector<double>>(&value)) {
    check_length(*this, *list);
    for (const double number : *list) check_number(*this, number);
  }
  if (const auto* list = std::get_if<std::vector<std::string>>(&value)) {
    check_length(*this, *list);
    for (const std::string& word : *list) check_word(*this, word);
  }
  set_(value);
}

}  // namespace weft::config
