#include "schedule/validate_traffic.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "model/buckets.h"
#include "schedule/invalid.h"
#include "schedule/roles.h"

namespace weft::schedule {
namespace {

using Key = std::pair<int32_t, int32_t>;  // (micro-batch, value, segment or bucket)

class Walk {
 public:
  Walk(const Schedule& schedule, const model::ModelDescription& model, const Layout& layout, int32_t role)
      : schedule_(schedule),
        role_(role),
        roles_(bucket_roles(model, schedule.stages)),
        model_(model),
        layout_(layout),
        values_(value_layouts(model, layout)),
        partial_(partial_over_tensor(model, layout)),
        buckets_(model::parameter_buckets(model)) {}

  void run(const std::vector<Action>& actions) {
    for (const Action& action : actions) trains_ |= action.op == Op::kStep;
    for (size_t index = 0; index < actions.size(); ++index) {
      try {
        visit(actions[index]);
      } catch (const Invalid& invalid) {
        fail("action {}: {}: {}", index, text(actions[index]), invalid.reason);
      }
    }
    finish();
  }

 private:
  [[nodiscard]] const ValueLayout& layout_of(int value) const { return values_[static_cast<size_t>(value)]; }
  [[nodiscard]] const model::SegmentDescription& segment(int index) const {
    return model_.segments[static_cast<size_t>(index)];
  }
  [[nodiscard]] bool divided() const { return layout_.shards() > 1; }

  void visit(const Action& action) {
    switch (action.op) {
      case Op::kForward:
        return forward(action);
      case Op::kRecompute:
        return recompute(action);
      case Op::kBackward:
        backward_input(action);
        return add_weights(action);
      case Op::kBackwardInput:
        return backward_input(action);
      case Op::kBackwardWeight:
        check_buckets(action);
        return add_weights(action);
      case Op::kRedistribute:
        return redistribute(action);
      case Op::kUnshard:
      case Op::kReshard:
        return move_bucket(action);
      case Op::kReduceGradient:
        return reduce_gradient(action);
      case Op::kReduce:
        if (action.purpose == Purpose::kTied) return move_borrowed(action);
        if (action.purpose == Purpose::kNorm) check_reduced();
        return;
      case Op::kStep:
        stepped_ = true;
        return;
      default:
        return;
    }
  }

  void check_buckets(const Action& action) const {
    if (!divided() || layout_.zero < 3) return;
    for (const int bucket : buckets_.of_segment[static_cast<size_t>(action.segment)]) {
      if (!whole_.contains(bucket)) fail("bucket {} is not whole", bucket);
    }
  }

  void forward(const Action& action) {
    check_buckets(action);
    for (const int value : segment(action.segment).inputs) {
      if (layout_of(value).moves_forward() && !forward_moved_.contains({action.micro_batch, value})) {
        fail("reads value {} before it was redistributed", value);
      }
    }
    forwards_.insert({action.micro_batch, action.segment});
  }

  void recompute(const Action& action) {
    check_buckets(action);
    recomputed_.insert({action.micro_batch, action.segment});
    for (const int value : segment(action.segment).inputs) {
      const auto& moved = is_recomputed(action.micro_batch, value) ? moved_again_ : forward_moved_;
      if (layout_of(value).moves_forward() && !moved.contains({action.micro_batch, value})) {
        fail("reads value {} before it was redistributed", value);
      }
    }
  }

  // Whether its maker has recomputed it.
  [[nodiscard]] bool is_recomputed(int32_t micro_batch, int32_t value) const {
    for (size_t index = 0; index < model_.segments.size(); ++index) {
      const std::vector<int>& outputs = model_.segments[index].outputs;
      if (std::ranges::find(outputs, value) == outputs.end()) continue;
      return recomputed_.contains({micro_batch, static_cast<int32_t>(index)});
    }
    return false;
  }

  void backward_input(const Action& action) {
    check_buckets(action);
    for (const int value : segment(action.segment).outputs) {
      if (layout_of(value).moves_backward() && !backward_moved_.contains({action.micro_batch, value})) {
        fail("needs the gradient of value {}, which was not redistributed", value);
      }
    }
    inputs_.insert({action.micro_batch, action.segment});
  }

