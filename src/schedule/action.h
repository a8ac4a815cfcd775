// One action of a schedule. A schedule is data: the validator, the simulator, the timeline and the executor read the
// same lists.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace weft::schedule {

enum class Op : uint8_t {
  kForward,
  kBackward,  // input and weight gradients
  kBackwardInput,
  kBackwardWeight,
  kRecompute,
  kSend,
  kReceive,
  kUnshard,
  kReshard,
  kReduceGradient,
  kRedistribute,
  kDispatch,
  kCombine,
  kReduce,  // with a purpose
  kStep,
  kFree,
};

// An asynchronous action is a start and a wait; a synchronous one is both at once.
enum class Part : uint8_t { kWhole, kStart, kWait };

// What a Reduce is for.
enum class Purpose : uint8_t { kNone, kLoss, kNorm, kAmax, kTied, kOwners };

enum class Stream : uint8_t { kCompute, kPipelineForward, kPipelineBackward, kData, kTensor };

// What a Redistribute, Send or Receive moves: a value on its way to its readers, or the value's gradient on its way
// back.
enum class Direction : uint8_t { kForward, kBackward };

// At most 64 bytes. -1 where a field has no meaning. At the stage level `segment` is -1: Forward means the whole stage;
// at the lowered level it names one segment of the model's description.
struct Action {
  Op op = Op::kForward;
  Part part = Part::kWhole;
  Purpose purpose = Purpose::kNone;
  Stream stream = Stream::kCompute;
  Direction direction = Direction::kForward;
  bool paired = false;  // runs as one with the next action of the list: a Forward beside a backward of another stage
  bool light = false;   // a Forward of a segment that keeps nothing for its backward: a Recompute comes before that
  int32_t stage = -1;   // of a message: the stage at this role's end of it
  int32_t segment = -1;
  int32_t micro_batch = -1;
  int32_t slice = -1;
  int32_t peer = -1;    // pipeline role at the other end of a message
  int32_t value = -1;   // the value sent, redistributed or freed
  int32_t bucket = -1;  // of parameters (model/buckets.h), unsharded, resharded or reduced

  friend bool operator==(const Action&, const Action&) = default;
};
static_assert(sizeof(Action) <= 64);

[[nodiscard]] std::string_view name(Op op);  // "backward_input"
[[nodiscard]] std::string_view name(Purpose purpose);

// "backward(stage 1, segment 4, micro-batch 2)", for messages.
[[nodiscard]] std::string text(const Action& action);

}  // namespace weft::schedule
