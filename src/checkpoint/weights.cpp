#include "checkpoint/weights.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "base/check.h"
#include "base/error.h"
#include "checkpoint/stored_tensor.h"
#include "checkpoint/training_state.h"

namespace weft::checkpoint {

namespace {

void refuse(const std::filesystem::path& source, const std::vector<std::string>& problems) {
  if (problems.empty()) return;
  constexpr size_t kShown = 20;
  std::string message = fmt::format("{}: the weights do not fit the model:", source.string());
  for (size_t i = 0; i < std::min(kShown, problems.size()); ++i) message += "\n  " + problems[i];
  if (problems.size() > kShown) message += fmt::format("\n  and {} more", problems.size() - kShown);
  throw InputError(message);
}

bool is_float(StoredType type) {
  return type == StoredType::kF32 || type == StoredType::kF16 || type == StoredType::kBF16 || type == StoredType::kF64;
}

}  // namespace

CheckpointWeights::CheckpointWeights(std::unique_ptr<CheckpointReader> reader,
                                     const model::ModelDescription& description)
    : reader_(std::move(reader)) {
  std::vector<std::string> problems;
  std::set<std::string_view> known;
  for (const auto& parameter : description.parameters) {
    known.insert(parameter.path);
    const ManifestTensor* stored = reader_->manifest().find(kParameterValue, parameter.path);
    stored_.push_back(stored);
    if (stored == nullptr) {
      problems.push_back(fmt::format("'{}' is missing", parameter.path));
    } else if (stored->shape != parameter.shape || !is_float(stored->type)) {
      problems.push_back(fmt::format("'{}' is {} {}, expected {}", parameter.path, stored_type_name(stored->type),
                                     shape_text(stored->shape), shape_text(parameter.shape)));
    }
  }
  for (const auto& stored : reader_->manifest().tensors) {
    if (stored.state == kParameterValue && !known.contains(stored.path)) {
      problems.push_back(fmt::format("'{}' is not expected", stored.path));
    }
  }
  refuse(reader_->folder(), problems);
}

void CheckpointWeights::read(int parameter, const at::Tensor& out) {
  const ManifestTensor& stored = *stored_.at(static_cast<size_t>(parameter));
  if (stored.type == StoredType::kF32 && out.is_contiguous() && out.device().is_cpu()) {
    reader_->read(stored, bytes_of(out));
    return;
  }
  const auto staged = at::empty(stored.shape, scalar_type_of(stored.type));
  reader_->read(stored, bytes_of(staged));
  out.copy_(staged);
}

HuggingFaceWeights::HuggingFaceWeights(const std::filesystem::path& directory,
                                       const model::ModelDescription& description, std::string_view architecture)
    : folder_(directory),
      tensors_(model::hugging_face_tensors(description, architecture)),
      parts_(description.parameters.size()) {
  std::vector<std::string> problems;
  find(description, problems);
  check_others(problems);
  refuse(directory, problems);
}

void HuggingFaceWeights::find(const model::ModelDescription& description, std::vector<std::string>& problems) {
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const auto& tensor = tensors_[i];
    if (tensor.parameters.empty()) continue;
    const auto* place = folder_.find(tensor.name);
    if (place == nullptr) place = folder_.find(tensor.short_name);
    if (place == nullptr) {
      const bool head = tensor.name == model::tied_head_name();
      problems.push_back(
          fmt::format("'{}' is missing{}", tensor.name,
                      head ? ", although config.json says that the head is not tied to the embedding" : ""));
      continue;
    }
    const StoredTensor& stored = *place->tensor;
    if (stored.shape != tensor.shape || !is_float(stored.type)) {
      problems.push_back(fmt::format("'{}' is {} {}, expected {}", stored.name, stored_type_name(stored.type),
                                     shape_text(stored.shape), shape_text(tensor.shape)));
    }
    int64_t row = 0;
    for (const int parameter : tensor.parameters) {
      parts_[static_cast<size_t>(parameter)] = {place, i, row};
      row += description.parameters[static_cast<size_t>(parameter)].shape.front();
    }
  }
}

void HuggingFaceWeights::check_others(std::vector<std::string>& problems) const {
  std::set<const SafetensorsFolder::Place*> used;
  const SafetensorsFolder::Place* embedding = nullptr;
  for (const auto& part : parts_) used.insert(part.place);
  if (!parts_.empty()) embedding = parts_.front().place;
  for (const auto& [name, place] : folder_.tensors()) {
    if (used.contains(&place) || model::is_known_buffer(name)) continue;
    if (name != model::tied_head_name()) {
      problems.push_back(fmt::format("'{}' is not expected", name));
      continue;
    }
    const auto head = place.data();
    const bool same = embedding != nullptr && embedding->data().size() == head.size() &&
                      std::memcmp(embedding->data().data(), head.data(), head.size()) == 0;
    if (!same) {
      problems.push_back(
          fmt::format("'{}' differs from the embedding, although config.json says that the head is tied to it", name));
    }
  }
}

const at::Tensor& HuggingFaceWeights::loaded(const Part& part) {
  WEFT_CHECK(part.place != nullptr);
  if (last_ != part.place) {
    const StoredTensor& stored = *part.place->tensor;
    last_tensor_ = tensor_of(part.place->data(), stored.type, stored.shape);
    if (tensors_[part.tensor].transposed) last_tensor_ = last_tensor_.t();
    last_ = part.place;
  }
  return last_tensor_;
}

void HuggingFaceWeights::read(int parameter, const at::Tensor& out) {
  const Part& part = parts_.at(static_cast<size_t>(parameter));
  out.copy_(loaded(part).narrow(0, part.row, out.size(0)));
}

}  // namespace weft::checkpoint
