// Boxes against elements counted one by one.
#include "base/tensor_part.h"

#include <algorithm>
#include <span>

#include <gtest/gtest.h>

#include "base/counted_parts.h"

namespace weft {
namespace {

std::vector<int64_t> places(const Box& box, const std::vector<int64_t>& shape) {
  return places_of({box, {0, box.elements()}}, shape);
}

TEST(TensorPart, BoxesHoldTheRangeInItsOrder) {
  RandomParts random(1);
  for (int trial = 0; trial < 3000; ++trial) {
    const auto shape = random.shape();
    TensorPart part{random.box(shape), {}};
    part.range.begin = random.number(0, part.box.elements());
    part.range.end = random.number(part.range.begin, part.box.elements());
    std::vector<int64_t> found;
    const auto boxes = boxes_of(part);
    for (const Box& box : boxes) {
      EXPECT_GT(box.elements(), 0);
      const auto more = places(box, shape);
      found.insert(found.end(), more.begin(), more.end());
    }
    EXPECT_EQ(found, places_of(part, shape));
    EXPECT_LE(boxes.size(), shape.empty() ? 1 : 2 * shape.size() - 1);
  }
}

TEST(TensorPart, AWholeIsOneBox) {
  EXPECT_EQ(boxes_of(whole_part({3, 4, 5})), (std::vector<Box>{{{0, 0, 0}, {3, 4, 5}}}));
  EXPECT_EQ(boxes_of(whole_part({})), (std::vector<Box>{{{}, {}}}));
  EXPECT_TRUE(boxes_of(whole_part({3, 0})).empty());
  EXPECT_EQ(boxes_of({{{2, 0}, {4, 3}}, {3, 9}}), (std::vector<Box>{{{3, 0}, {2, 3}}})) << "whole rows";
}

TEST(TensorPart, WhatTwoBoxesShareIsCopied) {
  RandomParts random(1);
  for (int trial = 0; trial < 3000; ++trial) {
    const auto shape = random.shape();
    const Box from_box = random.box(shape), to_box = random.box(shape);
    const auto from = places(from_box, shape), to_places = places(to_box, shape);
    std::vector<int64_t> to(to_places.size(), -1);
    copy_shared(from_box, std::as_bytes(std::span(from)).data(), to_box, std::as_writable_bytes(std::span(to)).data(),
                sizeof(int64_t));
    bool shared = false;
    for (size_t i = 0; i < to.size(); ++i) {
      const bool there = std::find(from.begin(), from.end(), to_places[i]) != from.end();
      shared = shared || there;
      EXPECT_EQ(to[i], there ? to_places[i] : -1);
    }
    EXPECT_EQ(overlap(from_box, to_box), shared);
  }
}

}  // namespace
}  // namespace weft
