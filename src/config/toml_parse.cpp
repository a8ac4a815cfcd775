// The parser: toml++ behind our own checks and into our own tables, so that no other file pays for its header.
#include <algorithm>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "base/file.h"
#include "base/utf8.h"
#include "config/toml.h"

// The library asserts what a malformed text can break ("[[="); such a text must be refused, not end the program.
namespace weft::config {
struct BrokenAssertion {};
[[noreturn]] void break_assertion() { throw BrokenAssertion(); }
}  // namespace weft::config
#define TOML_ASSERT(condition) ((condition) ? static_cast<void>(0) : ::weft::config::break_assertion())
#include <toml++/toml.h>

namespace weft::config {
namespace {

constexpr size_t kMaximumSize = size_t{4} << 20;
constexpr int kMaximumDepth = 32;

std::string place(const std::string& name, const toml::source_region& source) {
  return fmt::format("{}:{}:{}", name, source.begin.line, source.begin.column);
}

[[noreturn]] void fail_at(std::string_view text, const std::string& name, size_t offset, std::string_view what) {
  const TextPosition position = text_position(text, offset);
  throw InputError(fmt::format("{}:{}:{}: {}", name, position.line, position.column, what));
}

// The end of the string or comment that starts at `start`, which is a quote or a #. Strings in three quotes span lines;
// others end with theirs, the parser complains.
size_t end_of_literal(std::string_view text, size_t start) {
  const char quote = text[start];
  if (quote == '#') return std::min(text.find('\n', start), text.size());
  const bool multi_line = text.substr(start, 3) == std::string(3, quote);
  for (size_t i = start + (multi_line ? 3 : 1); i < text.size(); ++i) {
    if (text[i] == '\\' && quote == '"') {
      ++i;
    } else if (multi_line ? text.substr(i, 3) == std::string(3, quote) : text[i] == quote || text[i] == '\n') {
      return i + (multi_line ? 3 : 1);
    }
  }
  return text.size();
}

// What the library must not be trusted with: bytes that are no text, letters beyond ASCII in bare keys (which TOML 1.0
// has not), and nesting that its recursion could not survive.
void check_text(std::string_view text, const std::string& name) {
  if (text.size() > kMaximumSize) {
    throw InputError(fmt::format("{}: is {} bytes; a run file has at most {}", name, text.size(), kMaximumSize));
  }
  if (const auto bad = first_invalid_utf8(text)) fail_at(text, name, *bad, "is not UTF-8");
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if ((byte < 0x20 && byte != '\n' && byte != '\r' && byte != '\t') || byte == 0x7f) {
      fail_at(text, name, i, fmt::format("control character 0x{:02x}", byte));
    }
  }
  int dots = 0, brackets = 0;
  for (size_t i = text.starts_with("\xef\xbb\xbf") ? 3 : 0; i < text.size();) {
    const char byte = text[i];
    if (byte == '"' || byte == '\'' || byte == '#') {
      i = end_of_literal(text, i);
      continue;
    }
    if (byte == '.') ++dots;
    if (byte == '[' || byte == '{') ++brackets;
    if (byte == ']' || byte == '}') brackets = std::max(0, brackets - 1);
    if (std::string_view("[]{},=\n").find(byte) != std::string_view::npos) dots = 0;
    if (dots > kMaximumDepth || brackets > kMaximumDepth) {
      fail_at(text, name, i, fmt::format("nested deeper than {} levels", kMaximumDepth));
    }
    if (static_cast<unsigned char>(byte) >= 0x80) {
      fail_at(text, name, i, "only ASCII letters may stand outside of quotes");
    }
    ++i;
  }
}

Table convert_table(const toml::table& table, const std::string& name, int depth);

std::optional<Value> scalar(const toml::node& node) {
  if (const auto* flag = node.as_boolean()) return Value(flag->get());
  if (const auto* number = node.as_integer()) return Value(number->get());
  if (const auto* number = node.as_floating_point()) return Value(number->get());
  if (const auto* text = node.as_string()) return Value(text->get());
  return std::nullopt;
}

// A list holds values of one type; integers among reals become reals.
Value convert_list(const toml::array& array, const std::string& name) {
  std::vector<int64_t> integers;
  std::vector<double> reals;
  std::vector<std::string> texts;
  for (const toml::node& node : array) {
    if (const auto* number = node.as_integer()) {
      integers.push_back(number->get());
      reals.push_back(static_cast<double>(number->get()));
    } else if (const auto* real = node.as_floating_point()) {
      reals.push_back(real->get());
    } else if (const auto* text = node.as_string()) {
      texts.push_back(text->get());
    } else {
      throw InputError(place(name, node.source()) + ": a list holds numbers or strings (or, as [[name]], tables)");
    }
  }
  if (integers.size() == array.size()) return integers;
  if (reals.size() == array.size()) return reals;
  if (texts.size() == array.size()) return texts;
  throw InputError(place(name, array.source()) + ": the list mixes strings and numbers");
}

Item convert(const toml::node& node, const std::string& name, int depth) {
  Item item;
  item.origin = place(name, node.source());
  if (depth > kMaximumDepth) throw InputError(item.origin + ": nested too deeply");
  if (const auto value = scalar(node)) {
    item.content = *value;
  } else if (const auto* table = node.as_table()) {
    item.content = convert_table(*table, name, depth + 1);
  } else if (const auto* array = node.as_array()) {
    const bool tables = !array->empty() && std::all_of(array->begin(), array->end(),
                                                       [](const toml::node& entry) { return entry.is_table(); });
    if (tables) {
      std::vector<Table> list;
      for (const toml::node& entry : *array) list.push_back(convert_table(*entry.as_table(), name, depth + 1));
      item.content = std::move(list);
    } else {
      item.content = convert_list(*array, name);
    }
  } else {
    throw InputError(item.origin + ": dates and times are not used here; write a string or a number");
  }
  return item;
}

Table convert_table(const toml::table& table, const std::string& name, int depth) {
  // toml++ orders keys by name; the file's order is that of their places.
  std::vector<std::pair<const toml::key*, const toml::node*>> entries;
  for (const auto& [key, node] : table) entries.emplace_back(&key, &node);
  std::stable_sort(entries.begin(), entries.end(), [](const auto& left, const auto& right) {
    const auto &a = left.first->source().begin, &b = right.first->source().begin;
    return std::pair(a.line, a.column) < std::pair(b.line, b.column);
  });
  Table result;
  for (const auto& [key, node] : entries) {
    Item item = convert(*node, name, depth);
    item.origin = place(name, key->source());
    result.put(std::string(key->str()), std::move(item));
  }
  return result;
}

Table load(const std::filesystem::path& path, std::set<std::filesystem::path>& open) {
  const std::filesystem::path canonical = std::filesystem::weakly_canonical(path);
  if (!open.insert(canonical).second) {
    throw InputError(fmt::format("{}: its base files lead back to it", path.string()));
  }
  Table table = parse_toml(read_file(path, kMaximumSize), path.string());
  if (const Item* base = table.find("base")) {
    const auto* file = base->value() == nullptr ? nullptr : std::get_if<std::string>(base->value());
    if (file == nullptr) throw InputError(base->origin + ": base: must be the name of a TOML file");
    const std::filesystem::path base_path = path.parent_path() / *file;
    if (!std::filesystem::exists(base_path)) {
      throw InputError(fmt::format("{}: base: there is no file {}", base->origin, base_path.string()));
    }
    Table below = load(base_path, open);
    table.erase("base");
    merge(below, table);
    table = std::move(below);
  }
  open.erase(canonical);
  return table;
}

}  // namespace

