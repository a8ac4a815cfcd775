#include "train/run_data.h"

#include "run/load.h"
#include "run/timetable.h"

namespace weft::train {

RunData open_data(run::RunNode& run) {
  RunData opened;
  opened.tokenizer = data::make_tokenizer(run.data);
  if (opened.tokenizer != nullptr) {
    run::set_vocabulary(run, static_cast<int64_t>(opened.tokenizer->vocabulary_size()));
  }
  opened.dataset =
      std::make_shared<data::Dataset>(run.data, opened.tokenizer, static_cast<uint64_t>(run.model.vocabulary.get()),
                                      static_cast<uint64_t>(run.train.seed), run::data_phases(run));
  return opened;
}

}  // namespace weft::train
