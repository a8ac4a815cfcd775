// Reading the fields of a config.json of Hugging Face: every complaint names file, field, the value found and what is
// supported, and what nobody asked for is known afterwards.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "model/nodes.h"

namespace weft {
class JsonReader;
}

namespace weft::model {

class HuggingFaceFields {
 public:
  // The reader must outlive this.
  explicit HuggingFaceFields(const JsonReader& config) : config_(config) {}

  [[nodiscard]] bool has(std::string_view key);      // present and not null
  [[nodiscard]] bool is_null(std::string_view key);  // present and null
  [[nodiscard]] JsonReader at(std::string_view key);

  // From 1 to `greatest`; `otherwise` where absent or null.
  [[nodiscard]] int64_t size(std::string_view key, int64_t greatest);
  [[nodiscard]] int64_t size(std::string_view key, int64_t greatest, int64_t otherwise);
  [[nodiscard]] double number(std::string_view key, double otherwise);
  [[nodiscard]] double positive(std::string_view key, double otherwise);
  [[nodiscard]] double dropout(std::string_view key, double otherwise);  // at least 0, below 1
  [[nodiscard]] bool boolean(std::string_view key, bool otherwise);
  [[nodiscard]] std::string text(std::string_view key, std::string_view otherwise);

  // Throws InputError "file: key: what", also where the value is a default.
  [[noreturn]] void fail(std::string_view key, std::string_view what);
  // Refuses the field unless it is absent, null or this value.
  void demand(std::string_view key, bool value, std::string_view why);
  // Refuses the field unless it is absent, null or empty.
  void demand_empty(std::string_view key, std::string_view why);

  // The keys that nobody asked for and that are not known to change no number.
  [[nodiscard]] std::vector<std::string> unknown() const;
  [[nodiscard]] const JsonReader& config() const { return config_; }

  static int64_t checked_size(const JsonReader& value, int64_t greatest);

 private:
  const JsonReader& config_;
  std::set<std::string> seen_;
};

// The rotation that config.json describes, in the names of transformers 4 or 5. `positions`: max_position_embeddings,
// which original_max_position_embeddings falls back to. Settings that are not known are added to the warnings.
[[nodiscard]] config::Slot<RopeNode> read_hugging_face_rope(HuggingFaceFields& fields, int64_t positions,
                                                            std::vector<std::string>& warnings);

}  // namespace weft::model
