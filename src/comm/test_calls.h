// Every operation over types, uneven and empty parts, with what must come out: for the tests of the back ends.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "comm/call.h"

namespace weft::comm {

using Bytes = std::vector<std::byte>;

struct TestResult {
  std::string name;
  Bytes bytes;
  Bytes expected;
};

// Numbers of member `rank`, of every magnitude, so that the order of a sum shows in its bits.
template <class T>
std::vector<T> test_numbers(int rank, int64_t count) {
  std::vector<T> numbers;
  for (int64_t i = 0; i < count; ++i) {
    const auto word = static_cast<uint32_t>((i * 2654435761U + rank * 40503U + 12345U) * 2246822519U);
    if constexpr (std::is_integral_v<T>) {
      numbers.push_back(static_cast<T>(static_cast<int32_t>(word)));
    } else {
      numbers.push_back(static_cast<T>(static_cast<int32_t>(word)) / static_cast<T>(1 << (word % 29)));
    }
  }
  return numbers;
}

// bf16 as its bits. Half-way cases are frequent among the sums of such short mantissas.
inline std::vector<uint16_t> test_bfloat16(int rank, int64_t count) {
  std::vector<uint16_t> numbers;
  for (const float number : test_numbers<float>(rank, count)) {
    numbers.push_back(static_cast<uint16_t>(std::bit_cast<uint32_t>(number) >> 16));
  }
  return numbers;
}

template <class T>
Bytes bytes_of(const std::vector<T>& numbers) {
  const auto bytes = std::as_bytes(std::span(numbers));
  return {bytes.begin(), bytes.end()};
}

inline Bytes test_bytes(int rank, int64_t count, mesh::ElementType type) {
  switch (type) {
    case mesh::ElementType::kFloat32:
      return bytes_of(test_numbers<float>(rank, count));
    case mesh::ElementType::kFloat64:
      return bytes_of(test_numbers<double>(rank, count));
    case mesh::ElementType::kInt64:
      return bytes_of(test_numbers<int64_t>(rank, count));
    case mesh::ElementType::kInt32:
      return bytes_of(test_numbers<int32_t>(rank, count));
    case mesh::ElementType::kBFloat16:
    case mesh::ElementType::kFloat16:
      return bytes_of(test_bfloat16(rank, count));
    case mesh::ElementType::kUInt8:
      return bytes_of(test_numbers<uint8_t>(rank, count));
  }
  return {};
}

// Element by element, in rank order: bf16 through fp32 and back by the nearest of the two neighbours.
template <class T>
Bytes reduced_numbers(int size, int64_t count, Reduction reduction) {
  std::vector<T> total = test_numbers<T>(0, count);
  for (int rank = 1; rank < size; ++rank) {
    const std::vector<T> next = test_numbers<T>(rank, count);
    for (int64_t i = 0; i < count; ++i) {
      if (reduction == Reduction::kMax) {
        total[i] = std::max(total[i], next[i]);
      } else if constexpr (std::is_integral_v<T>) {
        total[i] = static_cast<T>(static_cast<uint64_t>(total[i]) + static_cast<uint64_t>(next[i]));
      } else {
        total[i] += next[i];
      }
    }
  }
  return bytes_of(total);
}

inline Bytes reduced_bfloat16(int size, int64_t count, Reduction reduction) {
  const auto widen = [](uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); };
  std::vector<std::vector<uint16_t>> numbers;
  for (int rank = 0; rank < size; ++rank) numbers.push_back(test_bfloat16(rank, count));
  std::vector<uint16_t> result;
  for (int64_t i = 0; i < count; ++i) {
    float total = widen(numbers[0][i]);
    for (int rank = 1; rank < size; ++rank) {
      const float next = widen(numbers[rank][i]);
      total = reduction == Reduction::kSum ? total + next : std::max(total, next);
    }
    const auto below = static_cast<uint16_t>(std::bit_cast<uint32_t>(total) >> 16);
    const auto above = static_cast<uint16_t>(below + 1);
    const float down = std::abs(total - widen(below)), up = std::abs(widen(above) - total);
    result.push_back(down < up || (down == up && below % 2 == 0) ? below : above);
  }
  return bytes_of(result);
}

