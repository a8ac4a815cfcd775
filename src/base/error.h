// How weft says that something went wrong. A message names what was wrong, where (file, key path, tensor, rank) and what
// would be right; the type decides the exit code of the program.
#pragma once

#include <stdexcept>
#include <string>

namespace weft {

// Exit codes of every weft program.
enum class ExitCode : int {
  kDone = 0,
  kFailed = 1,       // the program or the machine failed
  kInput = 2,        // what the user gave is wrong
  kInterrupted = 3,  // stopped by a signal, state saved
};

// A failure that is not the user's mistake: a full disk, a lost peer, a loss that is not a number.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
  [[nodiscard]] virtual ExitCode exit_code() const { return ExitCode::kFailed; }
};

// The user's input is wrong: a run file, a checkpoint, a tokenizer, an argument.
class InputError : public Error {
 public:
  using Error::Error;
  [[nodiscard]] ExitCode exit_code() const override { return ExitCode::kInput; }
};

// The run was asked to stop and has saved its state.
class Interrupted : public Error {
 public:
  using Error::Error;
  [[nodiscard]] ExitCode exit_code() const override { return ExitCode::kInterrupted; }
};

}  // namespace weft
