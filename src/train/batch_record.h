// Which text each step learnt from: batches.jsonl, for finding what made a loss jump and for repeating a run elsewhere.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "data/token_stream.h"
#include "train/line_log.h"

namespace weft::train {

class BatchRecord {
 public:
  // Continues the file behind `done` steps.
  BatchRecord(const std::filesystem::path& path, int64_t done) : lines_(path, done) {}

  // A line: step (from 1), sample_ids, tokens and targets, a row a sequence of the global batch.
  void add(int64_t step, const std::vector<data::SampleBatch>& batches);

 private:
  LineLog lines_;
};

}  // namespace weft::train
