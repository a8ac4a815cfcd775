#include "data/megatron_store.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include <fmt/format.h>

#include "base/check.h"
#include "base/error.h"
#include "base/file.h"

namespace weft::data {

namespace {

// The .idx: magic, u64 version, u8 type, u64 sequences S, u64 document indices D, int32 length[S], int64 byte
// pointer[S], int64 document index[D], perhaps int8 mode[S]. The arrays lie at odd addresses.
constexpr char kMagic[] = "MMIDIDX\0";  // nine bytes with the final zero
constexpr uint64_t kMagicBytes = 9;
constexpr uint64_t kVersion = 1;
constexpr uint64_t kHeader = kMagicBytes + 8 + 1 + 8 + 8;

template <class Value>
Value load(std::span<const std::byte> bytes, uint64_t index) {
  Value value;
  std::memcpy(&value, bytes.data() + index * sizeof(Value), sizeof(Value));
  return value;
}

struct Index {
  explicit Index(const std::filesystem::path& path) : file(path) {}

  MappedFile file;
  TokenType type = TokenType::kInt32;
  uint64_t sequences = 0, document_indices = 0;
  std::span<const std::byte> lengths, pointers, documents;

  [[noreturn]] void fail(const std::string& what) const {
    throw InputError(fmt::format("{}: {}", file.path().string(), what));
  }

  void read_header() {
    const auto header = file.at(0, kHeader, "the header of a Megatron index");
    if (std::memcmp(header.data(), kMagic, kMagicBytes) != 0)
      fail("not a Megatron index: it does not start with MMIDIDX");
    const auto version = load<uint64_t>(header.subspan(kMagicBytes), 0);
    if (version != kVersion) fail(fmt::format("version {} of the format; weft reads version {}", version, kVersion));
    const auto code = load<uint8_t>(header.subspan(kMagicBytes + 8), 0);
    if (code < 1 || code > 8) fail(fmt::format("unknown token type {}; the known ones are 1 to 8", code));
    type = static_cast<TokenType>(code);
    const auto counts = header.subspan(kMagicBytes + 9);
    sequences = load<uint64_t>(counts, 0);
    document_indices = load<uint64_t>(counts, 1);
    // Bounds each count by the file's size first, so that no product below overflows.
    const uint64_t size = file.size();
    const bool possible = sequences <= size / 12 && document_indices <= size / 8;
    const uint64_t without_modes = possible ? kHeader + sequences * 12 + document_indices * 8 : 0;
    if (!possible || (size != without_modes && size != without_modes + sequences)) {
      fail(fmt::format("{} sequences and {} document indices do not make a file of {} bytes", sequences,
                       document_indices, size));
    }
    lengths = file.bytes().subspan(kHeader, sequences * 4);
    pointers = file.bytes().subspan(kHeader + sequences * 4, sequences * 8);
    documents = file.bytes().subspan(kHeader + sequences * 12, document_indices * 8);
  }

  // Returns the number of tokens.
  [[nodiscard]] uint64_t check_sequences() const {
    const uint64_t width = token_bytes(type);
    uint64_t tokens = 0;
    for (uint64_t i = 0; i < sequences; ++i) {
      const auto length = load<int32_t>(lengths, i);
      const auto pointer = load<int64_t>(pointers, i);
      if (length < 0) fail(fmt::format("sequence {} has the length {}", i, length));
      if (pointer < 0 || static_cast<uint64_t>(pointer) != tokens * width) {
        fail(fmt::format("sequence {} is at byte {}, but the ones before it end at {}", i, pointer, tokens * width));
      }
      tokens += static_cast<uint64_t>(length);
    }
    return tokens;
  }

  void check_documents() const {
    int64_t before = 0;
    for (uint64_t i = 0; i < document_indices; ++i) {
      const auto sequence = load<int64_t>(documents, i);
      if (i == 0 && sequence != 0)
        fail(fmt::format("the first document starts with sequence {}, not with 0", sequence));
      if (sequence < before || static_cast<uint64_t>(sequence) > sequences) {
        fail(fmt::format("document index {} is {}, outside of {} .. {}", i, sequence, before, sequences));
      }
      before = sequence;
    }
    if (document_indices > 0 && static_cast<uint64_t>(before) != sequences) {
      fail(fmt::format("the documents end with sequence {}, but there are {}", before, sequences));
    }
  }

