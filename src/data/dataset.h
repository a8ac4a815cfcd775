// The data of a run: sources opened or tokenized, split, ordered, and served as rows of tokens.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/data_node.h"
#include "data/sample_order.h"
#include "data/token_stream.h"
#include "data/tokenizer.h"

namespace weft::data {

// The tokenizer that the node names: loaded, or made of the characters of all its text (validation files included);
// where none is named, the one beside the first store. Null if there is none. InputError says what is wrong.
[[nodiscard]] std::shared_ptr<const Tokenizer> make_tokenizer(const DataNode& node);

// What the training data is, by content: renamed or moved files change nothing.
struct DataFingerprint {
  struct Part {
    std::string name;     // as a message shows it: the source's entry or "validation"
    uint64_t tokens = 0;  // of the training part (validation's own for "validation")
    uint64_t hash = 0;
  };
  std::vector<Part> parts;
  uint64_t tokenizer = 0;
  // Of all of it; what a checkpoint keeps.
  [[nodiscard]] uint64_t hash() const;
  // For a message: a part a line.
  [[nodiscard]] std::string text() const;
};

// From a sample on: sequences of `context` tokens, from the sources in these weights (those of the node where empty).
struct DataPhase {
  uint64_t first_sample = 0;
  int64_t context = 1;
  std::vector<double> weights;
};

// Immutable once made; every member may be called from several threads.
class Dataset {
 public:
  // `tokenizer` may be null where all sources are stores. `vocabulary_size` is the model's: at least the tokenizer's,
  // and a larger token in a store is an InputError with file and position when it is read. Tokenizes text now, with all
  // cores and progress on standard error. `phases` by their first samples, the first at 0; none: the node's context and
  // weights throughout. InputError says what is wrong with which key or file.
  Dataset(const DataNode& node, std::shared_ptr<const Tokenizer> tokenizer, uint64_t vocabulary_size, uint64_t seed,
          std::vector<DataPhase> phases = {});

  // The training samples of the global numbers first .. first + count - 1 (see SampleOrder), all of one phase: tokens
  // [count, context]. A global batch of G sequences at step s is training_batch(s G, G); a micro-batch or a rank's part
  // is a part of that range.
  [[nodiscard]] SampleBatch training_batch(uint64_t first, int64_t count) const;
  // Their target tokens, without reading the tokens (with masked documents only where those are looked up).
  [[nodiscard]] int64_t training_targets(uint64_t first, int64_t count) const;
  [[nodiscard]] const SampleOrder& order() const { return *order_; }

  // The validation part as consecutive windows of context + 1 tokens, each overlapping the next by one, so that all
  // tokens but the first of each source's part are predicted once; the last window may be shorter (padded). None
  // without validation data.
  [[nodiscard]] int64_t validation_windows() const { return validation_windows_; }
  [[nodiscard]] SampleBatch validation_batch(int64_t first, int64_t count) const;

  [[nodiscard]] uint64_t training_tokens() const;
  [[nodiscard]] uint64_t validation_tokens() const;
  // Of one epoch of every source, in the first phase.
  [[nodiscard]] uint64_t training_windows() const;
  // As the configuration names them; one for all entries without weights.
  [[nodiscard]] const std::vector<std::string>& source_names() const { return source_names_; }
  [[nodiscard]] const DataFingerprint& fingerprint() const { return fingerprint_; }
  // "1,003,854 training tokens in 15,686 windows of 64, 111,540 tokens for validation".
  [[nodiscard]] std::string summary() const;

 private:
  [[nodiscard]] uint64_t window_offset(uint64_t source, uint64_t epoch) const;
  void add_source(const DataNode& node, const std::vector<std::string>& patterns, const Tokenizer* tokenizer,
                  uint64_t vocabulary_size);
  void add_validation_files(const DataNode& node, const std::vector<std::string>& patterns, const Tokenizer* tokenizer,
                            uint64_t vocabulary_size);

  uint64_t seed_;
  int64_t context_;                // of validation
  std::vector<DataPhase> phases_;  // at least one
  std::vector<std::string> source_names_;
  std::vector<std::unique_ptr<TokenStream>> streams_;  // where they are, Windows point to
  std::vector<std::vector<Windows>> training_;         // of each phase
  std::vector<Windows> validation_;
  int64_t validation_windows_ = 0;
  std::unique_ptr<SampleOrder> order_;
  DataFingerprint fingerprint_;
};

}  // namespace weft::data
