// Token ids on disk or in memory, and where documents begin among them. The three formats on disk are in
// docs/formats/token-stores.md.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/file_system.h"
#include "data/tokenizer.h"

namespace weft::data {

// The codes 1 to 8 are Megatron's.
enum class TokenType : uint8_t {
  kUint8 = 1,
  kInt8 = 2,
  kInt16 = 3,
  kInt32 = 4,
  kInt64 = 5,
  kFloat64 = 6,
  kFloat32 = 7,
  kUint16 = 8,
  kUint32 = 9,  // llm.c's second variant
};
[[nodiscard]] size_t token_bytes(TokenType type);

// Immutable; threads may share it. Copies share the tokens.
class TokenStore {
 public:
  // Tokens in memory and the places where documents start (ascending, the first 0 unless there are none).
  TokenStore(std::string name, std::vector<uint16_t> tokens, std::vector<uint64_t> document_starts);
  TokenStore(std::string name, std::vector<uint32_t> tokens, std::vector<uint64_t> document_starts);

  // `path` is a Megatron store (PREFIX.idx, PREFIX.bin or PREFIX), an llm.c file, or a file of bare uint16 as nanoGPT
  // writes: a .bin without an .idx beside it and without llm.c's magic number. Mapped, not read. InputError says what
  // is wrong with which file: missing, sizes that contradict each other, an unknown version or type.
  [[nodiscard]] static TokenStore open(const std::filesystem::path& path);

  // What messages call it: the path.
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] uint64_t size() const { return size_; }
  [[nodiscard]] TokenType type() const { return type_; }

  // Tokens begin, begin + 1, ... into `tokens`; the range must lie inside. InputError names file and position of a
  // value that is no whole number in 0 .. vocabulary_size - 1.
  void read(uint64_t begin, std::span<int64_t> tokens, uint64_t vocabulary_size) const;

  // Does the store itself say where documents start?
  [[nodiscard]] bool has_documents() const { return document_start_ != nullptr; }
  [[nodiscard]] uint64_t documents() const { return document_count_; }
  // The smallest document border above `position`, or `limit` if there is none below it: position < result <= limit <=
  // size(). A store that does not say where documents start has a border behind each token `end_of_text`.
  [[nodiscard]] uint64_t document_end(uint64_t position, uint64_t limit, std::optional<TokenId> end_of_text) const;

  // Changes when tokens or documents do. Reads everything of a store up to 64 MiB, of a larger one its size and 64 MiB
  // spread evenly over it.
  [[nodiscard]] uint64_t content_hash() const;

 private:
  TokenStore() = default;
  friend class MegatronReader;
  static TokenStore open_llm_c(const std::filesystem::path& path);
  static TokenStore open_bare(const std::filesystem::path& path);
  [[nodiscard]] int64_t token(uint64_t position) const;

  std::string name_;
  TokenType type_ = TokenType::kUint16;
  uint64_t size_ = 0;
  std::span<const std::byte> bytes_;   // of the tokens
  std::shared_ptr<const void> owner_;  // of the bytes and of what document_start_ reads
  uint64_t document_count_ = 0;
  std::function<uint64_t(uint64_t)> document_start_;  // of document 0 .. document_count_ - 1
};

// The type that Megatron chooses for a vocabulary: uint16 below 65,500 tokens, else int32.
[[nodiscard]] TokenType megatron_token_type(uint64_t vocabulary_size);

// Writes PREFIX.bin and PREFIX.idx aside, document by document; commit() puts them in their places, the .idx last.
// Without commit() nothing remains.
class MegatronWriter {
 public:
  MegatronWriter(const std::filesystem::path& prefix, TokenType type, FileSystem& file_system = FileSystem::real());
  MegatronWriter(const MegatronWriter&) = delete;
  MegatronWriter& operator=(const MegatronWriter&) = delete;
  ~MegatronWriter();

  // One document. Longer ones than a sequence can be (2^31 - 1 tokens) become several sequences of one document.
  void add(std::span<const TokenId> document);
  void commit();
  [[nodiscard]] uint64_t documents() const;
  [[nodiscard]] uint64_t tokens() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace weft::data
