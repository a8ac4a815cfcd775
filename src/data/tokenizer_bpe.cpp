#include "data/tokenizer_bpe.h"

#include <algorithm>

#include "base/file.h"
#include "base/hash.h"
#include "base/utf8.h"
#include "data/unicode.h"

namespace weft::data {

// The end of the chain of pre-tokenizers.
class BpeSink : public PieceSink {
 public:
  BpeSink(const BpeModel& model, std::vector<TokenId>& ids) : model_(model), ids_(ids) {}
  void take(const Piece& piece) override { model_.encode(piece.text, workspace_, ids_); }
  void token(TokenId id) { ids_.push_back(id); }

 private:
  const BpeModel& model_;
  std::vector<TokenId>& ids_;
  BpeWorkspace workspace_;
};

namespace {

class TextSink : public TokenSink {
 public:
  void take(const TokenPart& part) override { text += part.text; }
  void finish() override {}
  std::string text;
};

class BpeStreamDecoder : public StreamDecoder {
 public:
  BpeStreamDecoder(const BpeTokenizerParts& parts, bool skip_special_tokens)
      : parts_(parts), skip_special_tokens_(skip_special_tokens) {
    first_ = &text_;
    for (auto step = parts.decoder.rbegin(); step != parts.decoder.rend(); ++step) {
      steps_.push_back((*step)->open(*first_));
      first_ = steps_.back().get();
    }
  }

  std::string push(TokenId id) override {
    if (const AddedToken* token = parts_.added_tokens.find(id)) {
      if (!skip_special_tokens_ || !token->skipped) {
        first_->take({token->written});
      }
    } else if (parts_.model->vocabulary().contains(id)) {
      first_->take({parts_.model->vocabulary().text(id)});
    }
    return std::exchange(text_.text, {});
  }
  std::string finish() override {
    first_->finish();
    return std::exchange(text_.text, {});
  }

 private:
  const BpeTokenizerParts& parts_;
  bool skip_special_tokens_;
  TextSink text_;
  std::vector<std::unique_ptr<TokenSink>> steps_;  // the last first
  TokenSink* first_ = nullptr;
};

std::uint64_t fingerprint_of(const BpeTokenizerParts& parts) {
  StreamingHash hash;
  for (const TokenizerFile& file : parts.files) {
    hash.update_text(file.name);
    hash.update_text(file.content);
  }
  for (const std::optional<TokenId>& id : {parts.bos, parts.eos}) {
    hash.update_number(id ? std::int64_t{*id} : std::int64_t{-1});
  }
  return hash.digest();
}

}  // namespace

BpeTokenizer::BpeTokenizer(BpeTokenizerParts parts) : parts_(std::move(parts)) {
  vocabulary_size_ = parts_.model->vocabulary().size();
  for (const AddedToken& token : parts_.added_tokens.all()) {
    vocabulary_size_ = std::max(vocabulary_size_, std::size_t{token.id} + 1);
  }
  fingerprint_ = fingerprint_of(parts_);
}

void BpeTokenizer::encode(std::string_view text, SpecialTokens special_tokens, std::vector<TokenId>& ids) const {
  std::string repaired;
  if (!is_utf8(text)) {
    repaired = replace_invalid_utf8(text);
    text = repaired;
  }
  const bool add = special_tokens == SpecialTokens::Add;
  const bool match_special = special_tokens != SpecialTokens::Plain;
  if (add) {
    ids.insert(ids.end(), parts_.template_before.begin(), parts_.template_before.end());
  }
  BpeSink sink(*parts_.model, ids);
  parts_.added_tokens.split(
      text, false, match_special,
      [&](std::size_t begin, std::size_t end) {
        encode_text(text.substr(begin, end - begin), begin == 0, match_special, sink);
      },
      [&](TokenId id) { sink.token(id); });
  if (add) {
    ids.insert(ids.end(), parts_.template_behind.begin(), parts_.template_behind.end());
  }
}

void BpeTokenizer::encode_text(std::string_view text, bool at_start, bool match_special, BpeSink& sink) const {
  Piece piece{text};
  if (at_start) {
    std::size_t first = 0;
    next_code_point(text, first);
    piece.at_start = first;
  }
  NormalizedText normalized;
  if (parts_.normalizer != nullptr) {
    normalized = {std::string(text), piece.at_start};
    parts_.normalizer->apply(normalized);
    piece = {normalized.text, normalized.at_start};
  }
  const auto split = [&](std::size_t begin, std::size_t end) {
    const Piece part = piece.part(begin, end);
    if (parts_.pre_tokenizer != nullptr) {
      parts_.pre_tokenizer->split(part, sink);
    } else {
      sink.take(part);
    }
  };
  parts_.added_tokens.split(piece.text, true, match_special, split, [&](TokenId id) { sink.token(id); });
}

std::unique_ptr<StreamDecoder> BpeTokenizer::stream_decoder(bool skip_special_tokens) const {
  return std::make_unique<BpeStreamDecoder>(parts_, skip_special_tokens);
}

std::optional<TokenId> BpeTokenizer::token_id(std::string_view token) const {
  const auto added = parts_.added_tokens.find(token);
  return added ? added : parts_.model->vocabulary().find(token);
}

void BpeTokenizer::save(const std::filesystem::path& directory) const {
  for (const auto* files : {&parts_.files, &parts_.more_files}) {
    for (const TokenizerFile& file : *files) {
      write_file(directory / file.name, file.content);
    }
  }
}

}  // namespace weft::data
