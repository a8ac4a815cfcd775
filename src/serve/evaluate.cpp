#include "serve/evaluate.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "base/check.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "execute/executor.h"
#include "nn/segments.h"
#include "schedule/schedule.h"

namespace weft::serve {

namespace {

// Numbers of logits in memory at once, fp32: 256 MiB.
constexpr int64_t kLogitsAtOnce = int64_t{1} << 26;
constexpr int64_t kTokensAtOnce = 8192;
constexpr int64_t kLongestUsualContext = 2048;

// Passes the logits on as they are computed.
class ListeningSegment final : public nn::Segment {
 public:
  using Listener = std::function<void(const nn::RunContext&, const at::Tensor&)>;
  ListeningSegment(std::unique_ptr<nn::Segment> inner, Listener listener)
      : inner_(std::move(inner)), listener_(std::move(listener)) {}
  nn::Tensors forward(nn::RunContext& context, const nn::Tensors& inputs, nn::Saved& saved) override {
    auto outputs = inner_->forward(context, inputs, saved);
    listener_(context, outputs.at(0));
    return outputs;
  }
  nn::Tensors backward(nn::RunContext& context, nn::Saved& saved, nn::Tensors output_gradients) override {
    return inner_->backward(context, saved, std::move(output_gradients));
  }