  void redistribute(const Action& action) {
    if (action.value < 0 || action.value >= static_cast<int64_t>(values_.size())) fail("no such value");
    if (action.micro_batch < 0 || action.micro_batch >= schedule_.micro_batches) fail("no such micro-batch");
    const bool forward = action.direction == Direction::kForward;
    const ValueLayout& layout = layout_of(action.value);
    if (!(forward ? layout.moves_forward() : layout.moves_backward())) fail("the layout moves nothing here");
    const bool again = forward && is_recomputed(action.micro_batch, action.value);
    const std::set<Key>& read = again ? recomputed_ : forwards_;
    for (size_t index = 0; index < model_.segments.size(); ++index) {
      const auto number = static_cast<int>(index);
      const Key key{action.micro_batch, number};
      const auto has = [&](const std::vector<int>& list) {
        return std::ranges::find(list, action.value) != list.end();
      };
      if (has(segment(number).outputs)) {
        if (!forwards_.contains(key)) fail("the value is not written");
        if (!forward && inputs_.contains(key)) fail("comes after the gradient was used");
      }
      if (!has(segment(number).inputs) || stage_of(index).role != role_) continue;
      if (forward && read.contains(key)) fail("comes after segment {} read it", number);
      if (!forward && !inputs_.contains(key)) fail("the gradient of segment {} is missing", number);
    }
    std::set<Key>& moved = again ? moved_again_ : forward ? forward_moved_ : backward_moved_;
    if (!moved.insert({action.micro_batch, action.value}).second) {
      fail("done before");
    }
  }

  void check_bucket(const Action& action) const {
    if (action.bucket < 0 || action.bucket >= buckets_.count) fail("no such bucket");
  }

  void move_bucket(const Action& action) {
    check_bucket(action);
    if (!divided()) fail("buckets are not divided");
    if (layout_.zero < 3) {
      if (action.op == Op::kReshard || !stepped_) fail("with zero < 3 buckets are unsharded behind the step");
      check_borrowed(Direction::kForward);
      if (!roles_.holds(role_, action.bucket)) fail("the role does not hold it");
      if (!whole_.insert(action.bucket).second) fail("done before");
      return;
    }
    if (stepped_) fail("comes after the step");
    if (action.op == Op::kReshard) {
      if (whole_.erase(action.bucket) == 0) fail("it is not whole");
      return;
    }
    if (!whole_.insert(action.bucket).second) fail("it is whole already");
    if (static_cast<int>(whole_.size()) > most_whole()) {
      fail("{} buckets would be whole, at most {} may be", whole_.size(), most_whole());
    }
  }

  // What the bounds of the layout allow the role.
  [[nodiscard]] int most_whole() const {
    size_t most = static_cast<size_t>(std::max(layout_.whole_buckets, 1));
    for (const auto& needed : buckets_.of_segment) most = std::max(most, needed.size());
    std::vector<size_t> of_stages;
    for (const Stage& stage : schedule_.stages) {
      std::set<int> needed;
      for (int32_t segment = stage.first_segment; segment < stage.first_segment + stage.segment_count; ++segment) {
        const auto& used = buckets_.of_segment[static_cast<size_t>(segment)];
        needed.insert(used.begin(), used.end());
      }
      if (stage.role == role_) of_stages.push_back(needed.size());
    }
    if (schedule_.stages.size() == 1) return static_cast<int>(most);
    std::ranges::sort(of_stages, std::greater<>());
    of_stages.resize(std::min(of_stages.size(), static_cast<size_t>(std::max(layout_.whole_stages, 1))));
    return static_cast<int>(std::max(most, std::accumulate(of_stages.begin(), of_stages.end(), size_t{0})));
  }

  [[nodiscard]] bool needs_reduction(int bucket) const {
    if (!used(bucket)) return false;
    if (layout_.batch_ranks() * layout_.context > 1) return true;
    for (size_t index = 0; index < partial_.size(); ++index) {
      if (partial_[index] && buckets_.of_parameter[index] == bucket) return true;
    }
    return false;
  }

  [[nodiscard]] const Stage& stage_of(size_t segment) const {
    const auto holds = [&](const Stage& stage) {
      return std::cmp_less(segment, stage.first_segment + stage.segment_count);
    };
    return *std::ranges::find_if(schedule_.stages, holds);
  }

  // On this role, with weight gradients.
  [[nodiscard]] bool uses(size_t segment, int bucket) const {
    if (stage_of(segment).role != role_ || !stage_of(segment).trains) return false;
    return std::ranges::find(buckets_.of_segment[segment], bucket) != buckets_.of_segment[segment].end();
  }

  [[nodiscard]] bool used(int bucket) const {
    for (size_t segment = 0; segment < buckets_.of_segment.size(); ++segment) {
      if (uses(segment, bucket)) return true;
    }
    return false;
  }

