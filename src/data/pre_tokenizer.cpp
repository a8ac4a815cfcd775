#include "data/pre_tokenizer.h"

#include "data/pre_tokenizer_splitters.h"
#include "data/unicode.h"

namespace weft::data {
namespace {

// Passes on the parts of one piece as a behaviour says. Parts come from left to right and cover the piece.
class PartWriter {
 public:
  PartWriter(const Piece& piece, SplitBehavior behavior, bool invert, PieceSink& sink)
      : piece_(piece), behavior_(behavior), invert_(invert), sink_(sink) {}

  void match(std::size_t begin, std::size_t end) {
    gap(begin);
    add(begin, end, !invert_);
    position_ = end;
  }
  void finish() {
    gap(piece_.text.size());
    emit();
  }

 private:
  void gap(std::size_t end) {
    if (end > position_) {
      add(position_, end, invert_);
    }
  }

  void add(std::size_t begin, std::size_t end, bool is_match) {
    const bool joins =
        has_pending_ && ((behavior_ == SplitBehavior::Contiguous && is_match == pending_match_) ||
                         (behavior_ == SplitBehavior::MergedWithPrevious && is_match && !pending_match_) ||
                         (behavior_ == SplitBehavior::MergedWithNext && !is_match && pending_match_));
    if (!joins) {
      emit();
      begin_ = begin;
    }
    end_ = end;
    has_pending_ = true;
    pending_match_ = is_match;
  }

  void emit() {
    const bool removed = behavior_ == SplitBehavior::Removed && pending_match_;
    if (has_pending_ && end_ > begin_ && !removed) {
      sink_.take(piece_.part(begin_, end_));
    }
    has_pending_ = false;
  }

  const Piece& piece_;
  SplitBehavior behavior_;
  bool invert_;
  PieceSink& sink_;
  std::size_t position_ = 0;
  bool has_pending_ = false;
  bool pending_match_ = false;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
};

class SplitByPattern : public PreTokenizer {
 public:
  SplitByPattern(std::unique_ptr<TextSplitter> splitter, SplitBehavior behavior, bool invert)
      : splitter_(std::move(splitter)), behavior_(behavior), invert_(invert) {}

  void split(const Piece& piece, PieceSink& sink) const override {
    PartWriter writer(piece, behavior_, invert_, sink);
    splitter_->each_match(piece.text, [&](std::size_t begin, std::size_t end) { writer.match(begin, end); });
    writer.finish();
  }

 private:
  std::unique_ptr<TextSplitter> splitter_;
  SplitBehavior behavior_;
  bool invert_;
};

// Splits at every single character that a predicate accepts.
class SplitByCharacter : public PreTokenizer {
 public:
  SplitByCharacter(bool (*matches)(char32_t), SplitBehavior behavior) : matches_(matches), behavior_(behavior) {}

  void split(const Piece& piece, PieceSink& sink) const override {
    PartWriter writer(piece, behavior_, false, sink);
    for (std::size_t position = 0; position < piece.text.size();) {
      const std::size_t begin = position;
      if (matches_(next_code_point(piece.text, position))) {
        writer.match(begin, position);
      }
    }
    writer.finish();
  }

 private:
  bool (*matches_)(char32_t);
  SplitBehavior behavior_;
};

bool is_space(char32_t c) { return has_category(c, kSpace); }

// Whitespace: the matches of \w+|[^\w\s]+ in Rust's regex.
class WordsAndSymbols : public PreTokenizer {
 public:
  void split(const Piece& piece, PieceSink& sink) const override {
    enum class Kind { Space, Word, Symbol };
    Kind run = Kind::Space;
    std::size_t begin = 0;
    for (std::size_t position = 0; position < piece.text.size();) {
      const std::size_t here = position;
      const char32_t c = next_code_point(piece.text, position);
      const Kind kind = is_word_in_rust(c) ? Kind::Word : is_space(c) ? Kind::Space : Kind::Symbol;
      if (kind != run) {
        if (run != Kind::Space) {
          sink.take(piece.part(begin, here));
        }
        begin = here;
        run = kind;
      }
    }
    if (run != Kind::Space) {
      sink.take(piece.part(begin, piece.text.size()));
    }
  }
};

class Metaspace : public PreTokenizer {
 public:
  Metaspace(std::string replacement, PrependScheme scheme, bool split)
      : replacement_(std::move(replacement)), scheme_(scheme), split_(split) {}

  void split(const Piece& piece, PieceSink& sink) const override {
    std::string text;
    std::size_t at_start = 0;
    for (std::size_t i = 0; i < piece.text.size(); ++i) {
      if (i == piece.at_start) {
        at_start = text.size();
      }
      if (piece.text[i] == ' ') {
        text += replacement_;
      } else {
        text += piece.text[i];
      }
    }
    if (piece.at_start >= piece.text.size()) {
      at_start = text.size();
    }
    const bool wanted = scheme_ == PrependScheme::Always || (scheme_ == PrependScheme::First && piece.at_start > 0);
    if (wanted && !text.starts_with(replacement_)) {
      text.insert(0, replacement_);
      at_start += at_start > 0 ? replacement_.size() : 0;
    }
    const Piece whole{text, at_start};
    if (!split_) {
      sink.take(whole);
      return;
    }
    PartWriter writer(whole, SplitBehavior::MergedWithNext, false, sink);
    for (std::size_t found = text.find(replacement_); found != std::string::npos;
         found = text.find(replacement_, found + replacement_.size())) {
      writer.match(found, found + replacement_.size());
    }
    writer.finish();
  }

