#include "train/tensorboard.h"

#include <array>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <unistd.h>

#include <fmt/format.h>

#include "base/error.h"

namespace weft::train {
namespace {

constexpr std::array<uint32_t, 256> crc_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t remainder = byte;
    for (int bit = 0; bit < 8; ++bit) remainder = (remainder >> 1) ^ ((remainder & 1) ? 0x82F63B78u : 0u);
    table[byte] = remainder;
  }
  return table;
}
constexpr std::array<uint32_t, 256> kCrcTable = crc_table();

// Lengths and sums are stored masked, since a sum over bytes that hold their own sum is weak.
uint32_t masked_crc32c(std::string_view bytes) { return std::rotr(crc32c(bytes), 15) + 0xa282ead8u; }

template <class Number>
std::string little_endian(Number number) {
  std::string bytes(sizeof(number), '\0');
  std::memcpy(bytes.data(), &number, sizeof(number));
  return bytes;
}

// The wire format of protocol buffers: a key is the field's number and its wire type.
enum WireType : uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

std::string varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>((value & 0x7f) | 0x80);
  bytes += static_cast<char>(value);
  return bytes;
}

std::string key(int field, WireType type) { return varint(static_cast<uint64_t>(field) << 3 | type); }

std::string bytes_field(int field, std::string_view bytes) {
  return key(field, kBytes) + varint(bytes.size()) + std::string(bytes);
}

std::string wall_time_field() {
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  return key(1, kFixed64) + little_endian(now.count());
}

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  uint32_t sum = ~0u;
  for (const char byte : bytes) sum = (sum >> 8) ^ kCrcTable[(sum ^ static_cast<uint8_t>(byte)) & 0xff];
  return ~sum;
}

struct TensorBoardWriter::File {
  std::string path;
  std::FILE* stream = nullptr;
  ~File() {
    if (stream != nullptr) std::fclose(stream);
  }
};

TensorBoardWriter::TensorBoardWriter(const std::string& directory) : file_(std::make_unique<File>()) {
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) != 0) std::strcpy(host.data(), "localhost");
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const int64_t seconds = std::chrono::duration_cast<std::chrono::seconds>(now).count();
  // Two writers of one process in one second must not share a file.
  const int64_t micros = std::chrono::duration_cast<std::chrono::microseconds>(now).count() % 1'000'000;
  file_->path =
      fmt::format("{}/events.out.tfevents.{:010}.{}.{}.{}", directory, seconds, host.data(), getpid(), micros);
  file_->stream = std::fopen(file_->path.c_str(), "wbx");
  if (file_->stream == nullptr)
    throw Error(fmt::format("{}: cannot be written: {}", file_->path, std::strerror(errno)));
  record(wall_time_field() + bytes_field(3, "brain.Event:2"));
  flush();
}

TensorBoardWriter::~TensorBoardWriter() = default;

void TensorBoardWriter::scalar(std::string_view tag, int64_t step, float value) {
  const std::string entry = bytes_field(1, tag) + key(2, kFixed32) + little_endian(value);
  record(wall_time_field() + key(2, kVarint) + varint(static_cast<uint64_t>(step)) +
         bytes_field(5, bytes_field(1, entry)));
}

void TensorBoardWriter::restart(int64_t step) {
  const std::string started = key(1, kVarint) + varint(1);  // SessionLog's status START
  record(wall_time_field() + key(2, kVarint) + varint(static_cast<uint64_t>(step)) + bytes_field(7, started));
}

void TensorBoardWriter::record(std::string_view event) {
  const std::string length = little_endian(static_cast<uint64_t>(event.size()));
  std::string bytes = length + little_endian(masked_crc32c(length));
  bytes += event;
  bytes += little_endian(masked_crc32c(event));
  if (std::fwrite(bytes.data(), 1, bytes.size(), file_->stream) != bytes.size()) {
    throw Error(fmt::format("{}: cannot be written: {}", file_->path, std::strerror(errno)));
  }
}

void TensorBoardWriter::flush() {
  if (std::fflush(file_->stream) != 0) {
    throw Error(fmt::format("{}: cannot be written: {}", file_->path, std::strerror(errno)));
  }
}

}  // namespace weft::train
