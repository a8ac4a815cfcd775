// Scalars as TensorBoard event files. The format is in docs/formats/tensorboard.md.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace weft::train {

// crc32c (Castagnoli) of bytes, as the record format of event files uses it.
[[nodiscard]] uint32_t crc32c(std::string_view bytes);

// Appends to one event file; TensorBoard reads all files of a folder together, so a resumed run opens a new one. Not
// thread-safe.
class TensorBoardWriter {
 public:
  // Makes events.out.tfevents.<seconds>.<host>.<process> in the existing folder. Throws Error if it cannot be written.
  explicit TensorBoardWriter(const std::string& directory);
  ~TensorBoardWriter();
  TensorBoardWriter(const TensorBoardWriter&) = delete;
  TensorBoardWriter& operator=(const TensorBoardWriter&) = delete;

  // One value of a curve. Values that are not finite are written as they are.
  void scalar(std::string_view tag, int64_t step, float value);

  // Says that a run begins again with this step: readers drop what they have of it and of later ones.
  void restart(int64_t step);

  // Hands what was written to the operating system.
  void flush();

 private:
  struct File;
  void record(std::string_view event);
  std::unique_ptr<File> file_;
};

}  // namespace weft::train
