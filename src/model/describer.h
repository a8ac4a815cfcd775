// What nodes write their part of the description with (nodes.h: each slot's base declares how it is described).
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "model/description.h"

namespace weft::model {

class Describer {
 public:
  // Standard deviations of ordinary matrices and of those that write to the residual stream.
  struct Deviations {
    double standard = 0;
    double output = 0;
  };

  Describer(ModelDescription& model, Deviations deviations) : model_(model), deviations_(deviations) {}

  [[nodiscard]] int64_t width() const { return model_.width; }

  // Each adds one parameter and returns its index.
  int matrix(std::string path, int64_t out, int64_t in, TensorCut cut);         // of ordinary deviation
  int output_matrix(std::string path, int64_t out, int64_t in, TensorCut cut);  // writes to the residual stream
  // (rows, width): an embedding or the head
  int table(std::string path, int64_t rows, ParameterClass parameter_class, TensorCut cut);
  int gain(std::string path, int64_t features) {
    return vector(std::move(path), features, Initializer::Kind::kOnes, {});
  }
  int bias(std::string path, int64_t features, TensorCut cut) {
    return vector(std::move(path), features, Initializer::Kind::kZeros, cut);
  }

  int value(std::string name, std::vector<int64_t> trailing);
  void segment(SegmentDescription segment) { model_.segments.push_back(std::move(segment)); }

 private:
  int parameter(ParameterDescription parameter);
  int vector(std::string path, int64_t features, Initializer::Kind kind, TensorCut cut);

  ModelDescription& model_;
  Deviations deviations_;
};

}  // namespace weft::model
