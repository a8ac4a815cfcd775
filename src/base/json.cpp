#include "base/json.h"

#include <cmath>
#include <optional>

#include <fmt/format.h>

#include "base/check.h"
#include "base/error.h"
#include "base/file.h"
#include "base/utf8.h"

namespace weft {

namespace {

std::string member_path(const std::string& path, std::string_view key) {
  return path.empty() ? std::string(key) : fmt::format("{}.{}", path, key);
}

// Builds the value from the parser's events. The library's own builder lets the last of equal keys win and has no bound
// on the depth.
class Builder {
 public:
  Builder(std::string_view text, std::string_view origin, size_t depth)
      : text_(text), origin_(origin), maximum_depth_(depth) {}

  bool null() { return scalar(nullptr); }
  bool boolean(bool value) { return scalar(value); }
  bool number_integer(int64_t value) { return scalar(value); }
  bool number_unsigned(uint64_t value) { return scalar(value); }
  bool number_float(double value, const std::string&) { return scalar(value); }
  bool string(std::string& value) { return scalar(std::move(value)); }
  bool binary(std::vector<uint8_t>&) { return false; }
  bool start_object(size_t) { return open(Json::object()); }
  bool start_array(size_t) { return open(Json::array()); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }

  bool key(std::string& name) {
    auto [place, inserted] = open_.back()->get_ref<Json::object_t&>().try_emplace(name);
    if (!inserted) throw InputError(fmt::format("{}: the key '{}' stands twice in one object", origin_, name));
    member_ = &place->second;
    return true;
  }

  bool parse_error(size_t byte, const std::string& token, const Json::exception& error) {
    const auto position = text_position(text_, byte == 0 ? 0 : byte - 1);
    std::string what = error.what();
    if (const size_t end = what.find(": "); end != std::string::npos) what = what.substr(end + 2);
    what = replace_invalid_utf8(what);  // it quotes the text up to a byte
    if (byte == 0) throw InputError(fmt::format("{}: not JSON: {} ('{}')", origin_, what, token));
    throw InputError(
        fmt::format("{}: line {}, column {}: not JSON: {}", origin_, position.line, position.column, what));
  }

  Json take() { return std::move(root_); }

 private:
  Json* place(Json value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    if (open_.back()->is_array()) {
      auto& array = open_.back()->get_ref<Json::array_t&>();
      array.push_back(std::move(value));
      return &array.back();
    }
    *member_ = std::move(value);
    return member_;
  }

  bool scalar(Json value) {
    place(std::move(value));
    return true;
  }

  bool open(Json value) {
    if (open_.size() >= maximum_depth_) {
      throw InputError(fmt::format("{}: nested deeper than {} levels", origin_, maximum_depth_));
    }
    open_.push_back(place(std::move(value)));
    return true;
  }

  bool close() {
    open_.pop_back();
    return true;
  }

