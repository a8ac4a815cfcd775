#include "data/decoder.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/utf8.h"
#include "data/tokenizer_regex.h"
#include "data/unicode.h"

namespace weft::data {
namespace {

constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";

// A step with the function that opens it.
template <typename Open>
class Step : public DecoderStep {
 public:
  explicit Step(Open open) : open_(std::move(open)) {}
  [[nodiscard]] std::unique_ptr<TokenSink> open(TokenSink& next) const override { return open_(next); }

 private:
  Open open_;
};

template <typename Open>
std::unique_ptr<DecoderStep> step(Open open) {
  return std::make_unique<Step<Open>>(std::move(open));
}

// A step that wants whole tokens: parts are gathered.
class WholeTokens : public TokenSink {
 public:
  explicit WholeTokens(TokenSink& next) : next_(next) {}

  void take(const TokenPart& part) final {
    if (part.starts && part.complete) {
      token(part.text);
      return;
    }
    gathered_ += part.text;
    if (part.complete) {
      token(std::exchange(gathered_, {}));
    }
  }
  void finish() final {
    end();
    next_.finish();
  }

 protected:
  virtual void token(std::string_view text) = 0;
  virtual void end() {}
  void pass(std::string_view text) { next_.take({text}); }
  TokenSink& next() { return next_; }

 private:
  TokenSink& next_;
  std::string gathered_;
};

class ByteLevel : public WholeTokens {
 public:
  using WholeTokens::WholeTokens;

 protected:
  void token(std::string_view text) override {
    const std::size_t before = bytes_.size();
    for (std::size_t position = 0; position < text.size();) {
      const int byte = alphabet_to_byte(next_code_point(text, position));
      if (byte < 0) {
        bytes_.resize(before);
        bytes_ += text;
        break;
      }
      bytes_ += static_cast<char>(byte);
    }
    const std::size_t certain = bytes_.size() - incomplete_utf8_suffix(bytes_);
    next().take({replace_invalid_utf8(std::string_view(bytes_).substr(0, certain)), !started_, false});
    bytes_.erase(0, certain);
    started_ = true;
  }
  void end() override {
    next().take({replace_invalid_utf8(bytes_), !started_, true});
    bytes_.clear();
    started_ = false;
  }

 private:
  std::string bytes_;
  bool started_ = false;
};

// The byte of a token "<0x2F>". Rust's parser, which `tokenizers` uses, takes a plus for the first digit.
std::optional<char> fallback_byte(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token.back() != '>') {
    return std::nullopt;
  }
  int value = 0;
  for (std::size_t i = 3; i < 5; ++i) {
    const char c = token[i];
    if (c == '+' && i == 3) {
      continue;
    }
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                             : -1;
    if (digit < 0) {
      return std::nullopt;
    }
    value = value * 16 + digit;
  }
  return static_cast<char>(value);
}

class ByteFallback : public WholeTokens {
 public:
  using WholeTokens::WholeTokens;

 protected:
  void token(std::string_view text) override {
    if (const auto byte = fallback_byte(text)) {
      bytes_ += *byte;
      return;
    }
    flush();
    pass(text);
  }
  void end() override { flush(); }

 private:
  void flush() {
    if (bytes_.empty()) {
      return;
    }
    if (is_utf8(bytes_)) {
      pass(bytes_);
    } else {
      for (std::size_t i = 0; i < bytes_.size(); ++i) {
        pass(kReplacementCharacter);
      }
    }
    bytes_.clear();
  }

  std::string bytes_;
};

class Replace : public WholeTokens {
 public:
  Replace(const TokenizerRegex& regex, const std::string& content, TokenSink& next)
      : WholeTokens(next), regex_(regex), content_(content) {}

 protected:
  void token(std::string_view text) override {
    std::string result;
    std::size_t position = 0;
    regex_.each_match(text, [&](std::size_t begin, std::size_t end) {
      result += text.substr(position, begin - position);
      result += content_;
      position = end;
    });
    result += text.substr(position);
    pass(result);
  }

 private:
  const TokenizerRegex& regex_;
  const std::string& content_;
};

class Metaspace : public WholeTokens {
 public:
  Metaspace(const std::string& replacement, bool drop_first, TokenSink& next)
      : WholeTokens(next), replacement_(replacement), drop_first_(drop_first) {}

