// What a run is, said before it starts: every setting with its meaning and origin, and every parameter.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json_fwd.h"
#include "model/description.h"
#include "run/load.h"

namespace weft::app {

struct Explanation {
  run::LoadedRun run;  // the description points into it
  std::optional<model::ModelDescription> description;
  std::string unknown;  // why there is no description: the vocabulary follows from data that is not there
};

// Describes the model, with the tokenizer's vocabulary where the run file gives none (the text is read for it where the
// tokenizer is made of its characters). Throws InputError for a model that contradicts itself.
void describe(Explanation& explanation);

// The optimizer group of a parameter: "decay", "no_decay" or "frozen".
[[nodiscard]] std::string_view optimizer_group(const run::RunNode& run, const model::ParameterDescription& parameter);

// What [optimizer] and the parametrisation make of a parameter, at the rate that the phases multiply. All 0 where it is
// frozen.
struct Update {
  double rate = 0;
  double epsilon = 0;
  double decay = 0;  // share lost a step at this rate
  double size = 0;   // expected root mean square of a step's change, decay aside (docs/parametrisation.md)
};
// One a parameter.
[[nodiscard]] std::vector<Update> updates(const run::RunNode& run, const model::ModelDescription& description);

// "normal 0.02", "zeros", "ones".
[[nodiscard]] std::string initializer_text(const model::Initializer& initializer);

// Tokens of all phases before the decay, warm-up included.
[[nodiscard]] int64_t stable_tokens(const run::RunNode& run);

// For people: a line a field, by section; a line a phase; a line a parameter; the totals.
[[nodiscard]] std::string fields_text(const run::LoadedRun& run, bool colour);
[[nodiscard]] std::string phases_text(const run::RunNode& run);
[[nodiscard]] std::string parameters_text(const run::RunNode& run, const model::ModelDescription& description);
[[nodiscard]] std::string totals_text(const Explanation& explanation);

// For programs; the keys are in docs/commands.md. `table` holds the parameters where asked for.
enum class Table { kWithout, kWith };
[[nodiscard]] OrderedJson explanation_json(const Explanation& explanation, Table table);

}  // namespace weft::app
