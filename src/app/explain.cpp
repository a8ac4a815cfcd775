#include "app/explain.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/json.h"
#include "base/progress.h"
#include "config/tree.h"
#include "data/dataset.h"
#include "model/describe.h"
#include "recipe/timetable.h"
#include "run/timetable.h"

namespace weft::app {
namespace {

struct Row {
  std::string path, value, origin, text;
  std::string unit;
  config::Hint hint;
  config::Value typed;  // monostate for the kind of a slot
};

// A field that holds a value, or the kind of a slot: what a run file can set.
std::vector<Row> rows(const run::LoadedRun& run) {
  std::vector<Row> all;
  const auto origin_of = [&](const std::string& path) {
    const auto found = run.origins.find(path);
    return found == run.origins.end() ? std::string("default") : found->second;
  };
  config::visit(run.node, [&](const std::string& path, const config::Field& field) {
    if (field.is_value()) {
      const config::Value value = field.get();
      all.push_back({path, config::value_text(value), origin_of(path), field.text, field.unit, field.hint, value});
    } else if (field.slot() != nullptr) {
      const config::Node* node = field.slot()->node();
      const std::string kind = node == nullptr ? "none" : std::string(node->kind());
      all.push_back({path + ".kind", "\"" + kind + "\"", origin_of(path + ".kind"), field.text, "", field.hint, kind});
    } else if (field.slots() != nullptr) {
      for (size_t i = 0; i < field.slots()->size(); ++i) {
        const std::string kind(field.slots()->at(i).node()->kind());
        const std::string place = fmt::format("{}.{}.kind", path, i);
        all.push_back({place, "\"" + kind + "\"", origin_of(place), field.text, "", field.hint, kind});
      }
    }
  });
  return all;
}

OrderedJson to_json(const config::Value& value) {
  return std::visit(
      [](const auto& known) -> OrderedJson {
        if constexpr (std::is_same_v<std::decay_t<decltype(known)>, std::monostate>) {
          return nullptr;
        } else {
          return known;
        }
      },
      value);
}

}  // namespace

void describe(Explanation& explanation) {
  run::RunNode& run = explanation.run.node;
  if (!run.model.vocabulary.set()) {
    try {
      const std::shared_ptr<const data::Tokenizer> tokenizer = data::make_tokenizer(run.data);
      if (tokenizer == nullptr) throw InputError("neither model.vocabulary nor data.tokenizer is set");
      run::set_vocabulary(run, static_cast<int64_t>(tokenizer->vocabulary_size()));
      explanation.run.origins["model.vocabulary"] = "data.tokenizer";
    } catch (const InputError& error) {
      explanation.unknown = error.what();
      return;
    }
  }
  explanation.description = run::describe(run);
}

std::string_view optimizer_group(const run::RunNode& run, const model::ParameterDescription& parameter) {
  if (run::frozen(run.train, parameter.path)) return "frozen";
  return parameter.weight_decay ? "decay" : "no_decay";
}

std::string initializer_text(const model::Initializer& initializer) {
  switch (initializer.kind) {
    case model::Initializer::Kind::kZeros:
      return "zeros";
    case model::Initializer::Kind::kOnes:
      return "ones";
    case model::Initializer::Kind::kNormal:
      return fmt::format("normal {}", initializer.standard_deviation);
  }
  return "";
}

int64_t stable_tokens(const run::RunNode& run) {
  const recipe::Timetable timetable = run::timetable_of(run);
  return timetable.tokens_before(timetable.stable_steps(run.train.steps));
}

std::string fields_text(const run::LoadedRun& run, bool colour) {
  const std::vector<Row> all = rows(run);
  const auto section_of = [](const Row& row) { return row.path.substr(0, row.path.find('.')); };
  std::string text;
  for (size_t begin = 0; begin < all.size();) {
    const std::string section = section_of(all[begin]);
    size_t end = begin, path_width = 0, value_width = 0, origin_width = 0;
    const auto shown = [](const Row& row) {
      return row.unit.empty() || row.typed.index() == 0 ? row.value : row.value + " " + row.unit;
    };
    for (; end < all.size() && section_of(all[end]) == section; ++end) {
      path_width = std::max(path_width, all[end].path.size() - section.size() - 1);
      value_width = std::max(value_width, std::min<size_t>(shown(all[end]).size(), 32));
      origin_width = std::max(origin_width, all[end].origin.size());
    }
    text += fmt::format("{}{}[{}]{}\n", text.empty() ? "" : "\n", colour ? "\033[1m" : "", section,
                        colour ? "\033[0m" : "");
    for (; begin < end; ++begin) {
      const Row& row = all[begin];
      text += fmt::format("  {:<{}}  {:<{}}  {}{:<{}}  {}{}\n", row.path.substr(section.size() + 1), path_width,
                          shown(row), value_width, colour ? "\033[2m" : "", row.origin, origin_width, row.text,
                          colour ? "\033[0m" : "");
    }
  }
  return text;
}

std::vector<Update> updates(const run::RunNode& run, const model::ModelDescription& description) {
  const auto& settings = dynamic_cast<const recipe::AdamW&>(*run.optimizer);
  const std::vector<recipe::ParameterRule> rules = run::parameter_rules(run, description);
  std::vector<Update> updates;
  for (size_t index = 0; index < rules.size(); ++index) {
    const model::ParameterDescription& parameter = description.parameters[index];
    Update& update = updates.emplace_back();
    if (run::frozen(run.train, parameter.path)) continue;
    update.rate = settings.learning_rate * rules[index].rate;
    update.epsilon = settings.epsilon * rules[index].epsilon;
    update.decay = update.rate * settings.weight_decay * rules[index].decay;
    update.size = update.rate * settings.update_size(parameter);
  }
  return updates;
}

namespace {

// Columns as wide as their widest cell.
std::string aligned(const std::vector<std::vector<std::string>>& table) {
  std::vector<size_t> widths;
  for (const auto& row : table) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t column = 0; column < row.size(); ++column) {
      widths[column] = std::max(widths[column], row[column].size());
    }
  }
  std::string text;
  for (const auto& row : table) {
    std::string line;
    for (size_t column = 0; column < row.size(); ++column) {
      line += fmt::format("{:<{}}", row[column], column + 1 < row.size() ? widths[column] + 2 : 0);
    }
    text += line + "\n";
  }
  return text;
}

}  // namespace