Table parse_toml(std::string_view text, const std::string& name) {
  check_text(text, name);
  try {
    return convert_table(toml::parse(text, name), name, 0);
  } catch (const toml::parse_error& error) {
    throw InputError(fmt::format("{}: {}", place(name, error.source()), error.description()));
  } catch (const BrokenAssertion&) {
    throw InputError(name + ": is not TOML");
  }
}

Table load_toml(const std::filesystem::path& path) {
  std::set<std::filesystem::path> open;
  return load(path, open);
}

void assign(Table& table, std::string_view assignment) {
  const size_t equals = assignment.find('=');
  if (equals == std::string_view::npos || equals == 0) {
    throw InputError(fmt::format("--set {}: write it as path=value, as in train.steps=100", assignment));
  }
  const std::string_view path = assignment.substr(0, equals), text = assignment.substr(equals + 1);
  const std::string origin = fmt::format("--set {}", path);
  Item item{Value(std::string(text)), origin};
  if (!is_utf8(text)) throw InputError(origin + ": the value is not UTF-8");
  try {
    Table parsed = parse_toml(fmt::format("value = {}", text), origin);
    // A line break could smuggle in further keys; such a value is a string.
    if (parsed.entries().size() == 1) item = std::move(*parsed.find("value"));
  } catch (const InputError&) {
    // Not TOML: it stays the string.
  }
  item.origin = origin;

  Table* target = &table;
  std::string_view rest = path;
  for (size_t dot = rest.find('.'); dot != std::string_view::npos; dot = rest.find('.')) {
    const std::string key(rest.substr(0, dot));
    rest.remove_prefix(dot + 1);
    if (key.empty()) throw InputError(origin + ": a part of the path is empty");
    Item* next = target->find(key);
    if (next == nullptr || next->value() != nullptr) next = &target->put(key, Item{Table(), origin});
    if (auto* list = std::get_if<std::vector<Table>>(&next->content)) {
      const std::string index(rest.substr(0, rest.find('.')));
      const bool number = !index.empty() && index.size() < 7 &&
                          std::all_of(index.begin(), index.end(), [](char c) { return c >= '0' && c <= '9'; });
      if (!number || std::stoul(index) >= list->size() || index.size() == rest.size()) {
        throw InputError(
            fmt::format("{}: {} is a list of {}; write {}.N.key with N below that", origin, key, list->size(), key));
      }
      rest.remove_prefix(index.size() + 1);
      target = &(*list)[std::stoul(index)];
    } else {
      target = &std::get<Table>(next->content);
    }
  }
  if (rest.empty()) throw InputError(origin + ": a part of the path is empty");
  if (rest == "hf" && target->find("family") != nullptr) *target = Table();  // as in merge
  target->put(std::string(rest), std::move(item));
}

}  // namespace weft::config
