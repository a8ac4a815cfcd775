#include <chrono>
#include <cstdio>

#include <fmt/format.h>

#include "base/json.h"
#include "engine/bodies.h"
#include "engine/loading.h"
#include "engine/process.h"
#include "serve/generate.h"

namespace weft::engine {
namespace {

std::vector<data::TokenId> prompt_of(const app::Invocation& invocation, const serve::LoadedModel& model) {
  std::vector<data::TokenId> ids;
  if (invocation.given("--token-ids")) {
    for (const int64_t id : invocation.integers("--token-ids")) {
      if (id < 0 || id > int64_t{UINT32_MAX}) throw InputError(fmt::format("--token-ids: {} is not a token id", id));
      ids.push_back(static_cast<data::TokenId>(id));
    }
    return ids;
  }
  const auto mode = invocation.flag("--special") ? data::SpecialTokens::Add : data::SpecialTokens::Match;
  return model.needed_tokenizer().encode(invocation.text("--prompt"), mode);
}

serve::GenerationOptions options_of(const app::Invocation& invocation, const serve::LoadedModel& model) {
  serve::GenerationOptions options;
  options.sampling.temperature = invocation.number("--temperature");
  options.sampling.top_k = invocation.integer("--top-k");
  options.sampling.top_p = invocation.number("--top-p");
  options.sampling.repetition_penalty = invocation.number("--repetition-penalty");
  options.sampling.seed = static_cast<uint64_t>(invocation.integer("--seed"));
  options.max_tokens = invocation.integer("--max-tokens");
  if (!invocation.flag("--ignore-eos")) options.end_of_text = model.end_of_text;
  return options;
}

void print_piece(std::string_view piece) {
  std::fwrite(piece.data(), 1, piece.size(), stdout);
  std::fflush(stdout);
}

void report(const serve::Generation& generation, const model::ModelDescription& model, double seconds) {
  if (generation.forgot) {
    fmt::print(stderr, "weft: the text is longer than the model's context of {} tokens: its beginning was forgotten\n",
               model.maximum_positions);
  }
  fmt::print(stderr, "weft: {} tokens, {:.1f} a second{}\n", generation.tokens.size(),
             static_cast<double>(generation.tokens.size()) / seconds,
             generation.stop == serve::StopReason::kEnd ? ", the text ended" : "");
}

}  // namespace

ExitCode run_generate(const app::Invocation& invocation) {
  const serve::LoadedModel model = load_model(invocation, "DIR");
  const auto prompt = prompt_of(invocation, model);
  const auto options = options_of(invocation, model);
  const bool stream = !invocation.json();
  const auto start = std::chrono::steady_clock::now();
  OrderedJson answer;
  serve::Generation generation;
  if (model.tokenizer != nullptr) {
    if (stream && invocation.given("--prompt")) print_piece(invocation.text("--prompt"));
    const auto result = serve::generate_text(model.description(), *model.parameters, *model.tokenizer, prompt, options,
                                             [&](std::string_view piece) {
                                               if (stream) print_piece(piece);
                                             });
    answer["text"] = result.text;
    generation = result.generation;
  } else {
    answer["text"] = nullptr;
    generation = serve::generate(model.description(), *model.parameters, prompt, options, [&](data::TokenId token) {
      if (stream) print_piece(fmt::format("{} ", token));
      return true;
    });
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  answer["token_ids"] = generation.tokens;
  print_piece(stream ? "\n" : dump_json(answer) + "\n");
  report(generation, model.description(), seconds.count());
  return ExitCode::kDone;
}

}  // namespace weft::engine
