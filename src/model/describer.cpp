#include "model/describer.h"

namespace weft::model {

int Describer::parameter(ParameterDescription parameter) {
  model_.parameters.push_back(std::move(parameter));
  return static_cast<int>(model_.parameters.size()) - 1;
}

int Describer::matrix(std::string path, int64_t out, int64_t in, TensorCut cut) {
  return parameter({.path = std::move(path),
                    .shape = {out, in},
                    .parameter_class = ParameterClass::kHiddenMatrix,
                    .initializer = {Initializer::Kind::kNormal, deviations_.standard},
                    .weight_decay = true,
                    .fan_in = in,
                    .fan_out = out,
                    .tensor_cut = cut});
}

int Describer::output_matrix(std::string path, int64_t out, int64_t in, TensorCut cut) {
  const int index = matrix(std::move(path), out, in, cut);
  model_.parameters.back().initializer.standard_deviation = deviations_.output;
  model_.parameters.back().writes_residual = true;
  return index;
}

int Describer::table(std::string path, int64_t rows, ParameterClass parameter_class, TensorCut cut) {
  const int index = matrix(std::move(path), rows, model_.width, cut);
  ParameterDescription& table = model_.parameters.back();
  table.parameter_class = parameter_class;
  if (parameter_class == ParameterClass::kEmbedding) table.fan_in = 1, table.fan_out = model_.width;
  return index;
}

int Describer::vector(std::string path, int64_t features, Initializer::Kind kind, TensorCut cut) {
  return parameter({.path = std::move(path),
                    .shape = {features},
                    .parameter_class = ParameterClass::kVector,
                    .initializer = {kind, 0},
                    .weight_decay = false,
                    .fan_out = features,
                    .tensor_cut = cut});
}

int Describer::value(std::string name, std::vector<int64_t> trailing) {
  model_.values.push_back({std::move(name), std::move(trailing)});
  return static_cast<int>(model_.values.size()) - 1;
}

}  // namespace weft::model
