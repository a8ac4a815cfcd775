#include <cmath>

#include <fmt/format.h>

#include "base/json.h"
#include "model/hugging_face_fields.h"

namespace weft::model {
namespace {

// rope_scaling (transformers 4) goes before rope_parameters (transformers 5), as in transformers; either may be absent.
std::optional<JsonReader> rope_table(HuggingFaceFields& fields) {
  std::optional<JsonReader> result;
  for (const std::string_view key : {"rope_scaling", "rope_parameters"}) {
    if (!fields.has(key)) continue;
    JsonReader table = fields.at(key);
    if (!table.is_object()) table.fail("must be a table of RoPE's settings");
    if (!result && !table.json().empty()) result = table;
  }
  return result;
}

double yarn_attention_factor(const JsonReader& table, double factor) {
  const auto mscale = [&](double scale) { return factor <= 1 ? 1.0 : 0.1 * scale * std::log(factor) + 1; };
  if (table.has("attention_factor")) return table.number("attention_factor");
  const double over = table.number("mscale", 0), under = table.number("mscale_all_dim", 0);
  return over != 0 && under != 0 ? mscale(over) / mscale(under) : mscale(1);
}

// The table and what stands beside it.
class RopeFields {
 public:
  RopeFields(HuggingFaceFields& fields, int64_t positions)
      : fields_(fields), table_(rope_table(fields)), positions_(positions) {
    theta_ = fields.positive("rope_theta", 10000);
    if (table_ && table_->has("rope_theta")) theta_ = table_number("rope_theta", 0);
    const double share = table_ && table_->has("partial_rotary_factor") ? table_->number("partial_rotary_factor")
                                                                        : fields.number("partial_rotary_factor", 1);
    if (share != 1) {
      const JsonReader& owner = table_ && table_->has("partial_rotary_factor") ? *table_ : fields.config();
      owner.at("partial_rotary_factor")
          .fail(fmt::format("is {}; only 1 (the whole head is rotated) is supported", share));
    }
    fields.demand("rope_interleaved", false, "queries and keys are rotated in halves");
  }

  config::Slot<RopeNode> read(std::vector<std::string>& warnings) {
    if (!table_) return plain();
    for (const auto& [key, value] : table_->members()) {
      if (value.is_object()) value.fail("RoPE's settings by type of layer are not supported, only one for all layers");
    }
    const std::string type = table_->has("rope_type") ? table_->string("rope_type") : table_->string("type", "default");
    config::Slot<RopeNode> rope = of_type(type);
    for (const auto& [key, value] : table_->members()) {
      if (!known_.contains(key) && !value.is_null()) {
        warnings.push_back(fmt::format("{}: {}: not known to weft, not used", table_->origin(), value.path()));
      }
    }
    return rope;
  }

 private:
  config::Slot<RopeNode> of_type(const std::string& type) {
    if (type == "default") return plain();
    if (type == "linear") {
      known_.insert("factor");
      LinearRope rope;
      rope.theta = theta_;
      rope.factor = factor();
      return rope;
    }
    if (type == "llama3") return llama3();
    if (type == "yarn") return yarn();
    (table_->has("rope_type") ? table_->at("rope_type") : table_->at("type"))
        .fail(fmt::format("is \"{}\"; supported are \"default\", \"linear\", \"llama3\" and \"yarn\"", type));
  }

  config::Slot<RopeNode> plain() const {
    PlainRope rope;
    rope.theta = theta_;
    return rope;
  }

  config::Slot<RopeNode> llama3() {
    known_.insert({"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"});
    Llama3Rope rope;
    rope.theta = theta_;
    rope.factor = factor();
    rope.low_frequency_factor = table_number("low_freq_factor", std::nullopt);
    rope.high_frequency_factor = table_number("high_freq_factor", std::nullopt);
    rope.original_positions = original_positions();
    if (rope.high_frequency_factor <= rope.low_frequency_factor) {
      table_->at("high_freq_factor").fail("must be above low_freq_factor");
    }
    return rope;
  }

  config::Slot<RopeNode> yarn() {
    known_.insert({"factor", "original_max_position_embeddings", "attention_factor", "mscale", "mscale_all_dim",
                   "beta_fast", "beta_slow", "truncate"});
    YarnRope rope;
    rope.theta = theta_;
    rope.original_positions = original_positions();
    rope.factor = table_->has("factor")
                      ? factor()
                      : static_cast<double>(positions_) / static_cast<double>(rope.original_positions);
    rope.attention_factor = yarn_attention_factor(*table_, rope.factor);
    rope.beta_fast = table_number("beta_fast", 32);
    rope.beta_slow = table_number("beta_slow", 1);
    rope.truncate = table_->boolean("truncate", true);
    return rope;
  }

  // A number above zero of the table.
  double table_number(std::string_view key, std::optional<double> otherwise) {
    if (otherwise && !table_->has(key)) return *otherwise;
    const double value = table_->number(key);
    if (!(value > 0) || !std::isfinite(value)) table_->at(key).fail(fmt::format("is {}; it must be above 0", value));
    return value;
  }

  double factor() {
    const double value = table_number("factor", std::nullopt);
    if (value < 1) table_->at("factor").fail(fmt::format("is {}; it must be at least 1", value));
    return value;
  }

  int64_t original_positions() {
    constexpr std::string_view kKey = "original_max_position_embeddings";
    if (fields_.has(kKey)) return fields_.size(kKey, kGreatestPositions);
    return table_->has(kKey) ? HuggingFaceFields::checked_size(table_->at(kKey), kGreatestPositions) : positions_;
  }

  HuggingFaceFields& fields_;
  std::optional<JsonReader> table_;
  int64_t positions_;
  double theta_ = 0;
  std::set<std::string> known_ = {"rope_type", "type", "rope_theta", "partial_rotary_factor"};
};

}  // namespace

config::Slot<RopeNode> read_hugging_face_rope(HuggingFaceFields& fields, int64_t positions,
                                              std::vector<std::string>& warnings) {
  return RopeFields(fields, positions).read(warnings);
}

}  // namespace weft::model