  // Added over the ranks in place, a gradient is reduced once, when it is whole; into shards, whenever something was
  // added to it.
  void reduce_gradient(const Action& action) {
    check_bucket(action);
    if (!needs_reduction(action.bucket)) fail("nothing is to be added");
    if (!unreduced_.contains(action.bucket)) fail("no weight gradient was added to it");
    for (size_t index = 0; layout_.zero < 2 && index < model_.segments.size(); ++index) {
      if (!uses(index, action.bucket)) continue;
      for (int32_t micro_batch = 0; micro_batch < schedule_.micro_batches; ++micro_batch) {
        if (!weights_.contains({micro_batch, static_cast<int32_t>(index)})) {
          fail("the weight gradient of segment {}, micro-batch {} is missing", index, micro_batch);
        }
      }
    }
    unreduced_.erase(action.bucket);
    reduced_.insert(action.bucket);
  }

  void add_weights(const Action& action) {
    weights_.insert({action.micro_batch, action.segment});
    for (const int bucket : buckets_.of_segment[static_cast<size_t>(action.segment)]) unreduced_.insert(bucket);
  }

  [[nodiscard]] bool is_reduced(int bucket) const {
    return !needs_reduction(bucket) || (reduced_.contains(bucket) && !unreduced_.contains(bucket));
  }

  void check_reduced() const {
    check_borrowed(Direction::kBackward);
    for (int bucket = 0; bucket < buckets_.count; ++bucket) {
      if (!is_reduced(bucket)) fail("the gradient of bucket {} is not reduced", bucket);
    }
  }

  void move_borrowed(const Action& action) {
    check_bucket(action);
    const auto& borrowers = roles_.borrowers[static_cast<size_t>(action.bucket)];
    const int32_t owner = roles_.owner[static_cast<size_t>(action.bucket)];
    const int32_t borrower = role_ == owner ? action.peer : role_;
    if (std::ranges::find(borrowers, borrower) == borrowers.end()) fail("role {} does not borrow it", borrower);
    if (role_ != owner && action.peer != owner) fail("role {} owns it", owner);
    if (action.direction == Direction::kBackward) {
      if (!is_reduced(action.bucket)) fail("the gradient is not reduced");
    } else if (!stepped_) {
      fail("there are no new values yet");
    }
    if (!borrowed_.insert({action.direction, action.bucket, borrower}).second) fail("done before");
  }

  void check_borrowed(Direction direction) const {
    for (int bucket = 0; bucket < buckets_.count; ++bucket) {
      for (const int32_t borrower : roles_.borrowers[static_cast<size_t>(bucket)]) {
        if (role_ != borrower && role_ != roles_.owner[static_cast<size_t>(bucket)]) continue;
        if (!borrowed_.contains({direction, bucket, borrower})) {
          fail("bucket {} is not exchanged with its borrower, role {}", bucket, borrower);
        }
      }
    }
  }

  void finish() const {
    if (trains_) check_borrowed(Direction::kForward);
    if (!divided()) return;
    if (layout_.zero >= 3) {
      if (!whole_.empty()) fail("bucket {} is never resharded", *whole_.begin());
    } else if (trains_ && std::cmp_not_equal(whole_.size(), held_buckets())) {
      fail("not every bucket is unsharded behind the step");
    }
  }

  [[nodiscard]] int held_buckets() const {
    int count = 0;
    for (int bucket = 0; bucket < buckets_.count; ++bucket) count += roles_.holds(role_, bucket) ? 1 : 0;
    return count;
  }

  const Schedule& schedule_;
  int32_t role_;
  BucketRoles roles_;
  const model::ModelDescription& model_;
  const Layout& layout_;
  std::vector<ValueLayout> values_;
  std::vector<bool> partial_;
  model::ParameterBuckets buckets_;
  std::set<Key> forwards_, inputs_, weights_, recomputed_;      // by segment
  std::set<Key> forward_moved_, backward_moved_, moved_again_;  // by value
  std::set<int> whole_;
  std::set<int> unreduced_, reduced_;                       // buckets with gradients added since, and with a reduction
  std::set<std::tuple<Direction, int, int32_t>> borrowed_;  // exchanged: bucket, borrower
  bool trains_ = false;
  bool stepped_ = false;
};

}  // namespace

bool is_traffic(Op op) {
  return op == Op::kRedistribute || op == Op::kUnshard || op == Op::kReshard || op == Op::kReduceGradient;
}

std::string validate_traffic(const Schedule& schedule, const model::ModelDescription& model, const Layout& layout) {
  for (size_t role = 0; role < schedule.roles.size(); ++role) {
    try {
      Walk(schedule, model, layout, static_cast<int32_t>(role)).run(schedule.roles[role].actions);
    } catch (const Invalid& invalid) {
      return fmt::format("role {}, {}", role, invalid.reason);
    }
  }
  return "";
}

}  // namespace weft::schedule