 protected:
  void token(std::string_view text) override {
    std::string result;
    for (std::size_t position = 0; position < text.size();) {
      if (text.substr(position).starts_with(replacement_)) {
        result += first_ && drop_first_ ? "" : " ";
        position += replacement_.size();
      } else {
        result += text[position++];
      }
    }
    first_ = false;
    pass(result);
  }
  void end() override { first_ = true; }

 private:
  const std::string& replacement_;
  bool drop_first_;
  bool first_ = true;
};

class JoinWithSpaces : public WholeTokens {
 public:
  using WholeTokens::WholeTokens;

 protected:
  void token(std::string_view text) override {
    if (!first_) {
      pass(" ");
    }
    first_ = false;
    pass(text);
  }
  void end() override { first_ = true; }

 private:
  bool first_ = true;
};

class Fuse : public TokenSink {
 public:
  explicit Fuse(TokenSink& next) : next_(next) {}
  void take(const TokenPart& part) override {
    next_.take({part.text, !started_, false});
    started_ = true;
  }
  void finish() override {
    next_.take({{}, !started_, true});
    started_ = false;
    next_.finish();
  }

 private:
  TokenSink& next_;
  bool started_ = false;
};

// Works on parts: behind Fuse the token ends only with the text.
class Strip : public TokenSink {
 public:
  Strip(std::string content, std::size_t start, std::size_t stop, TokenSink& next)
      : content_(std::move(content)), start_(start), stop_(stop), next_(next) {}

  void take(const TokenPart& part) override {
    if (part.starts) {
      start_left_ = start_;
      held_ = 0;
    }
    std::string_view text = part.text;
    while (start_left_ > 0 && !text.empty()) {
      if (!text.starts_with(content_)) {
        start_left_ = 0;
        break;
      }
      text.remove_prefix(content_.size());
      --start_left_;
    }
    std::size_t trailing = 0;
    while (stop_ > 0 && text.ends_with(content_)) {
      text.remove_suffix(content_.size());
      ++trailing;
    }
    std::string result;
    if (!text.empty()) {
      append_held(held_, result);
      held_ = 0;
    }
    result += text;
    held_ += trailing;
    if (part.complete) {
      append_held(held_ - std::min(held_, stop_), result);
      held_ = 0;
    }
    next_.take({result, part.starts, part.complete});
  }
  void finish() override { next_.finish(); }

 private:
  void append_held(std::size_t count, std::string& result) const {
    for (std::size_t i = 0; i < count; ++i) {
      result += content_;
    }
  }

  std::string content_;
  std::size_t start_;
  std::size_t stop_;
  TokenSink& next_;
  std::size_t start_left_ = 0;
  std::size_t held_ = 0;  // characters `content` that may be the token's last
};

}  // namespace

std::unique_ptr<DecoderStep> decode_byte_level() {
  return step([](TokenSink& next) { return std::make_unique<ByteLevel>(next); });
}

std::unique_ptr<DecoderStep> decode_byte_fallback() {
  return step([](TokenSink& next) { return std::make_unique<ByteFallback>(next); });
}

std::unique_ptr<DecoderStep> decode_replace(std::string_view pattern, std::string content, std::string_view origin) {
  auto regex = std::make_shared<const TokenizerRegex>(pattern, origin);
  auto shared = std::make_shared<const std::string>(std::move(content));
  return step([regex, shared](TokenSink& next) { return std::make_unique<Replace>(*regex, *shared, next); });
}

std::unique_ptr<DecoderStep> decode_strip(char32_t content, std::size_t start, std::size_t stop) {
  std::string text;
  append_utf8(content, text);
  return step([text, start, stop](TokenSink& next) { return std::make_unique<Strip>(text, start, stop, next); });
}

std::unique_ptr<DecoderStep> decode_fuse() {
  return step([](TokenSink& next) { return std::make_unique<Fuse>(next); });
}

std::unique_ptr<DecoderStep> decode_metaspace(std::string replacement, bool drop_first) {
  auto shared = std::make_shared<const std::string>(std::move(replacement));
  return step([shared, drop_first](TokenSink& next) { return std::make_unique<Metaspace>(*shared, drop_first, next); });
}

std::unique_ptr<DecoderStep> decode_join_with_spaces() {
  return step([](TokenSink& next) { return std::make_unique<JoinWithSpaces>(next); });
}

}  // namespace weft::data
