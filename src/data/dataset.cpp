#include "data/dataset.h"

#include <cmath>
#include <limits>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/check.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/progress.h"
#include "data/source_files.h"
#include "data/store_tokenizer.h"
#include "data/text_tokens.h"
#include "data/tokenizer_own.h"

namespace weft::data {

namespace {

namespace fs = std::filesystem;

std::vector<fs::path> find_all_files(const std::vector<std::string>& patterns) {
  std::vector<fs::path> files;
  for (const std::string& pattern : patterns) {
    const auto found = find_files(pattern);
    files.insert(files.end(), found.begin(), found.end());
  }
  return files;
}

const std::vector<std::string>* validation_files(const DataNode& node) {
  const auto* files = std::get_if<std::vector<std::string>>(&node.validation);
  return files != nullptr && !files->empty() ? files : nullptr;
}

bool must_be_utf8(const DataNode& node) { return node.tokenizer != "bytes"; }

DocumentBorders borders_of(const DataNode& node) {
  return node.documents == "mask" ? DocumentBorders::kMask : DocumentBorders::kJoin;
}

// Text files become one store in memory, two bytes a token where that is enough.
template <class Value>
TokenStore tokenize(const std::string& name, const std::vector<fs::path>& files, const Tokenizer& tokenizer,
                    const DataNode& node) {
  std::vector<Value> tokens;
  std::vector<uint64_t> starts;
  tokenize_documents(files, tokenizer, {.bos = node.bos, .utf8 = must_be_utf8(node)},
                     [&](std::span<const TokenId> document) {
                       starts.push_back(tokens.size());
                       for (const TokenId id : document) tokens.push_back(static_cast<Value>(id));
                     });
  tokens.shrink_to_fit();
  return TokenStore(name, std::move(tokens), std::move(starts));
}

TokenStore open_store(const fs::path& file, const Tokenizer* tokenizer) {
  const auto made_with = store_tokenizer_fingerprint(file);
  if (tokenizer != nullptr && made_with && *made_with != tokenizer->fingerprint()) {
    throw InputError(fmt::format("{} was made with another tokenizer than data.tokenizer: {} holds it", file.string(),
                                 store_tokenizer_folder(file).string()));
  }
  return TokenStore::open(file);
}

// The stores of the files in their order; neighbouring text files become one.
std::vector<TokenStore> open_stores(const std::vector<fs::path>& files, const Tokenizer* tokenizer,
                                    const DataNode& node) {
  std::vector<TokenStore> stores;
  for (size_t i = 0; i < files.size();) {
    if (file_kind(files[i]) == FileKind::kStore) {
      stores.push_back(open_store(files[i++], tokenizer));
      continue;
    }
    if (tokenizer == nullptr)
      throw InputError(fmt::format("data.tokenizer is not set, and {} is text", files[i].string()));
    std::vector<fs::path> texts;
    for (; i < files.size() && file_kind(files[i]) != FileKind::kStore; ++i) texts.push_back(files[i]);
    const std::string name =
        texts.size() == 1 ? texts[0].string() : fmt::format("{} and {} more", texts[0].string(), texts.size() - 1);
    const bool two_bytes = tokenizer->vocabulary_size() <= std::numeric_limits<uint16_t>::max() + size_t{1};
    stores.push_back(two_bytes ? tokenize<uint16_t>(name, texts, *tokenizer, node)
                               : tokenize<uint32_t>(name, texts, *tokenizer, node));
  }
  return stores;
}

uint64_t content_hash(const TokenStream& stream, uint64_t split) {
  StreamingHash hash;
  for (const TokenStore& store : stream.stores()) hash.update_number(store.content_hash());
  hash.update_number(split);
  return hash.digest();
}

}  // namespace

std::shared_ptr<const Tokenizer> make_tokenizer(const DataNode& node) {
  if (node.tokenizer && *node.tokenizer != "characters") return load_tokenizer(*node.tokenizer);
  auto files = find_all_files(node.sources);
  if (!node.tokenizer) {
    for (const fs::path& file : files) {
      if (file_kind(file) == FileKind::kStore && store_tokenizer_fingerprint(file)) {
        return load_tokenizer(store_tokenizer_folder(file).string());
      }
    }
    return nullptr;
  }
  if (const auto* held_out = validation_files(node)) {
    const auto more = find_all_files(*held_out);
    files.insert(files.end(), more.begin(), more.end());
  }
  for (const fs::path& file : files) {
    if (file_kind(file) == FileKind::kStore) {
      throw InputError(
          fmt::format("data.tokenizer = \"characters\" is made of text, but {} holds tokens", file.string()));
    }
  }
  CharacterVocabulary vocabulary;
  visit_documents(files, true, [&](std::string_view document) { vocabulary.add(document); });
  if (vocabulary.size() == 0)
    throw InputError(fmt::format("data.sources: there is no text in {}", fmt::join(node.sources, ", ")));
  return vocabulary.make_tokenizer();
}

uint64_t DataFingerprint::hash() const {
  StreamingHash hash;
  hash.update_number(tokenizer);
  for (const Part& part : parts) {
    hash.update_number(part.tokens);
    hash.update_number(part.hash);
  }
  return hash.digest();
}

std::string DataFingerprint::text() const {
  std::string lines = fmt::format("tokenizer {}\n", hash_text(tokenizer));
  for (const Part& part : parts)
    lines += fmt::format("{}: {} tokens, {}\n", part.name, grouped_text(part.tokens), hash_text(part.hash));
  return lines;
}

Dataset::Dataset(const DataNode& node, std::shared_ptr<const Tokenizer> tokenizer, uint64_t vocabulary_size,
                 uint64_t seed, std::vector<DataPhase> phases)
    : seed_(seed), context_(node.context), phases_(std::move(phases)) {
  if (phases_.empty()) phases_.push_back({0, context_, {}});
  training_.resize(phases_.size());
  if (node.sources.empty()) throw InputError("data.sources is empty: name files, globs or stores");
  if (!node.weights.empty() && node.weights.size() != node.sources.size()) {
    throw InputError(fmt::format("data.weights has {} numbers for {} entries of data.sources", node.weights.size(),
                                 node.sources.size()));
  }
  if (tokenizer != nullptr && tokenizer->vocabulary_size() > vocabulary_size) {
    throw InputError(fmt::format("the tokenizer has {} tokens, but the model's vocabulary only {}",
                                 tokenizer->vocabulary_size(), vocabulary_size));
  }
  if (node.weights.empty()) {
    add_source(node, node.sources, tokenizer.get(), vocabulary_size);
  } else {
    for (const std::string& source : node.sources) add_source(node, {source}, tokenizer.get(), vocabulary_size);
  }
  if (const auto* files = validation_files(node)) add_validation_files(node, *files, tokenizer.get(), vocabulary_size);
  fingerprint_.tokenizer = tokenizer != nullptr ? tokenizer->fingerprint() : 0;

  std::vector<OrderedPhase> ordered;
  for (size_t index = 0; index < phases_.size(); ++index) {
    const std::vector<double>& weights = phases_[index].weights.empty() ? node.weights : phases_[index].weights;
    OrderedPhase& phase = ordered.emplace_back(OrderedPhase{phases_[index].first_sample, {}});
    for (size_t i = 0; i < training_[index].size(); ++i) {
      phase.sources.push_back({training_[index][i].count(), weights.empty() ? 1.0 : weights.at(i)});
    }
  }
  order_ = std::make_unique<SampleOrder>(std::move(ordered), seed);
  for (const Windows& windows : validation_) validation_windows_ += static_cast<int64_t>(windows.count());
}

void Dataset::add_source(const DataNode& node, const std::vector<std::string>& patterns, const Tokenizer* tokenizer,
                         uint64_t vocabulary_size) {
  const auto end_of_text = tokenizer != nullptr ? tokenizer->eos_id() : std::nullopt;
  const std::string name = fmt::format("{}", fmt::join(patterns, ", "));
  auto stream = std::make_unique<TokenStream>(open_stores(find_all_files(patterns), tokenizer, node), vocabulary_size,
                                              end_of_text);
  const uint64_t tokens = stream->size();
  if (tokens == 0) throw InputError(fmt::format("data.sources: {} is empty", name));
  const auto* fraction = std::get_if<double>(&node.validation);
  const bool splits = fraction != nullptr && *fraction > 0;
  const uint64_t split = splits ? static_cast<uint64_t>((1 - *fraction) * static_cast<double>(tokens)) : tokens;
  if (split < 2 || (splits && tokens - split < 2)) {
    throw InputError(fmt::format(
        "data.sources: {} has {} tokens, of which {} are for training and {} for validation; each part needs "
        "at least 2{}",
        name, tokens, split, tokens - split, splits ? " (data.validation = 0 keeps all for training)" : ""));
  }
  for (size_t index = 0; index < phases_.size(); ++index) {
    training_[index].emplace_back(*stream, 0, split, phases_[index].context, borders_of(node));
  }
  if (splits) validation_.emplace_back(*stream, split, tokens, context_, borders_of(node));
  fingerprint_.parts.push_back({name, split, content_hash(*stream, split)});
  source_names_.push_back(name);
  streams_.push_back(std::move(stream));
}

void Dataset::add_validation_files(const DataNode& node, const std::vector<std::string>& patterns,
                                   const Tokenizer* tokenizer, uint64_t vocabulary_size) {
  const auto end_of_text = tokenizer != nullptr ? tokenizer->eos_id() : std::nullopt;
  auto stream = std::make_unique<TokenStream>(open_stores(find_all_files(patterns), tokenizer, node), vocabulary_size,
                                              end_of_text);
  if (stream->size() < 2) {
    throw InputError(fmt::format("data.validation: {} tokens in {}; at least 2 are needed", stream->size(),
                                 fmt::join(patterns, ", ")));
  }
  validation_.emplace_back(*stream, 0, stream->size(), context_, borders_of(node));
  fingerprint_.parts.push_back({"validation", stream->size(), content_hash(*stream, 0)});
  streams_.push_back(std::move(stream));
}

uint64_t Dataset::window_offset(uint64_t source, uint64_t epoch) const {
  const PhiloxBlock word = random_block(epoch_key(seed_, RandomPurpose::kWindowOffset, source, epoch), 0);
  __extension__ using Wide = unsigned __int128;
  return static_cast<uint64_t>(Wide{word[0] | uint64_t{word[1]} << 32} * training_[0][source].pairs() >> 64);
}

SampleBatch Dataset::training_batch(uint64_t first, int64_t count) const {
  const size_t phase = order_->phase_of(first);
  SampleBatch batch;
  batch.length = phases_[phase].context;
  for (uint64_t number = first; number < first + static_cast<uint64_t>(count); ++number) {
    WEFT_CHECK(order_->phase_of(number) == phase);
    const SamplePlace place = order_->at(number);
    training_[phase][place.source].append(place.window, window_offset(place.source, place.epoch),
                                          static_cast<int64_t>(number), batch);
  }
  return batch;
}

int64_t Dataset::training_targets(uint64_t first, int64_t count) const {
  int64_t targets = 0;
  for (uint64_t number = first; number < first + static_cast<uint64_t>(count); ++number) {
    const SamplePlace place = order_->at(number);
    const Windows& windows = training_[order_->phase_of(number)][place.source];
    targets += windows.target_tokens(place.window, window_offset(place.source, place.epoch));
  }
  return targets;
}

SampleBatch Dataset::validation_batch(int64_t first, int64_t count) const {
  WEFT_CHECK(first >= 0 && count >= 0 && first + count <= validation_windows_);
  SampleBatch batch;
  batch.length = context_;
  auto number = first;
  for (const Windows& windows : validation_) {
    const auto here = static_cast<int64_t>(windows.count());
    for (; number < here && batch.rows < count; ++number) {
      windows.append(static_cast<uint64_t>(number), 0, first + batch.rows, batch);
    }
    number = std::max<int64_t>(0, number - here);
  }
  return batch;
}

uint64_t Dataset::training_tokens() const {
  uint64_t tokens = 0;
  for (const Windows& windows : training_.front()) tokens += windows.pairs() + 1;
  return tokens;
}

uint64_t Dataset::validation_tokens() const {
  uint64_t tokens = 0;
  for (const Windows& windows : validation_) tokens += windows.pairs() + 1;
  return tokens;
}

uint64_t Dataset::training_windows() const {
  uint64_t count = 0;
  for (const Windows& windows : training_.front()) count += windows.count();
  return count;
}

std::string Dataset::summary() const {
  return fmt::format("{} training tokens in {} windows of {}, {} tokens for validation",
                     grouped_text(training_tokens()), grouped_text(training_windows()), phases_.front().context,
                     grouped_text(validation_tokens()));
}

}  // namespace weft::data
