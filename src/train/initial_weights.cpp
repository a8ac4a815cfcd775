#include "train/initial_weights.h"

#include <algorithm>
#include <map>
#include <string>

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "checkpoint/model_source.h"

namespace weft::train {
namespace {

void read_weights(nn::ParameterStore& parameters, const model::ModelDescription& model, const std::string& directory) {
  const checkpoint::ModelSource source = checkpoint::open_model(directory);
  std::map<std::string, int> stored;
  for (size_t index = 0; index < source.description.parameters.size(); ++index) {
    stored.emplace(source.description.parameters[index].path, static_cast<int>(index));
  }
  std::string problems;
  for (const model::ParameterDescription& parameter : model.parameters) {
    const auto found = stored.find(parameter.path);
    if (found == stored.end()) {
      problems += fmt::format("\n  {} is missing there", parameter.path);
      continue;
    }
    const auto& shape = source.description.parameters[static_cast<size_t>(found->second)].shape;
    if (shape != parameter.shape) {
      problems += fmt::format("\n  {} is [{}] there, the model's is [{}]", parameter.path, fmt::join(shape, ", "),
                              fmt::join(parameter.shape, ", "));
    }
  }
  if (!problems.empty()) {
    throw InputError(fmt::format("train.initial_weights: {} does not fit the model:{}", directory, problems));
  }
  for (size_t index = 0; index < model.parameters.size(); ++index) {
    const at::Tensor global = at::empty(model.parameters[index].shape, at::kFloat);
    source.weights->read(stored.at(model.parameters[index].path), global);
    parameters.assign(static_cast<int>(index), global);
  }
  parameters.refresh_compute_copies();
}

}  // namespace

std::vector<bool> frozen_parameters(const run::TrainNode& train, const model::ModelDescription& model) {
  std::vector<bool> frozen;
  for (const model::ParameterDescription& parameter : model.parameters) {
    frozen.push_back(run::frozen(train, parameter.path));
  }
  for (const std::string& pattern : train.frozen) {
    run::TrainNode alone;
    alone.frozen = {pattern};
    const auto matches = [&](const model::ParameterDescription& parameter) {
      return run::frozen(alone, parameter.path);
    };
    if (std::ranges::none_of(model.parameters, matches)) {
      throw InputError(
          fmt::format("train.frozen: no parameter's path matches \"{}\"; weft explain --parameters lists "
                      "them",
                      pattern));
    }
  }
  if (std::ranges::all_of(frozen, [](bool is_frozen) { return is_frozen; })) {
    throw InputError("train.frozen: every parameter is frozen; nothing would learn");
  }
  return frozen;
}

void initialize_parameters(nn::ParameterStore& parameters, const model::ModelDescription& model,
                           const run::TrainNode& train) {
  if (train.initial_weights.empty()) {
    parameters.initialize(static_cast<uint64_t>(train.seed));
  } else {
    read_weights(parameters, model, train.initial_weights);
  }
}

}  // namespace weft::train
