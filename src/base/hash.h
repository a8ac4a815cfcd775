// Checksums and fingerprints: XXH64 and XXH3 (64 bits) of xxHash. Not cryptographic: they find damage and change, not
// malice.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

namespace weft {

[[nodiscard]] uint64_t xxh64(std::span<const std::byte> data, uint64_t seed = 0);
[[nodiscard]] uint64_t xxh64(std::string_view text, uint64_t seed = 0);
[[nodiscard]] uint64_t xxh3(std::span<const std::byte> data);
[[nodiscard]] uint64_t xxh3(std::string_view text);

// Sixteen lower-case hexadecimal digits, as files and messages show a hash, and back (InputError on anything else).
[[nodiscard]] std::string hash_text(uint64_t hash);
[[nodiscard]] uint64_t parse_hash(std::string_view text);

enum class HashKind { kXxh64, kXxh3 };

// The hash of all data given to update(), in order: equal to that of the data joined.
class StreamingHash {
 public:
  explicit StreamingHash(HashKind kind = HashKind::kXxh64);
  StreamingHash(StreamingHash&&) noexcept;
  StreamingHash& operator=(StreamingHash&&) noexcept;
  ~StreamingHash();

  void update(std::span<const std::byte> data);
  void update(std::string_view text);
  // A number as its little-endian bytes.
  template <class Number>
  requires std::is_arithmetic_v<Number>
  void update_number(Number number) { update(std::as_bytes(std::span(&number, 1))); }
  // Length and text, so that ("ab", "c") and ("a", "bc") differ.
  void update_text(std::string_view text) {
    update_number(static_cast<uint64_t>(text.size()));
    update(text);
  }
  // Of everything so far; more may follow.
  [[nodiscard]] uint64_t digest() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace weft
