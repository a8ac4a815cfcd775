// What a step's actions took on this rank, and the trace of all ranks (docs/formats/trace.md).
#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "base/trace.h"
#include "comm/communicator.h"
#include "execute/executor.h"

namespace weft::train {

// Times a step. Segments of one stage and micro-batch that follow each other are one event, with the traffic between
// them, so that a measured trace lies beside a predicted one.
class TraceRecorder : public execute::ActionObserver {
 public:
  // `world`: all ranks begin together.
  TraceRecorder(comm::Communicator& world, int role);
  void begin(size_t index, const schedule::Action& action) override;
  void end(size_t index, const schedule::Action& action) override;

  // Every rank calls it; rank 0 writes the events of all.
  void write(const std::filesystem::path& path, const std::string& title) const;

 private:
  [[nodiscard]] double now() const;

  comm::Communicator& world_;
  int role_;
  std::chrono::steady_clock::time_point start_;
  double begun_ = 0;
  schedule::Action last_;  // of the event at the back
  std::vector<TraceEvent> events_;
};

}  // namespace weft::train