std::string phases_text(const run::RunNode& run) {
  if (run.phases.slots.empty()) return "";
  std::vector<std::vector<std::string>> table = {
      {"phase", "kind", "steps", "batch", "context", "tokens", "optimizer", "precision", "factor of the rate"}};
  const recipe::Timetable timetable = run::timetable_of(run);
  for (const recipe::Stretch& stretch : timetable.stretches()) {
    std::string factors = fmt::format("{} to {}", stretch.factors.start, stretch.factors.end);
    for (const auto& entry : stretch.phase->rates.slots) {
      const recipe::FactorEnds& ends = stretch.of_class.at(static_cast<size_t>(entry->of()));
      factors += fmt::format(", {} {} to {}", entry->kind(), ends.start, ends.end);
    }
    table.push_back({fmt::format("{}", table.size() - 1), std::string(stretch.phase->kind()),
                     fmt::format("{} to {}", grouped_text(stretch.first_step + 1),
                                 grouped_text(stretch.first_step + stretch.steps)),
                     grouped_text(stretch.global_batch), grouped_text(stretch.context),
                     grouped_text(stretch.steps * stretch.tokens_per_step()), std::string(stretch.optimizer->kind()),
                     stretch.precision, factors});
  }
  return aligned(table);
}

std::string parameters_text(const run::RunNode& run, const model::ModelDescription& description) {
  std::vector<std::vector<std::string>> table = {
      {"path", "shape", "class", "init", "group", "rate", "epsilon", "decay", "update"}};
  const std::vector<Update> all = updates(run, description);
  for (size_t index = 0; index < all.size(); ++index) {
    const model::ParameterDescription& parameter = description.parameters[index];
    table.push_back({parameter.path, fmt::format("{}", fmt::join(parameter.shape, " x ")),
                     std::string(model::parameter_class_name(parameter.parameter_class)),
                     initializer_text(parameter.initializer), std::string(optimizer_group(run, parameter)),
                     fmt::format("{:.4g}", all[index].rate), fmt::format("{:.4g}", all[index].epsilon),
                     fmt::format("{:.4g}", all[index].decay), fmt::format("{:.4g}", all[index].size)});
  }
  return aligned(table);
}

