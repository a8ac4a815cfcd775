#include "data/token_store.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "base/check.h"
#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "data/megatron_store.h"

namespace weft::data {

namespace {

constexpr uint64_t kHashedWhole = uint64_t{64} << 20;
constexpr uint64_t kHashedPieces = 1024;

// The I-th value of an array whose address need not be a multiple of the value's size.
template <class Value>
Value load(std::span<const std::byte> bytes, uint64_t index) {
  Value value;
  std::memcpy(&value, bytes.data() + index * sizeof(Value), sizeof(Value));
  return value;
}

// Calls visit(a value of the type).
template <class Visit>
auto with_type(TokenType type, Visit visit) {
  switch (type) {
    case TokenType::kUint8:
      return visit(uint8_t{});
    case TokenType::kInt8:
      return visit(int8_t{});
    case TokenType::kInt16:
      return visit(int16_t{});
    case TokenType::kInt32:
      return visit(int32_t{});
    case TokenType::kInt64:
      return visit(int64_t{});
    case TokenType::kFloat64:
      return visit(double{});
    case TokenType::kFloat32:
      return visit(float{});
    case TokenType::kUint16:
      return visit(uint16_t{});
    case TokenType::kUint32:
      return visit(uint32_t{});
  }
  WEFT_CHECK(false);
}

// -1 for what is no token whatever the vocabulary.
template <class Value>
int64_t token_of(Value value) {
  if constexpr (std::is_floating_point_v<Value>) {
    if (!(value >= 0 && value <= static_cast<Value>(uint64_t{1} << 32)) || value != std::floor(value)) return -1;
  }
  return static_cast<int64_t>(value);
}

template <class Value>
std::function<uint64_t(uint64_t)> starts_of(const std::vector<Value>& starts) {
  if (starts.empty()) return nullptr;
  return [data = starts.data()](uint64_t document) { return data[document]; };
}

}  // namespace

size_t token_bytes(TokenType type) {
  return with_type(type, [](auto value) { return sizeof(value); });
}

template <class Value>
struct MemoryTokens {
  std::vector<Value> tokens;
  std::vector<uint64_t> document_starts;
};

template <class Value>
static std::shared_ptr<const MemoryTokens<Value>> memory_tokens(std::vector<Value> tokens,
                                                                std::vector<uint64_t> starts) {
  WEFT_CHECK(std::is_sorted(starts.begin(), starts.end()));
  WEFT_CHECK(starts.empty() || (starts.front() == 0 && starts.back() <= tokens.size()));
  return std::make_shared<MemoryTokens<Value>>(MemoryTokens<Value>{std::move(tokens), std::move(starts)});
}

TokenStore::TokenStore(std::string name, std::vector<uint16_t> tokens, std::vector<uint64_t> document_starts)
    : name_(std::move(name)), type_(TokenType::kUint16), size_(tokens.size()) {
  const auto memory = memory_tokens(std::move(tokens), std::move(document_starts));
  bytes_ = std::as_bytes(std::span(memory->tokens));
  document_count_ = memory->document_starts.size();
  document_start_ = starts_of(memory->document_starts);
  owner_ = memory;
}

TokenStore::TokenStore(std::string name, std::vector<uint32_t> tokens, std::vector<uint64_t> document_starts)
    : name_(std::move(name)), type_(TokenType::kUint32), size_(tokens.size()) {
  const auto memory = memory_tokens(std::move(tokens), std::move(document_starts));
  bytes_ = std::as_bytes(std::span(memory->tokens));
  document_count_ = memory->document_starts.size();
  document_start_ = starts_of(memory->document_starts);
  owner_ = memory;
}

TokenStore TokenStore::open(const std::filesystem::path& path) {
  auto index = path;
  if (path.extension() == ".bin" || path.extension() == ".idx") {
    index.replace_extension(".idx");
  } else {
    index += ".idx";
  }
  if (path.extension() == ".idx" || std::filesystem::exists(index)) return MegatronReader::open(index);
  if (path.extension() != ".bin") {
    throw InputError(
        fmt::format("{} is no token store: expected PREFIX.idx with PREFIX.bin, or a .bin file", path.string()));
  }
  return open_llm_c(path);
}

// Header of llm.c: 256 int32: magic, version, tokens, zeros.
TokenStore TokenStore::open_llm_c(const std::filesystem::path& path) {
  constexpr int32_t kTwoByteMagic = 20240520, kFourByteMagic = 20240801, kEvaluationMagic = 20240522;
  constexpr uint64_t kHeader = 1024;
  auto file = std::make_shared<MappedFile>(path);
  const int32_t magic = file->size() >= 4 ? load<int32_t>(file->bytes(), 0) : 0;
  if (magic == kEvaluationMagic) {
    throw InputError(fmt::format("{} holds llm.c's multiple-choice questions, not text to train on", path.string()));
  }
  if (magic != kTwoByteMagic && magic != kFourByteMagic) return open_bare(path);

  const auto header = file->at(0, kHeader, "the header of an llm.c file");
  const bool two_bytes = magic == kTwoByteMagic;
  const int32_t version = load<int32_t>(header, 1), expected_version = two_bytes ? 1 : 7,
                count = load<int32_t>(header, 2);
  if (version != expected_version) {
    throw InputError(fmt::format("{}: version {} of llm.c's format {}; weft reads version {}", path.string(), version,
                                 magic, expected_version));
  }
  TokenStore store;
  store.name_ = path.string();
  store.type_ = two_bytes ? TokenType::kUint16 : TokenType::kUint32;
  const uint64_t expected_size = kHeader + static_cast<uint64_t>(std::max(count, 0)) * token_bytes(store.type_);
  if (count < 0 || file->size() != expected_size) {
    throw InputError(fmt::format("{}: the header says {} tokens, which is {} bytes, but the file has {}", path.string(),
                                 count, expected_size, file->size()));
  }
  store.size_ = static_cast<uint64_t>(count);
  store.bytes_ = file->bytes().subspan(kHeader);
  store.owner_ = file;
  return store;
}

TokenStore TokenStore::open_bare(const std::filesystem::path& path) {
  auto file = std::make_shared<MappedFile>(path);
  if (file->size() % 2 != 0) {
    throw InputError(fmt::format(
        "{}: taken for bare 16-bit tokens (no .idx beside it, no magic number of llm.c), but its size of {} "
        "bytes is odd",
        path.string(), file->size()));
  }
  TokenStore store;
  store.name_ = path.string();
  store.size_ = file->size() / 2;
  store.bytes_ = file->bytes();
  store.owner_ = file;
  return store;
}

void TokenStore::read(uint64_t begin, std::span<int64_t> tokens, uint64_t vocabulary_size) const {
  WEFT_CHECK(begin <= size_ && tokens.size() <= size_ - begin);
  with_type(type_, [&](auto type) {
    using Value = decltype(type);
    for (size_t i = 0; i < tokens.size(); ++i) {
      const auto value = load<Value>(bytes_, begin + i);
      tokens[i] = token_of(value);
      if (static_cast<uint64_t>(tokens[i]) >= vocabulary_size) {
        throw InputError(fmt::format("{}: token {} is {}, but the vocabulary has the tokens 0 to {}", name_, begin + i,
                                     value, static_cast<int64_t>(vocabulary_size) - 1));
      }
    }
  });
}

int64_t TokenStore::token(uint64_t position) const {
  return with_type(type_, [&](auto type) { return token_of(load<decltype(type)>(bytes_, position)); });
}

uint64_t TokenStore::document_end(uint64_t position, uint64_t limit, std::optional<TokenId> end_of_text) const {
  WEFT_CHECK(position < limit && limit <= size_);
  if (document_start_ == nullptr) {
    for (uint64_t next = position; end_of_text && next + 1 < limit; ++next) {
      if (token(next) == int64_t{*end_of_text}) return next + 1;
    }
    return limit;
  }
  // The first document that starts above the position (documents may be empty).
  uint64_t low = 0, high = document_count_;
  while (low < high) {
    const uint64_t middle = low + (high - low) / 2;
    if (document_start_(middle) > position) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low < document_count_ ? std::min(limit, document_start_(low)) : limit;
}

uint64_t TokenStore::content_hash() const {
  StreamingHash hash;
  hash.update_number(static_cast<uint8_t>(type_));
  hash.update_number(size_);
  hash.update_number(document_count_);
  const uint64_t total = bytes_.size();
  if (total <= kHashedWhole) {
    hash.update(bytes_);
  } else {
    const uint64_t piece = kHashedWhole / kHashedPieces, stride = (total - piece) / (kHashedPieces - 1);
    for (uint64_t i = 0; i < kHashedPieces; ++i) {
      hash.update(bytes_.subspan(i + 1 == kHashedPieces ? total - piece : i * stride, piece));
    }
  }
  for (uint64_t i = 0, stride = document_count_ / 65536 + 1; i < document_count_; i += stride) {
    hash.update_number(document_start_(i));
  }
  return hash.digest();
}

}  // namespace weft::data