  std::string_view text_, origin_;
  size_t maximum_depth_;
  Json root_;
  // Open containers. An array grows only while it is the innermost, so the pointers into it stay valid.
  std::vector<Json*> open_;
  Json* member_ = nullptr;
};

template <typename AnyJson>
std::string dump(const AnyJson& value, int indent) {
  return value.dump(indent, ' ', false, AnyJson::error_handler_t::replace);
}

}  // namespace

Json parse_json(std::string_view text, std::string_view origin, JsonLimits limits) {
  if (text.size() > limits.bytes) {
    throw InputError(fmt::format("{}: {} bytes of JSON, more than {}", origin, text.size(), limits.bytes));
  }
  if (const auto invalid = first_invalid_utf8(text)) {
    const auto position = text_position(text, *invalid);
    throw InputError(fmt::format("{}: line {}, column {}: not UTF-8", origin, position.line, position.column));
  }
  // The library takes a zero byte for the end.
  if (const size_t zero = text.find('\0'); zero != std::string_view::npos) {
    const auto position = text_position(text, zero);
    throw InputError(
        fmt::format("{}: line {}, column {}: not JSON: a zero byte", origin, position.line, position.column));
  }
  Builder builder(text, origin, limits.depth);
  const bool parsed = Json::sax_parse(text, &builder);
  WEFT_CHECK(parsed);
  return builder.take();
}

Json read_json_file(const std::filesystem::path& path, JsonLimits limits) {
  return parse_json(read_file(path, limits.bytes), path.string(), limits);
}

std::string dump_json(const Json& value, int indent) { return dump(value, indent); }
std::string dump_json(const OrderedJson& value, int indent) { return dump(value, indent); }

JsonReader::JsonReader(const Json& value, std::string_view origin)
    : JsonReader(value, std::make_shared<const std::string>(origin), "") {}

JsonReader::JsonReader(const Json& value, std::shared_ptr<const std::string> origin, std::string path)
    : value_(&value), origin_(std::move(origin)), path_(std::move(path)) {}

void JsonReader::fail(std::string_view what) const {
  if (path_.empty()) throw InputError(fmt::format("{}: {}", *origin_, what));
  throw InputError(fmt::format("{}: {}: {}", *origin_, path_, what));
}

void JsonReader::fail_type(std::string_view expected) const {
  std::string found = dump_json(*value_);
  constexpr size_t kShown = 60;
  if (found.size() > kShown) found = replace_invalid_utf8(found.substr(0, kShown)) + "...";
  fail(fmt::format("expected {}, found {}", expected, found));
}

int64_t JsonReader::as_integer() const {
  if (value_->is_number_unsigned()) {
    const auto value = value_->get<uint64_t>();
    if (value > static_cast<uint64_t>(INT64_MAX)) fail_type("an integer below 2^63");
    return static_cast<int64_t>(value);
  }
  if (value_->is_number_integer()) return value_->get<int64_t>();
  if (value_->is_number_float()) {
    const auto value = value_->get<double>();
    constexpr double kExact = 9007199254740992;  // 2^53: above, a double does not name one integer
    if (std::trunc(value) == value && std::abs(value) <= kExact) return static_cast<int64_t>(value);
  }
  fail_type("an integer");
}

double JsonReader::as_number() const {
  if (!value_->is_number()) fail_type("a number");
  return value_->get<double>();
}

bool JsonReader::as_boolean() const {
  if (!value_->is_boolean()) fail_type("true or false");
  return value_->get<bool>();
}

const std::string& JsonReader::as_string() const {
  if (!value_->is_string()) fail_type("a string");
  return value_->get_ref<const std::string&>();
}

std::vector<int64_t> JsonReader::as_integers() const {
  std::vector<int64_t> result;
  for (const auto& item : items()) result.push_back(item.as_integer());
  return result;
}

std::vector<std::string> JsonReader::as_strings() const {
  std::vector<std::string> result;
  for (const auto& item : items()) result.push_back(item.as_string());
  return result;
}

bool JsonReader::has(std::string_view key) const {
  if (!value_->is_object()) fail_type("an object");
  const auto member = value_->find(key);
  return member != value_->end() && !member->is_null();
}

JsonReader JsonReader::at(std::string_view key) const {
  if (!value_->is_object()) fail_type("an object");
  const auto member = value_->find(key);
  if (member == value_->end()) JsonReader(*value_, origin_, member_path(path_, key)).fail("missing");
  return {*member, origin_, member_path(path_, key)};
}

std::vector<std::pair<std::string, JsonReader>> JsonReader::members() const {
  if (!value_->is_object()) fail_type("an object");
  std::vector<std::pair<std::string, JsonReader>> result;
  for (const auto& [key, member] : value_->items()) {
    result.emplace_back(key, JsonReader(member, origin_, member_path(path_, key)));
  }
  return result;
}

size_t JsonReader::size() const {
  if (!value_->is_array()) fail_type("an array");
  return value_->size();
}

JsonReader JsonReader::at(size_t index) const {
  if (index >= size()) fail(fmt::format("has {} elements, element {} was asked for", size(), index));
  return {(*value_)[index], origin_, fmt::format("{}[{}]", path_, index)};
}

std::vector<JsonReader> JsonReader::items() const {
  std::vector<JsonReader> result;
  const size_t count = size();
  result.reserve(count);
  for (size_t i = 0; i < count; ++i) result.push_back(at(i));
  return result;
}

}  // namespace weft
