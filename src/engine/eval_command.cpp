#include <cstdio>

#include <fmt/format.h>

#include "base/json.h"
#include "base/progress.h"
#include "engine/bodies.h"
#include "engine/loading.h"
#include "serve/evaluate.h"

namespace weft::engine {

ExitCode run_eval(const app::Invocation& invocation) {
  serve::LoadedModel model = load_model(invocation, "DIR");
  serve::EvalRequest request;
  if (invocation.given("--tokens")) request.token_file = invocation.text("--tokens");
  if (invocation.given("--data")) request.text_file = invocation.text("--data");
  if (invocation.given("--context")) request.context = invocation.integer("--context");
  if (invocation.given("--logits")) request.logits_file = invocation.text("--logits");
  if (invocation.given("--gradients")) request.gradients_file = invocation.text("--gradients");
  request.special_tokens = invocation.flag("--special");
  std::optional<Progress> progress;
  const auto result = serve::run_eval(model, request, [&](int64_t done, int64_t total) {
    if (!progress) progress.emplace("evaluating", "tokens", static_cast<double>(total));
    progress->update(static_cast<double>(done));
  });
  progress.reset();
  if (invocation.json()) {
    const OrderedJson answer = {{"loss", result.loss}, {"perplexity", result.perplexity()}, {"tokens", result.tokens}};
    fmt::print("{}\n", dump_json(answer));
  } else {
    fmt::print("loss {:.6f}  perplexity {:.4f}  over {} tokens\n", result.loss, result.perplexity(), result.tokens);
  }
  return ExitCode::kDone;
}

}  // namespace weft::engine
