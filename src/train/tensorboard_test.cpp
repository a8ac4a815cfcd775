#include "train/tensorboard.h"

#include <filesystem>
#include <fstream>
#include <iterator>

#include <gtest/gtest.h>

#include "base/error.h"

namespace weft::train {
namespace {

// The check value of the CRC catalogue for CRC-32/ISCSI. tests/ reads whole files with TensorBoard itself.
TEST(TensorBoard, Crc32cHasTheCataloguesCheckValue) { EXPECT_EQ(crc32c("123456789"), 0xE3069283u); }

TEST(TensorBoard, RecordsAreWholeAndInOrder) {
  const std::string directory = std::filesystem::temp_directory_path() / "weft_tensorboard_test";
  std::filesystem::remove_all(directory);
  std::filesystem::create_directories(directory);
  {
    TensorBoardWriter writer(directory);
    writer.scalar("loss", 300, 2.5f);
  }
  const auto file = std::filesystem::directory_iterator(directory)->path();
  std::ifstream stream(file, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(stream), {}};
  // version record: 9 bytes of wall time, 2 + 13 of the version
  EXPECT_EQ(bytes.substr(0, 8), std::string("\x18\0\0\0\0\0\0\0", 8));
  EXPECT_NE(bytes.find("brain.Event:2"), std::string::npos);
  // 300 as a varint, then the summary of tag "loss" and 2.5
  EXPECT_NE(bytes.find(std::string("\x10\xac\x02\x2a\x0d\x0a\x0b\x0a\x04loss\x15\0\0\x20\x40", 18)), std::string::npos);
  std::filesystem::remove_all(directory);
}

TEST(TensorBoard, NamesTheFileItCannotWrite) {
  try {
    TensorBoardWriter writer("/nonexistent/folder");
    FAIL() << "an error was expected";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("/nonexistent/folder/events.out.tfevents."), std::string::npos);
  }
}

}  // namespace
}  // namespace weft::train