inline Bytes reduced(int size, int64_t count, mesh::ElementType type, Reduction reduction) {
  switch (type) {
    case mesh::ElementType::kFloat32:
      return reduced_numbers<float>(size, count, reduction);
    case mesh::ElementType::kFloat64:
      return reduced_numbers<double>(size, count, reduction);
    case mesh::ElementType::kInt64:
      return reduced_numbers<int64_t>(size, count, reduction);
    case mesh::ElementType::kInt32:
      return reduced_numbers<int32_t>(size, count, reduction);
    default:
      return reduced_bfloat16(size, count, reduction);
  }
}

// The calls, made one after the other by each member; what is asynchronous is waited for in an order of its own.
class TestCalls {
 public:
  explicit TestCalls(Communicator& group) : group_(group) {}

  std::vector<TestResult> run() {
    const auto kReduced = {mesh::ElementType::kFloat32, mesh::ElementType::kFloat64, mesh::ElementType::kBFloat16,
                           mesh::ElementType::kInt64, mesh::ElementType::kInt32};
    for (const mesh::ElementType type : kReduced) {
      for (const Reduction reduction : {Reduction::kSum, Reduction::kMax}) {
        for (const int64_t count : {0, 1, 5, 300}) all_reduce(count, type, reduction);
        for (const auto& counts : parts()) reduce_scatter(counts, type, reduction);
      }
    }
    all_reduce(200'003, mesh::ElementType::kFloat32, Reduction::kSum);  // several pieces
    reduce_scatter(std::vector<int64_t>(group_.size(), 100'001), mesh::ElementType::kFloat32, Reduction::kSum);
    for (const mesh::ElementType type : {mesh::ElementType::kFloat16, mesh::ElementType::kUInt8}) {
      for (const auto& counts : parts()) all_gather(counts, type);
      for (const int64_t scale : {0, 1, 90'000}) all_to_all(scale, type);
      for (int root = 0; root < group_.size(); ++root) broadcast(root, 7, type);
    }
    messages();
    handles_in_reverse();
    group_.barrier("test")->wait();
    return std::move(results_);
  }

 private:
  // Even, uneven, with empty ones, empty.
  [[nodiscard]] std::vector<std::vector<int64_t>> parts() const {
    std::vector<std::vector<int64_t>> all(4, std::vector<int64_t>(group_.size(), 0));
    for (int member = 0; member < group_.size(); ++member) {
      all[0][member] = 6;
      all[1][member] = 3 + 5 * member;
      all[2][member] = member % 2 == 0 ? 0 : 11;
    }
    return all;
  }

  void check(std::string name, Bytes bytes, Bytes expected) {
    results_.push_back({std::move(name), std::move(bytes), std::move(expected)});
  }
  static Bytes part(const Bytes& all, int64_t begin, int64_t count, mesh::ElementType type) {
    const int64_t size = mesh::element_size(type);
    return {all.begin() + begin * size, all.begin() + (begin + count) * size};
  }
  static Bytes room(int64_t count, mesh::ElementType type) {
    return Bytes(static_cast<size_t>(count * mesh::element_size(type)), std::byte{0xee});
  }

  void all_reduce(int64_t count, mesh::ElementType type, Reduction reduction) {
    Bytes numbers = test_bytes(group_.rank(), count, type);
    group_.all_reduce({numbers.data(), count, type}, reduction, "test")->wait();
    check(fmt::format("all_reduce {} {} {}", count, mesh::text(type), static_cast<int>(reduction)), numbers,
          reduced(group_.size(), count, type, reduction));
  }

  void reduce_scatter(const std::vector<int64_t>& counts, mesh::ElementType type, Reduction reduction) {
    const auto begins = part_begins(counts);
    const int64_t all = begins.back(), own = counts[group_.rank()], begin = begins[group_.rank()];
    Bytes numbers = test_bytes(group_.rank(), all, type), result = room(own, type);
    const Bytes expected = part(reduced(group_.size(), all, type, reduction), begin, own, type);
    group_.reduce_scatter({numbers.data(), all, type}, {result.data(), own, type}, counts, reduction, "test")->wait();
    check(fmt::format("reduce_scatter {} {}", all, mesh::text(type)), result, expected);
    std::byte* inside = numbers.data() + begin * mesh::element_size(type);
    group_.reduce_scatter({numbers.data(), all, type}, {inside, own, type}, counts, reduction, "in place")->wait();
    check(fmt::format("reduce_scatter in place {} {}", all, mesh::text(type)), part(numbers, begin, own, type),
          expected);
  }

  void all_gather(const std::vector<int64_t>& counts, mesh::ElementType type) {
    const auto begins = part_begins(counts);
    Bytes expected;
    for (int member = 0; member < group_.size(); ++member) {
      const Bytes theirs = test_bytes(member, counts[member], type);
      expected.insert(expected.end(), theirs.begin(), theirs.end());
    }
    const Bytes own = test_bytes(group_.rank(), counts[group_.rank()], type);
    Bytes all = room(begins.back(), type);
    group_.all_gather({own.data(), counts[group_.rank()], type}, {all.data(), begins.back(), type}, counts, "test")
        ->wait();
    check(fmt::format("all_gather {} {}", begins.back(), mesh::text(type)), all, expected);
    Bytes same = room(begins.back(), type);
    std::byte* inside = same.data() + begins[group_.rank()] * mesh::element_size(type);
    if (!own.empty()) std::memcpy(inside, own.data(), own.size());
    group_.all_gather({inside, counts[group_.rank()], type}, {same.data(), begins.back(), type}, counts, "in place")
        ->wait();
    check(fmt::format("all_gather in place {} {}", begins.back(), mesh::text(type)), same, expected);
  }

  // Member s sends t scale * (2 s + t) % 5 elements: from the beginning of its numbers, so that s and t show in them.
  void all_to_all(int64_t scale, mesh::ElementType type) {
    const auto count = [scale](int from, int to) { return scale * ((2 * from + to) % 5); };
    std::vector<int64_t> send, receive;
    Bytes numbers, expected;
    for (int member = 0; member < group_.size(); ++member) {
      send.push_back(count(group_.rank(), member));
      receive.push_back(count(member, group_.rank()));
      const Bytes out = test_bytes(100 * group_.rank() + member, send.back(), type);
      const Bytes in = test_bytes(100 * member + group_.rank(), receive.back(), type);
      numbers.insert(numbers.end(), out.begin(), out.end());
      expected.insert(expected.end(), in.begin(), in.end());
    }
    const int64_t sent = part_begins(send).back(), received = part_begins(receive).back();
    Bytes result = room(received, type);
    group_.all_to_all({numbers.data(), sent, type}, send, {result.data(), received, type}, receive, "test")->wait();
    check(fmt::format("all_to_all {} {}", scale, mesh::text(type)), result, expected);
  }

  void broadcast(int root, int64_t count, mesh::ElementType type) {
    Bytes numbers = test_bytes(group_.rank(), count, type);
    group_.broadcast({numbers.data(), count, type}, root, "test")->wait();
    check(fmt::format("broadcast from {} {}", root, mesh::text(type)), numbers, test_bytes(root, count, type));
  }

  // Two messages from each member to each other one, all under way at once; they match in order.
  void messages() {
    const auto type = mesh::ElementType::kInt32;
    std::vector<Handle> handles;
    std::vector<Bytes> sent, received, expected;
    for (int member = 0; member < group_.size(); ++member) {
      if (member == group_.rank()) continue;
      for (int64_t count : {3, 70'000}) {
        sent.push_back(test_bytes(10 * group_.rank() + member, count, type));
        handles.push_back(group_.send({sent.back().data(), count, type}, member, "message"));
        received.push_back(room(count, type));
        handles.push_back(group_.receive({received.back().data(), count, type}, member, "message"));
        expected.push_back(test_bytes(10 * member + group_.rank(), count, type));
      }
    }
    for (const Handle& handle : handles) handle->wait();
    for (size_t i = 0; i < received.size(); ++i) check(fmt::format("message {}", i), received[i], expected[i]);
  }

  // Members wait for their calls in different orders.
  void handles_in_reverse() {
    const auto type = mesh::ElementType::kFloat32;
    const int64_t count = 100'000;
    std::vector<Bytes> numbers;
    std::vector<Handle> handles;
    for (int i = 0; i < 3; ++i) {
      numbers.push_back(test_bytes(group_.rank(), count + i, type));
      handles.push_back(group_.all_reduce({numbers.back().data(), count + i, type}, Reduction::kSum, "asynchronous"));
    }
    if (group_.rank() % 2 == 0) std::swap(handles[0], handles[2]);
    for (const Handle& handle : handles) handle->wait();
    for (int i = 0; i < 3; ++i) {
      check(fmt::format("asynchronous {}", i), numbers[i], reduced(group_.size(), count + i, type, Reduction::kSum));
    }
  }

  Communicator& group_;
  std::vector<TestResult> results_;
};

}  // namespace weft::comm
