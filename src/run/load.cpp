#include "run/load.h"

#include <algorithm>

#include <fmt/format.h>

#include "model/describe.h"
#include "model/family.h"
#include "model/hugging_face.h"
#include "run/layout.h"
#include "run/timetable.h"

namespace weft::run {
namespace {

using config::Item;
using config::Origins;
using config::Table;

std::vector<std::string> field_names(config::Node& node) {
  config::FieldList list;
  node.fields(list);
  std::vector<std::string> names;
  for (const auto& field : list.entries()) names.push_back(field->name);
  return names;
}

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

const std::string& text_of(const Item& item, const std::string& path) {
  const auto* text = item.value() == nullptr ? nullptr : std::get_if<std::string>(item.value());
  if (text == nullptr) throw InputError(fmt::format("{}: {}: must be a string", item.origin, path));
  return *text;
}

// Everything below `path` comes from one place, unless a later value says otherwise.
void set_origin(const config::Node& node, const std::string& path, const std::string& origin, Origins& origins) {
  config::visit(
      node,
      [&](const std::string& field_path, const config::Field& field) {
        if (field.is_value()) origins[field_path] = origin;
        if (field.slot() != nullptr) origins[field_path + ".kind"] = origin;
      },
      path);
}

// The family's keys make the tree; the rest of the section changes it afterwards.
void apply_family(const Item& family_item, Table model_table, model::ModelNode& model, Origins& origins) {
  const std::string& name = text_of(family_item, "model.family");
  const std::unique_ptr<config::Node> node = model::FamilyNode::kinds().make(name);
  if (node == nullptr) {
    throw InputError(fmt::format("{}: model.family: there is no family \"{}\"{}", family_item.origin, name,
                                 config::suggestion(name, model::FamilyNode::kinds().names())));
  }
  auto& family = dynamic_cast<model::FamilyNode&>(*node);
  const std::vector<std::string> family_keys = field_names(family), tree_keys = field_names(model);
  Table keys, rest;
  for (const auto& [key, item] : model_table.entries()) {
    if (key == "family") continue;
    const bool flat = contains(family_keys, key) && item.value() != nullptr;
    if (!flat && !contains(tree_keys, key)) {
      std::vector<std::string> all = family_keys;
      for (const std::string& other : tree_keys) {
        if (!contains(all, other)) all.push_back(other);
      }
      throw InputError(fmt::format("{}: model.{}: unknown key of family {}{}", item.origin, key, name,
                                   config::suggestion(key, all)));
    }
    (flat ? keys : rest).put(key, item);
  }
  config::apply(keys, family, origins, "model");
  for (const std::string& key : config::unset_fields(family)) {
    throw InputError(
        fmt::format("{}: model.{} is not set: family {} has no default for it", family_item.origin, key, name));
  }
  model = family.model();
  Origins given;
  for (const auto& [key, item] : keys.entries()) given["model." + key] = item.origin;
  set_origin(model, "model", fmt::format("family {}", name), origins);
  for (const auto& [path, origin] : given) origins[path] = origin;
  config::apply(rest, model, origins, "model");
}

// Architecture and weights of a Hugging Face directory; the rest of the section changes the tree afterwards.
void apply_hugging_face(const Item& item, Table table, LoadedRun& loaded) {
  RunNode& run = loaded.node;
  Origins& origins = loaded.origins;
  const std::filesystem::path directory = std::filesystem::absolute(text_of(item, "model.hf"));
  const std::filesystem::path config = directory / "config.json";
  if (!std::filesystem::exists(config)) {
    throw InputError(fmt::format("{}: model.hf: there is no file {}", item.origin, config.string()));
  }
  model::HuggingFaceConfig read = model::read_hugging_face_config(config);
  loaded.warnings = std::move(read.warnings);
  run.model = std::move(read.model);
  run.train.initial_weights = directory.string();
  set_origin(run.model, "model", config.string(), origins);
  origins["train.initial_weights"] = item.origin;
  table.erase("hf");
  config::apply(table, run.model, origins, "model");
}

void apply_model(const Item& item, LoadedRun& loaded) {
  if (item.table() == nullptr)
    throw InputError(fmt::format("{}: model: must be a table, written [model]", item.origin));
  Table table = *item.table();
  const Item *family = table.find("family"), *directory = table.find("hf");
  if (family != nullptr && directory != nullptr) {
    throw InputError(directory->origin + ": model.hf and model.family both name the model; give one of them");
  }
  if (directory != nullptr) {
    apply_hugging_face(*directory, table, loaded);
  } else if (family != nullptr) {
    apply_family(*family, table, loaded.node.model, loaded.origins);
  } else {
    config::apply(table, loaded.node.model, loaded.origins, "model");
  }
}

// The parametrisation's multipliers, written into the model, so that whoever computes or exports it needs no
// parametrisation.
void fix_multipliers(RunNode& run, Origins& origins) {
  const std::string kind(run.parametrisation->kind());
  for (const auto& [path, value] : run.parametrisation->fixed_fields(run.model)) {
    const std::string full_path = "model." + path;
    config::visit(
        run.model,
        [&](const std::string& field_path, config::Field& field) {
          if (field_path != full_path) return;
          const auto found = origins.find(full_path);
          const bool given = found != origins.end() && !found->second.starts_with("family ");
          if (given && field.get() != config::Value(value)) {
            throw InputError(fmt::format("{}: {} is {}, but parametrisation.kind = \"{}\" makes it {}; leave it out",
                                         found->second, full_path, config::value_text(field.get()), kind, value));
          }
          if (given) return;
          field.set(value);
          origins[full_path] = "parametrisation " + kind;
        },
        "model");
  }
}

constexpr double kGreatestTokens = 1e18;

void fail_if(bool wrong, const std::string& message) {
  if (wrong) throw InputError(message);
}

}  // namespace

LoadedRun load_run(const std::filesystem::path& file, const std::vector<std::string>& assignments) {
  Table table = config::load_toml(file);
  for (const std::string& assignment : assignments) config::assign(table, assignment);
  LoadedRun loaded;
  RunNode& run = loaded.node;
  if (const Item* model = table.find("model")) {
    apply_model(*model, loaded);
    table.erase("model");
  }
  config::apply(table, run, loaded.origins);
  config::name_paths(run);
  if (run.run.name.empty()) run.run.name = file.stem().string();
  if (run.run.directory.empty()) run.run.directory = "runs/" + run.run.name;
  const std::filesystem::path here = std::filesystem::current_path();
  const std::filesystem::path beside = std::filesystem::absolute(file).parent_path();
  data::make_paths_absolute(run.data, {here, beside});
  fix_multipliers(run, loaded.origins);
  check(run);
  return loaded;
}

void set_vocabulary(RunNode& run, int64_t tokenizer_vocabulary) {
  if (!run.model.vocabulary.set()) run.model.vocabulary = tokenizer_vocabulary;
  fail_if(
      run.model.vocabulary < tokenizer_vocabulary,
      fmt::format("model.vocabulary is {}, but the tokenizer has {} tokens; leave it unset or make it at least that",
                  run.model.vocabulary.get(), tokenizer_vocabulary));
  config::name_paths(run);
  model::check(run.model);
}

void check(const RunNode& run) {
  const std::vector<std::string> unset = config::unset_fields(run);
  for (const std::string& path : unset) {
    fail_if(path != "model.vocabulary", fmt::format("{} is not set: it has no default", path));
  }
  if (run.model.vocabulary.set()) model::check(run.model);
  fail_if(run.model.positions > 0 && run.data.context > run.model.positions,
          fmt::format("data.context is {}, longer than the model's {} positions (model.positions)",
                      run.data.context.get(), run.model.positions));
  const recipe::Timetable timetable = timetable_of(run);
  for (size_t index = 0; index < timetable.stretches().size(); ++index) {
    const recipe::Stretch& stretch = timetable.stretches()[index];
    fail_if(run.model.positions > 0 && stretch.context > run.model.positions,
            fmt::format("phases.{}.context is {}, longer than the model's {} positions (model.positions)", index,
                        stretch.context, run.model.positions));
    static_cast<void>(batch_cut(run, stretch.global_batch));
  }
  static_cast<void>(layout_of(run));
  // Counts of tokens are 63-bit integers everywhere.
  const recipe::Stretch& last = timetable.at(run.train.steps - 1);
  const double tokens = static_cast<double>(last.first_token) + static_cast<double>(run.train.steps - last.first_step) *
                                                                    static_cast<double>(last.global_batch) *
                                                                    static_cast<double>(last.context);
  fail_if(tokens > kGreatestTokens,
          fmt::format("train.steps x train.global_batch x data.context is {:.3g} tokens; at most {:.0g} can be counted",
                      tokens, kGreatestTokens));
}

std::vector<config::Difference> refused_changes(const RunNode& before, const RunNode& after) {
  std::vector<config::Difference> refused = config::differences(before, after);
  std::erase_if(refused, [](const config::Difference& difference) {
    return difference.hint != config::Hint::kArchitecture && difference.hint != config::Hint::kCore;
  });
  return refused;
}

std::string refusal(const RunNode& before, const RunNode& after) {
  const std::vector<config::Difference> refused = refused_changes(before, after);
  if (refused.empty()) return "";
  std::string message = "a resumed run may not change:";
  for (const config::Difference& difference : refused) {
    message += fmt::format("\n  {}: was {}, now {}", difference.path, difference.before, difference.after);
  }
  return message;
}

}  // namespace weft::run