 private:
  std::string replacement_;
  PrependScheme scheme_;
  bool split_;
};

class ByteLevel : public PreTokenizer {
 public:
  ByteLevel(bool add_prefix_space, bool use_regex, bool to_alphabet)
      : add_prefix_space_(add_prefix_space), to_alphabet_(to_alphabet) {
    if (use_regex) {
      splitter_ = make_splitter(kGpt2Pattern, "the ByteLevel pre-tokenizer");
    }
  }

  void split(const Piece& piece, PieceSink& sink) const override {
    if (add_prefix_space_ && !piece.text.starts_with(' ')) {
      const std::string text = " " + std::string(piece.text);
      split_parts({text, piece.at_start > 0 ? piece.at_start + 1 : 0}, sink);
    } else {
      split_parts(piece, sink);
    }
  }

 private:
  void split_parts(const Piece& piece, PieceSink& sink) const {
    if (splitter_ == nullptr) {
      pass(piece, sink);
      return;
    }
    std::size_t position = 0;
    splitter_->each_match(piece.text, [&](std::size_t begin, std::size_t end) {
      if (begin > position) {
        pass(piece.part(position, begin), sink);
      }
      pass(piece.part(begin, end), sink);
      position = end;
    });
    if (position < piece.text.size()) {
      pass(piece.part(position, piece.text.size()), sink);
    }
  }

  void pass(const Piece& piece, PieceSink& sink) const {
    if (!to_alphabet_) {
      sink.take(piece);
      return;
    }
    std::string text;
    std::size_t at_start = 0;
    for (std::size_t i = 0; i < piece.text.size(); ++i) {
      append_utf8(byte_to_alphabet(static_cast<unsigned char>(piece.text[i])), text);
      if (i < piece.at_start) {
        at_start = text.size();
      }
    }
    sink.take({text, at_start});
  }

  bool add_prefix_space_;
  bool to_alphabet_;
  std::unique_ptr<TextSplitter> splitter_;
};

class Chain : public PreTokenizer {
 public:
  explicit Chain(std::vector<std::unique_ptr<PreTokenizer>> stages) : stages_(std::move(stages)) {}

  void split(const Piece& piece, PieceSink& sink) const override { Next(stages_, 0, sink).take(piece); }

 private:
  class Next : public PieceSink {
   public:
    Next(const std::vector<std::unique_ptr<PreTokenizer>>& stages, std::size_t stage, PieceSink& last)
        : stages_(stages), stage_(stage), last_(last) {}
    void take(const Piece& piece) override {
      if (stage_ == stages_.size()) {
        last_.take(piece);
      } else if (stage_ + 1 == stages_.size()) {
        stages_[stage_]->split(piece, last_);
      } else {
        Next next(stages_, stage_ + 1, last_);
        stages_[stage_]->split(piece, next);
      }
    }

   private:
    const std::vector<std::unique_ptr<PreTokenizer>>& stages_;
    std::size_t stage_;
    PieceSink& last_;
  };

  std::vector<std::unique_ptr<PreTokenizer>> stages_;
};

}  // namespace

std::unique_ptr<PreTokenizer> split_by_pattern(std::string_view pattern, SplitBehavior behavior, bool invert,
                                               std::string_view origin) {
  return std::make_unique<SplitByPattern>(make_splitter(pattern, origin), behavior, invert);
}

std::unique_ptr<PreTokenizer> split_digits(bool individual) {
  return std::make_unique<SplitByCharacter>(is_numeric,
                                            individual ? SplitBehavior::Isolated : SplitBehavior::Contiguous);
}

std::unique_ptr<PreTokenizer> split_punctuation(SplitBehavior behavior) {
  return std::make_unique<SplitByCharacter>(is_punctuation, behavior);
}

std::unique_ptr<PreTokenizer> split_words_and_symbols() { return std::make_unique<WordsAndSymbols>(); }

std::unique_ptr<PreTokenizer> split_at_whitespace() {
  return std::make_unique<SplitByCharacter>(is_space, SplitBehavior::Removed);
}

std::unique_ptr<PreTokenizer> metaspace(std::string replacement, PrependScheme scheme, bool split) {
  return std::make_unique<Metaspace>(std::move(replacement), scheme, split);
}

std::unique_ptr<PreTokenizer> byte_level(bool add_prefix_space, bool use_regex, bool to_alphabet) {
  return std::make_unique<ByteLevel>(add_prefix_space, use_regex, to_alphabet);
}

std::unique_ptr<PreTokenizer> chain(std::vector<std::unique_ptr<PreTokenizer>> stages) {
  return std::make_unique<Chain>(std::move(stages));
}

}  // namespace weft::data
