// What ranks tell each other: collectives over bytes and numbers. No tensor library; back ends are threads of one
// process (threads.h), gloo (gloo/) and a group of one (one.h). All give the same bits. docs/communication.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "mesh/spec.h"

namespace weft::comm {

// A call that cannot be done: a member ended, did not come in time, or made another call.
class CommunicationError : public Error {
 public:
  using Error::Error;
};

enum class Reduction : uint8_t { kSum, kMax };

// Numbers to be read, and numbers to be written. Contiguous; `count` elements of `type`. The memory stays as it is
// (source) and is not looked at (target) until the call's Work was waited for.
struct Source {
  const void* data = nullptr;
  int64_t count = 0;
  mesh::ElementType type = mesh::ElementType::kFloat32;
  [[nodiscard]] int64_t bytes() const { return count * mesh::element_size(type); }
};
struct Target {
  void* data = nullptr;
  int64_t count = 0;
  mesh::ElementType type = mesh::ElementType::kFloat32;
  [[nodiscard]] int64_t bytes() const { return count * mesh::element_size(type); }
  [[nodiscard]] Source source() const { return {data, count, type}; }
};

// A call under way. It goes on without wait(): members may wait for their calls in any order. Destroying it waits
// without throwing; where an exception is on its way up, it aborts the group first, since the other members may never
// make the call.
class Work {
 public:
  virtual ~Work() = default;
  // Returns when the call is done. CommunicationError names operation, group, rank, and what is known of the cause: a
  // member that ended, a timeout, a call that did not match. Nobody touches the memory afterwards.
  virtual void wait() = 0;
};
using Handle = std::unique_ptr<Work>;

// One group of ranks, as one of its members sees it. Every member makes the same calls in the same order; sends and
// receives match in order between two members. One thread at a time. Members compare what they call (operation, counts,
// type, `what`); where that differs each of them gets an error that names both calls.
// `what` says what the call is for ("gradient of layer 3"): it appears in messages and in the recorder's counts.
// Reductions take fp32, fp64, bf16 (added in fp32), int64 and int32; everything else moves bytes.
class Communicator {
 public:
  virtual ~Communicator() = default;

  [[nodiscard]] virtual int rank() const = 0;  // in the group
  [[nodiscard]] virtual int size() const = 0;
  [[nodiscard]] virtual const std::string& name() const = 0;  // "tp", "dp+fsdp", for messages

  // In place. Each element's sum runs in the order of ranks, so that a part of an all-reduce is the all-reduce of the
  // part, bit by bit.
  virtual Handle all_reduce(Target numbers, Reduction reduction, std::string_view what) = 0;
  // The source holds the members' parts behind each other, member r's has counts[r] elements; target: the own part of
  // the sum, which may lie where the own part of the source lies.
  virtual Handle reduce_scatter(Source numbers, Target own, std::span<const int64_t> counts, Reduction reduction,
                                std::string_view what) = 0;
  // The target holds the members' parts behind each other; the source is the own one, which may lie where
  // it goes.
  virtual Handle all_gather(Source own, Target all, std::span<const int64_t> counts, std::string_view what) = 0;
  // Part r of the source goes to member r; part r of the target comes from it.
  virtual Handle all_to_all(Source numbers, std::span<const int64_t> send_counts, Target received,
                            std::span<const int64_t> receive_counts, std::string_view what) = 0;
  virtual Handle broadcast(Target numbers, int root, std::string_view what) = 0;
  virtual Handle send(Source numbers, int to, std::string_view what) = 0;
  virtual Handle receive(Target numbers, int from, std::string_view what) = 0;
  virtual Handle barrier(std::string_view what) = 0;

  // Ends every call under way, here and (as far as the back end can) at the other members, with this reason; later
  // calls fail at once. The first reason stays. May be called from any thread.
  virtual void abort(const std::string& reason) = 0;
};

// Makes groups. One object a rank.
class World {
 public:
  virtual ~World() = default;
  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int size() const = 0;
  // The group of these ranks (ascending, this one among them). Members call it in the same order of groups; others do
  // not. A group of one needs no back end.
  virtual std::unique_ptr<Communicator> make_group(std::span<const int> ranks, const std::string& name) = 0;
  // Ends the calls of all groups made so far.
  virtual void abort(const std::string& reason) = 0;
};

}  // namespace weft::comm