  [[nodiscard]] uint64_t document_start(uint64_t document, uint64_t tokens) const {
    const auto sequence = static_cast<uint64_t>(load<int64_t>(documents, document));
    return sequence < sequences ? static_cast<uint64_t>(load<int64_t>(pointers, sequence)) / token_bytes(type) : tokens;
  }
};

struct OpenStore {
  Index index;
  MappedFile tokens;
};

}  // namespace

TokenStore MegatronReader::open(const std::filesystem::path& path) {
  auto bin = path;
  bin.replace_extension(".bin");
  auto opened = std::make_shared<OpenStore>(OpenStore{Index(path), MappedFile(bin)});
  Index& index = opened->index;
  index.read_header();
  const uint64_t tokens = index.check_sequences(), width = token_bytes(index.type);
  index.check_documents();
  if (opened->tokens.size() != tokens * width) {
    throw InputError(fmt::format("{}: {} says {} tokens of {} bytes, which is {} bytes, but the file has {}",
                                 bin.string(), path.filename().string(), tokens, width, tokens * width,
                                 opened->tokens.size()));
  }
  TokenStore store;
  store.name_ = bin.string();
  store.type_ = index.type;
  store.size_ = tokens;
  store.bytes_ = opened->tokens.bytes();
  // The last document index only says where the last document ends.
  if (index.document_indices > 1) {
    store.document_count_ = index.document_indices - 1;
    store.document_start_ = [&index, tokens](uint64_t document) { return index.document_start(document, tokens); };
  }
  store.owner_ = std::move(opened);
  return store;
}

TokenType megatron_token_type(uint64_t vocabulary_size) {
  return vocabulary_size < 65500 ? TokenType::kUint16 : TokenType::kInt32;
}

struct MegatronWriter::State {
  State(const std::filesystem::path& prefix, TokenType token_type, FileSystem& file_system)
      : type(token_type),
        bin(with_extension(prefix, ".bin"), file_system),
        idx(with_extension(prefix, ".idx"), file_system) {}

  static std::filesystem::path with_extension(std::filesystem::path prefix, const char* extension) {
    prefix += extension;
    return prefix;
  }

  void flush() {
    bin.write(std::span<const std::byte>(buffer));
    buffer.clear();
  }

  template <class Value>
  void append(std::span<const TokenId> ids) {
    for (const TokenId id : ids) {
      WEFT_CHECK(id <= static_cast<uint64_t>(std::numeric_limits<Value>::max()));
      const auto value = static_cast<Value>(id);
      const auto* bytes = reinterpret_cast<const std::byte*>(&value);
      buffer.insert(buffer.end(), bytes, bytes + sizeof(Value));
      if (buffer.size() >= kBuffer) flush();
    }
  }

  static constexpr size_t kBuffer = size_t{4} << 20;
  TokenType type;
  AtomicFile bin, idx;
  std::vector<std::byte> buffer;
  std::vector<int32_t> lengths;
  std::vector<int64_t> documents = {0};
  uint64_t tokens = 0;
};

MegatronWriter::MegatronWriter(const std::filesystem::path& prefix, TokenType type, FileSystem& file_system)
    : state_(std::make_unique<State>(prefix, type, file_system)) {
  WEFT_CHECK(type == TokenType::kUint16 || type == TokenType::kInt32);
}
MegatronWriter::~MegatronWriter() = default;
uint64_t MegatronWriter::documents() const { return state_->documents.size() - 1; }
uint64_t MegatronWriter::tokens() const { return state_->tokens; }

void MegatronWriter::add(std::span<const TokenId> document) {
  constexpr size_t kLongest = std::numeric_limits<int32_t>::max();
  if (state_->type == TokenType::kUint16) {
    state_->append<uint16_t>(document);
  } else {
    state_->append<int32_t>(document);
  }
  state_->tokens += document.size();
  size_t rest = document.size();
  do {
    const size_t length = std::min(rest, kLongest);
    state_->lengths.push_back(static_cast<int32_t>(length));
    rest -= length;
  } while (rest > 0);
  state_->documents.push_back(static_cast<int64_t>(state_->lengths.size()));
}

void MegatronWriter::commit() {
  State& state = *state_;
  state.flush();
  std::vector<int64_t> pointers;
  int64_t pointer = 0;
  for (const int32_t length : state.lengths) {
    pointers.push_back(pointer);
    pointer += int64_t{length} * static_cast<int64_t>(token_bytes(state.type));
  }
  std::string header(kMagic, kMagicBytes);
  const auto append = [&](auto value) { header.append(reinterpret_cast<const char*>(&value), sizeof(value)); };
  append(kVersion);
  append(static_cast<uint8_t>(state.type));
  append(uint64_t{state.lengths.size()});
  append(uint64_t{state.documents.size()});
  state.idx.write(header);
  state.idx.write(std::as_bytes(std::span(state.lengths)));
  state.idx.write(std::as_bytes(std::span(pointers)));
  state.idx.write(std::as_bytes(std::span(state.documents)));
  state.bin.commit();
  state.idx.commit();
}

}  // namespace weft::data
