#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "app/deciding_commands.h"
#include "base/json.h"
#include "data/dataset.h"
#include "data/store_builder.h"
#include "run/load.h"
#include "run/timetable.h"

namespace weft::app {

ExitCode run_data_build(const Invocation& invocation) {
  data::BuildOptions options;
  options.inputs = invocation.texts("INPUT");
  options.tokenizer = invocation.text("--tokenizer");
  options.output = invocation.text("--out");
  options.bos = invocation.flag("--bos");
  if (invocation.given("--threads")) options.threads = static_cast<int>(invocation.integer("--threads"));
  const data::BuiltStore store = data::build_store(options);
  if (invocation.json()) {
    const OrderedJson answer = {{"files", {store.bin.string(), store.idx.string(), store.tokenizer.string()}},
                                {"documents", store.documents},
                                {"tokens", store.tokens},
                                {"text_bytes", store.text_bytes}};
    fmt::print("{}\n", dump_json(answer));
  } else {
    fmt::print("{} documents, {} tokens of {} bytes of text\n{}\n{}\n{}\n", store.documents, store.tokens,
               store.text_bytes, store.bin.string(), store.idx.string(), store.tokenizer.string());
  }
  return ExitCode::kDone;
}

ExitCode run_data_samples(const Invocation& invocation) {
  run::LoadedRun run = run::load_run(invocation.text("RUN.toml"), invocation.texts("--set"));
  const auto tokenizer = data::make_tokenizer(run.node.data);
  if (tokenizer != nullptr) run::set_vocabulary(run.node, static_cast<int64_t>(tokenizer->vocabulary_size()));
  const data::Dataset dataset(run.node.data, tokenizer, static_cast<uint64_t>(run.node.model.vocabulary.get()),
                              static_cast<uint64_t>(run.node.train.seed), run::data_phases(run.node));
  const int64_t first = invocation.integer("--first");
  for (int64_t number = first; number < first + invocation.integer("--count"); ++number) {
    const data::SampleBatch sample = dataset.training_batch(static_cast<uint64_t>(number), 1);
    const data::SamplePlace place = dataset.order().at(static_cast<uint64_t>(number));
    if (invocation.json()) {
      const OrderedJson answer = {{"sample", number},
                                  {"source", dataset.source_names()[place.source]},
                                  {"epoch", place.epoch},
                                  {"index", place.index},
                                  {"tokens", sample.tokens},
                                  {"targets", sample.targets},
                                  {"positions", sample.positions},
                                  {"documents", sample.documents}};
      fmt::print("{}\n", dump_json(answer));
      continue;
    }
    fmt::print("sample {}, number {} of epoch {} of {}, {} targets\n", number, place.index, place.epoch,
               dataset.source_names()[place.source], sample.target_tokens);
    if (tokenizer != nullptr) {
      // Without the padding behind the last token that is predicted from.
      const auto last = std::find_if(sample.targets.rbegin(), sample.targets.rend(), [](int64_t t) { return t >= 0; });
      const std::vector<data::TokenId> ids(sample.tokens.begin(),
                                           sample.tokens.begin() + (sample.targets.rend() - last));
      fmt::print("{}\n\n", tokenizer->decode(ids));
    }
  }
  return ExitCode::kDone;
}

}  // namespace weft::app