 private:
  std::unique_ptr<nn::Segment> inner_;
  Listener listener_;
};

// Gradients are wanted, not a step.
class NoUpdate final : public execute::OptimizerStep {
 public:
  void apply(nn::ParameterStore&, const execute::StepFacts&) override {}
};

// `name` is what messages call the rows, empty or ending in ": ".
void check_rows(const model::ModelDescription& model, const TokenRows& rows, const std::string& name) {
  bool predicts = false;
  for (size_t row = 0; row < rows.size(); ++row) {
    if (model.maximum_positions > 0 && std::cmp_greater(rows[row].size(), model.maximum_positions)) {
      throw InputError(fmt::format("{}row {} has {} tokens, more than the model's context of {}", name, row,
                                   rows[row].size(), model.maximum_positions));
    }
    for (size_t i = 0; i < rows[row].size(); ++i) {
      if (rows[row][i] >= model.vocabulary) {
        throw InputError(fmt::format("{}row {}, token {}: id {} is beyond the model's vocabulary of {}", name, row, i,
                                     rows[row][i], model.vocabulary));
      }
    }
    predicts = predicts || rows[row].size() > 1;
  }
  if (!predicts) throw InputError(name + "no token to predict: every row has fewer than two tokens");
}

// Rows of one length, as many as fit a micro-batch.
struct Batch {
  std::vector<size_t> rows;
  nn::MicroBatch tensors;
  int64_t predicted = 0;
};

Batch make_batch(const TokenRows& rows, std::vector<size_t> chosen, at::Device device) {
  const auto count = static_cast<int64_t>(chosen.size());
  const auto length = static_cast<int64_t>(rows[chosen.front()].size());
  auto tokens = at::empty({count, length}, at::kLong);
  auto* out = tokens.data_ptr<int64_t>();
  for (const size_t row : chosen) out = std::copy(rows[row].begin(), rows[row].end(), out);
  auto targets = at::full({count, length}, -1, at::kLong);
  targets.narrow(1, 0, length - 1).copy_(tokens.narrow(1, 1, length - 1));
  Batch batch;
  batch.rows = std::move(chosen);
  batch.predicted = count * (length - 1);
  batch.tensors.tokens = tokens.to(device);
  batch.tensors.targets = targets.to(device);
  batch.tensors.positions = at::arange(length, at::kLong).unsqueeze(0).expand({count, length}).contiguous().to(device);
  batch.tensors.sample_ids = at::zeros({count}, at::kLong).to(device);
  return batch;
}

std::vector<Batch> make_batches(const model::ModelDescription& model, const TokenRows& rows, bool all_rows,
                                at::Device device) {
  std::map<size_t, std::vector<size_t>> by_length;
  for (size_t row = 0; row < rows.size(); ++row) {
    if (rows[row].size() > 1 || (all_rows && rows[row].size() == 1)) by_length[rows[row].size()].push_back(row);
  }
  std::vector<Batch> batches;
  for (const auto& [length, same] : by_length) {
    const int64_t tokens = std::min(kTokensAtOnce, kLogitsAtOnce / model.vocabulary);
    const auto at_once = static_cast<size_t>(std::max<int64_t>(1, tokens / static_cast<int64_t>(length)));
    for (size_t begin = 0; begin < same.size(); begin += at_once) {
      const auto end = std::min(same.size(), begin + at_once);
      batches.push_back(make_batch(
          rows, {same.begin() + static_cast<ptrdiff_t>(begin), same.begin() + static_cast<ptrdiff_t>(end)}, device));
    }
  }
  return batches;
}

std::vector<std::unique_ptr<nn::Segment>> segments_with_listener(const model::ModelDescription& model,
                                                                 ListeningSegment::Listener listener) {
  auto segments = nn::build_segments(model);
  for (size_t i = 0; listener && i < segments.size(); ++i) {
    if (model.segments[i].kind != model::SegmentKind::kLogits) continue;
    segments[i] = std::make_unique<ListeningSegment>(std::move(segments[i]), listener);
  }
  return segments;
}

}  // namespace

double Evaluation::perplexity() const { return std::exp(loss); }

Evaluation evaluate(const model::ModelDescription& model, nn::ParameterStore& parameters, const TokenRows& rows,
                    const EvaluationOptions& options) {
  check_rows(model, rows, options.file.empty() ? "" : options.file.string() + ": ");
  auto batches = make_batches(model, rows, static_cast<bool>(options.on_logits), parameters.master(0).device());
  const Batch* current = nullptr;
  ListeningSegment::Listener listener;
  if (options.on_logits) {
    listener = [&](const nn::RunContext&, const at::Tensor& logits) {
      for (size_t i = 0; i < current->rows.size(); ++i) {
        options.on_logits(current->rows[i], logits[static_cast<int64_t>(i)].to(at::kCPU, at::kFloat).clone());
      }
    };
  }
  execute::Executor executor(model, segments_with_listener(model, std::move(listener)), parameters);
  const auto schedule = schedule::expand(schedule::evaluate(model, 1), model);
  Evaluation result;
  double sum = 0;
  for (const Batch& batch : batches) {
    current = &batch;
    execute::StepInput input;
    input.micro_batches = {&batch.tensors, 1};
    input.target_tokens = std::max<int64_t>(1, batch.predicted);
    sum += executor.run(schedule, input).loss * static_cast<double>(input.target_tokens);
    result.tokens += batch.predicted;
    if (options.on_progress) options.on_progress(result.tokens);
  }
  result.loss = sum / static_cast<double>(result.tokens);
  if (!options.gradients) return result;

  std::erase_if(batches, [](const Batch& batch) { return batch.predicted == 0; });
  std::vector<nn::MicroBatch> micro_batches;
  for (const Batch& batch : batches) micro_batches.push_back(batch.tensors);
  execute::Executor trainer(model, nn::build_segments(model), parameters);
  NoUpdate no_update;
  execute::StepInput input;
  input.micro_batches = micro_batches;
  input.target_tokens = result.tokens;
  input.optimizer = &no_update;
  trainer.run(schedule::expand(schedule::accumulate(model, static_cast<int32_t>(micro_batches.size())), model), input);
  return result;
}

TokenRows cut_into_windows(std::span<const TokenId> tokens, int64_t context) {
  WEFT_CHECK(context > 0);
  TokenRows rows;
  while (!tokens.empty()) {
    const auto window = tokens.first(std::min(tokens.size(), static_cast<size_t>(context)));
    rows.emplace_back(window.begin(), window.end());
    tokens = tokens.subspan(window.size());
  }
  return rows;
}

TokenRows read_token_rows(const std::filesystem::path& path) {
  const Json json = read_json_file(path);
  TokenRows rows;
  for (const auto& row : JsonReader(json, path.string()).at("ids").items()) {
    auto& ids = rows.emplace_back();
    for (const auto& item : row.items()) {
      const int64_t id = item.as_integer();
      if (id < 0 || id > int64_t{UINT32_MAX}) item.fail(fmt::format("{} is not a token id", id));
      ids.push_back(static_cast<TokenId>(id));
    }
  }
  return rows;
}

int64_t usual_context(const checkpoint::ModelSource& source) {
  if (source.manifest) {
    const auto field = source.manifest->fields.find("data.context");
    if (field != source.manifest->fields.end()) {
      const int64_t context = std::strtoll(field->second.c_str(), nullptr, 10);
      if (context > 1) return context;
    }
  }
  const int64_t positions = source.description.maximum_positions;
  return positions > 0 ? std::min(positions, kLongestUsualContext) : kLongestUsualContext;
}

Evaluation run_eval(LoadedModel& model, const EvalRequest& request,
                    const std::function<void(int64_t done, int64_t total)>& on_progress) {
  const auto& description = model.description();
  TokenRows rows;
  if (!request.token_file.empty()) {
    rows = read_token_rows(request.token_file);
  } else {
    const auto mode = request.special_tokens ? data::SpecialTokens::Add : data::SpecialTokens::Match;
    const auto ids = model.needed_tokenizer().encode(read_file(request.text_file), mode);
    if (ids.size() < 2) throw InputError(fmt::format("{}: has fewer than two tokens", request.text_file.string()));
    rows = cut_into_windows(ids, request.context > 0 ? request.context : usual_context(model.source));
  }
  int64_t total = 0;
  for (const auto& row : rows) total += std::max<int64_t>(0, static_cast<int64_t>(row.size()) - 1);

  checkpoint::NamedTensors logits;
  EvaluationOptions options;
  options.file = request.token_file;
  options.gradients = !request.gradients_file.empty();
  if (!request.logits_file.empty()) {
    options.on_logits = [&](size_t row, const at::Tensor& values) {
      logits.emplace_back(fmt::format("logits.{}", row), values);
    };
  }
  if (on_progress) options.on_progress = [&](int64_t done) { on_progress(done, total); };
  const auto result = evaluate(description, *model.parameters, rows, options);
  if (!request.logits_file.empty()) checkpoint::write_tensor_file(request.logits_file, logits);
  if (options.gradients) {
    const auto architecture = model::write_hugging_face_config(*model.source.model, "float32", {}).architecture;
    checkpoint::write_tensor_file(request.gradients_file,
                                  checkpoint::in_hugging_face_layout(description, architecture, [&](int parameter) {
                                    return model.parameters->gradient(parameter).to(at::kCPU);
                                  }));
  }
  return result;
}

}  // namespace weft::serve
