// JSON from outside, with bounds and good errors, and JSON to the outside. Include in sources only: the library behind
// it costs seconds a file. Headers include base/json_fwd.h.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/json_fwd.h"

namespace weft {

struct JsonLimits {
  size_t bytes = size_t{1} << 30;
  size_t depth = 64;  // of nested arrays and objects
};

// Parses one JSON text (RFC 8259) that must fill `text`. Throws InputError that names `origin` (a file's path or what
// the text is) and line and column or key path: text beyond the limits, not UTF-8, a syntax error, a key twice in one
// object, a number outside double's range.
[[nodiscard]] Json parse_json(std::string_view text, std::string_view origin, JsonLimits limits = {});

// The same of a file; its path is the origin. Throws InputError if it cannot be read.
[[nodiscard]] Json read_json_file(const std::filesystem::path& path, JsonLimits limits = {});

// Compact on one line (indent < 0) or indented. NaN and infinity become null; bytes that are not UTF-8 become U+FFFD.
[[nodiscard]] std::string dump_json(const Json& value, int indent = -1);
[[nodiscard]] std::string dump_json(const OrderedJson& value, int indent = -1);

// A value together with where it stands, so that every complaint names the file and the key path:
//   JsonReader config(json, "DIR/config.json");
//   config.integer("hidden_size");             // "DIR/config.json: hidden_size: expected an integer, found \"64\""
//   config.at("rope_scaling").number("factor") // "DIR/config.json: rope_scaling.factor: missing"
// All accessors throw InputError. The Json must outlive its readers. A key whose value is null counts as absent.
class JsonReader {
 public:
  JsonReader(const Json& value, std::string_view origin);

  [[nodiscard]] const Json& json() const { return *value_; }
  [[nodiscard]] const std::string& origin() const { return *origin_; }
  [[nodiscard]] const std::string& path() const { return path_; }

  // Throws InputError "origin: path: what".
  [[noreturn]] void fail(std::string_view what) const;

  [[nodiscard]] bool is_object() const { return value_->is_object(); }
  [[nodiscard]] bool is_array() const { return value_->is_array(); }
  [[nodiscard]] bool is_string() const { return value_->is_string(); }
  [[nodiscard]] bool is_boolean() const { return value_->is_boolean(); }
  [[nodiscard]] bool is_number() const { return value_->is_number(); }
  [[nodiscard]] bool is_null() const { return value_->is_null(); }

  // This value.
  [[nodiscard]] int64_t as_integer() const;  // an integer that fits int64; 3.0 counts as 3
  [[nodiscard]] double as_number() const;
  [[nodiscard]] bool as_boolean() const;
  [[nodiscard]] const std::string& as_string() const;
  [[nodiscard]] std::vector<int64_t> as_integers() const;
  [[nodiscard]] std::vector<std::string> as_strings() const;

  // Members of an object.
  [[nodiscard]] bool has(std::string_view key) const;  // present and not null
  [[nodiscard]] JsonReader at(std::string_view key) const;
  [[nodiscard]] std::vector<std::pair<std::string, JsonReader>> members() const;
  [[nodiscard]] int64_t integer(std::string_view key) const { return at(key).as_integer(); }
  [[nodiscard]] double number(std::string_view key) const { return at(key).as_number(); }
  [[nodiscard]] bool boolean(std::string_view key) const { return at(key).as_boolean(); }
  [[nodiscard]] std::string string(std::string_view key) const { return at(key).as_string(); }
  [[nodiscard]] int64_t integer(std::string_view key, int64_t otherwise) const {
    return has(key) ? integer(key) : otherwise;
  }
  [[nodiscard]] double number(std::string_view key, double otherwise) const {
    return has(key) ? number(key) : otherwise;
  }
  [[nodiscard]] bool boolean(std::string_view key, bool otherwise) const { return has(key) ? boolean(key) : otherwise; }
  [[nodiscard]] std::string string(std::string_view key, std::string_view otherwise) const {
    return has(key) ? string(key) : std::string(otherwise);
  }

  // Elements of an array.
  [[nodiscard]] size_t size() const;
  [[nodiscard]] JsonReader at(size_t index) const;
  [[nodiscard]] std::vector<JsonReader> items() const;

 private:
  JsonReader(const Json& value, std::shared_ptr<const std::string> origin, std::string path);
  [[noreturn]] void fail_type(std::string_view expected) const;

  const Json* value_;
  std::shared_ptr<const std::string> origin_;
  std::string path_;
};

}  // namespace weft