std::string totals_text(const Explanation& explanation) {
  const run::RunNode& run = explanation.run.node;
  std::string text;
  if (explanation.description) {
    const model::ModelDescription& description = *explanation.description;
    text += fmt::format("{} parameters, {} without embeddings\n", grouped_text(description.parameter_count()),
                        grouped_text(description.parameter_count_without_embedding()));
    text += fmt::format("{:.4g} million FLOPs a token, forward and backward, at a context of {}\n",
                        description.flops_per_token(run.data.context) / 1e6, run.data.context.get());
  } else {
    text += fmt::format("the model's size is not known: {}\n", explanation.unknown);
  }
  const recipe::Timetable timetable = run::timetable_of(run);
  return text + fmt::format("{} tokens in {} steps of {}; {} before the decay\n",
                            grouped_text(timetable.tokens_before(run.train.steps)), grouped_text(run.train.steps),
                            grouped_text(timetable.at(0).tokens_per_step()), grouped_text(stable_tokens(run)));
}

namespace {

OrderedJson phases_json(const run::RunNode& run) {
  OrderedJson phases = OrderedJson::array();
  if (run.phases.slots.empty()) return phases;
  const recipe::Timetable timetable = run::timetable_of(run);
  for (const recipe::Stretch& stretch : timetable.stretches()) {
    OrderedJson rates = OrderedJson::object();
    for (size_t place = 0; place < recipe::kClassNames.size(); ++place) {
      const recipe::FactorEnds& ends = stretch.of_class.at(place);
      if (ends != stretch.factors) rates[std::string(recipe::kClassNames.at(place))] = {ends.start, ends.end};
    }
    phases.push_back({{"kind", stretch.phase->kind()},
                      {"first_step", stretch.first_step + 1},
                      {"steps", stretch.steps},
                      {"global_batch", stretch.global_batch},
                      {"context", stretch.context},
                      {"tokens", stretch.steps * stretch.tokens_per_step()},
                      {"weights", stretch.weights},
                      {"optimizer", stretch.optimizer->kind()},
                      {"precision", stretch.precision},
                      {"factors", {stretch.factors.start, stretch.factors.end}},
                      {"rates", rates}});
  }
  return phases;
}

}  // namespace

OrderedJson explanation_json(const Explanation& explanation, Table table) {
  const run::RunNode& run = explanation.run.node;
  OrderedJson answer = {{"parameters", nullptr},
                        {"parameters_without_embedding", nullptr},
                        {"flops_per_token", nullptr},
                        {"stable_tokens", stable_tokens(run)}};
  OrderedJson fields = OrderedJson::array();
  for (const Row& row : rows(explanation.run)) {
    fields.push_back({{"path", row.path},
                      {"value", to_json(row.typed)},
                      {"unit", row.unit},
                      {"hint", config::name(row.hint)},
                      {"origin", row.origin},
                      {"text", row.text}});
  }
  answer["fields"] = std::move(fields);
  answer["phases"] = phases_json(run);
  if (!explanation.description) return answer;
  const model::ModelDescription& description = *explanation.description;
  answer["parameters"] = description.parameter_count();
  answer["parameters_without_embedding"] = description.parameter_count_without_embedding();
  answer["flops_per_token"] = description.flops_per_token(run.data.context);
  if (table == Table::kWithout) return answer;
  OrderedJson parameters = OrderedJson::array();
  const std::vector<Update> all = updates(run, description);
  for (size_t index = 0; index < all.size(); ++index) {
    const model::ParameterDescription& parameter = description.parameters[index];
    parameters.push_back({{"path", parameter.path},
                          {"shape", parameter.shape},
                          {"class", model::parameter_class_name(parameter.parameter_class)},
                          {"init", initializer_text(parameter.initializer)},
                          {"group", optimizer_group(run, parameter)},
                          {"fan_in", parameter.fan_in},
                          {"fan_out", parameter.fan_out},
                          {"rate", all[index].rate},
                          {"epsilon", all[index].epsilon},
                          {"decay", all[index].decay},
                          {"update", all[index].size}});
  }
  answer["table"] = std::move(parameters);
  return answer;
}

}  // namespace weft::app
