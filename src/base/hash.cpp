#include "base/hash.h"

#include <charconv>
#include <xxhash.h>

#include <fmt/format.h>

#include "base/check.h"
#include "base/error.h"

namespace weft {

uint64_t xxh64(std::span<const std::byte> data, uint64_t seed) { return XXH64(data.data(), data.size(), seed); }
uint64_t xxh64(std::string_view text, uint64_t seed) { return XXH64(text.data(), text.size(), seed); }
uint64_t xxh3(std::span<const std::byte> data) { return XXH3_64bits(data.data(), data.size()); }
uint64_t xxh3(std::string_view text) { return XXH3_64bits(text.data(), text.size()); }

std::string hash_text(uint64_t hash) { return fmt::format("{:016x}", hash); }

uint64_t parse_hash(std::string_view text) {
  uint64_t hash = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), hash, 16);
  if (text.size() != 16 || error != std::errc() || end != text.data() + text.size() || hash_text(hash) != text) {
    throw InputError(fmt::format("expected a hash of 16 lower-case hexadecimal digits, found '{}'", text));
  }
  return hash;
}

struct StreamingHash::State {
  HashKind kind;
  XXH64_state_t* xxh64 = nullptr;
  XXH3_state_t* xxh3 = nullptr;  // wants an alignment of 64 bytes, which its own allocation has

  explicit State(HashKind kind_of_hash) : kind(kind_of_hash) {
    if (kind == HashKind::kXxh64) {
      xxh64 = XXH64_createState();
      WEFT_CHECK(xxh64 != nullptr);
      XXH64_reset(xxh64, 0);
    } else {
      xxh3 = XXH3_createState();
      WEFT_CHECK(xxh3 != nullptr);
      XXH3_64bits_reset(xxh3);
    }
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    XXH64_freeState(xxh64);
    XXH3_freeState(xxh3);
  }
};

StreamingHash::StreamingHash(HashKind kind) : state_(std::make_unique<State>(kind)) {}
StreamingHash::StreamingHash(StreamingHash&&) noexcept = default;
StreamingHash& StreamingHash::operator=(StreamingHash&&) noexcept = default;
StreamingHash::~StreamingHash() = default;

void StreamingHash::update(std::span<const std::byte> data) {
  if (data.empty()) return;
  if (state_->kind == HashKind::kXxh64) {
    XXH64_update(state_->xxh64, data.data(), data.size());
  } else {
    XXH3_64bits_update(state_->xxh3, data.data(), data.size());
  }
}

void StreamingHash::update(std::string_view text) { update(std::as_bytes(std::span(text))); }

uint64_t StreamingHash::digest() const {
  return state_->kind == HashKind::kXxh64 ? XXH64_digest(state_->xxh64) : XXH3_64bits_digest(state_->xxh3);
}

}  // namespace weft
