// zbv and dualpipe-v: two chunks a role, the second on the way back (role r has stages r and 2P - 1 - r).
#include <algorithm>
#include <array>
#include <deque>

#include "base/check.h"
#include "schedule/generators.h"

namespace weft::schedule {
namespace {

// Appends to a role's list the next micro-batch of an operation on its chunk 0 or 1. Micro-batches from `kept` on are
// those that the list was only made longer by; they are left out.
class VList {
 public:
  VList(int32_t role, int32_t roles, int32_t kept, std::vector<Action>& actions)
      : stages_{role, 2 * roles - 1 - role}, kept_(kept), actions_(actions) {}

  [[nodiscard]] int32_t forwards(int chunk) const { return forwards_[chunk]; }

  void forward(int chunk) { add(Op::kForward, chunk, forwards_[chunk]++); }
  // Its weight half waits for weight().
  void input(int chunk) {
    waiting_[chunk].push_back(backwards_[chunk]);
    order_.push_back(chunk);
    add(Op::kBackwardInput, chunk, backwards_[chunk]++);
  }
  void backward(int chunk) { add(Op::kBackward, chunk, backwards_[chunk]++); }
  // The oldest that waits, of this chunk.
  void weight(int chunk) {
    WEFT_CHECK(!waiting_[chunk].empty());
    add(Op::kBackwardWeight, chunk, waiting_[chunk].front());
    waiting_[chunk].pop_front();
  }
  // The oldest that waits, of any chunk.
  void oldest_weight() {
    if (order_.empty()) return;
    weight(order_.front());
    order_.pop_front();
  }
  void flush_weights(int chunk) {
    while (!waiting_[chunk].empty()) weight(chunk);
  }
  // A forward and a whole backward that run as one.
  void pair(int forward_chunk, int backward_chunk) {
    const bool both = forwards_[forward_chunk] < kept_ && backwards_[backward_chunk] < kept_;
    forward(forward_chunk);
    if (both) actions_.back().paired = true;
    backward(backward_chunk);
  }

 private:
  void add(Op op, int chunk, int32_t micro_batch) {
    if (micro_batch < kept_) actions_.push_back(computation(op, stages_[chunk], micro_batch));
  }

  std::array<int32_t, 2> stages_;
  int32_t kept_;
  std::vector<Action>& actions_;
  std::array<int32_t, 2> forwards_{}, backwards_{};
  std::array<std::deque<int32_t>, 2> waiting_;
  std::deque<int> order_;
};

}  // namespace

// The order of torch's ScheduleZBVZeroBubble.
void fill_zero_bubble_v(const GenerateOptions& options, Schedule& schedule) {
  const int32_t roles = options.roles;
  const int32_t count = std::max(2 * roles - 1, options.micro_batches);
  for (int32_t role = 0; role < roles; ++role) {
    std::vector<Action>& actions = schedule.roles[static_cast<size_t>(role)].actions;
    actions.reserve(static_cast<size_t>(options.micro_batches) * 6);
    VList list(role, roles, options.micro_batches, actions);
    const auto backward = [&](int chunk) {
      list.input(chunk);
      list.weight(chunk);
    };
    for (int32_t i = 0; i < 2 * (roles - role) - 1; ++i) list.forward(0);
    for (int32_t i = 0; i < role; ++i) {
      list.forward(1);
      list.forward(0);
    }
    for (int32_t i = 0; i < roles - role; ++i) {
      list.forward(1);
      backward(1);
    }
    while (list.forwards(1) < list.forwards(0) || list.forwards(0) < count) {
      if (list.forwards(0) < count) list.forward(0);
      backward(0);
      list.forward(1);
      backward(1);
    }
    for (int32_t i = 0; i < role; ++i) {
      list.input(0);
      list.input(1);
    }
    for (int32_t i = 0; i < roles - role; ++i) {
      list.input(0);
      list.weight(0);
    }
    list.flush_weights(1);
    list.flush_weights(0);
  }
}

// DualPipe cut in half (DeepSeek-V3 technical report, arXiv 2412.19437; repository DualPipe). The steps are numbered as
// there.
void fill_dual_pipe_v(const GenerateOptions& options, Schedule& schedule) {
  const int32_t roles = options.roles;
  const int32_t count = std::max(2 * roles, options.micro_batches);
  for (int32_t role = 0; role < roles; ++role) {
    const int32_t behind = roles - role - 1;
    std::vector<Action>& actions = schedule.roles[static_cast<size_t>(role)].actions;
    actions.reserve(static_cast<size_t>(options.micro_batches) * 5);
    VList list(role, roles, options.micro_batches, actions);
    for (int32_t i = 0; i < 2 * behind; ++i) list.forward(0);  // 1
    for (int32_t i = 0; i <= role; ++i) {                      // 2
      list.forward(0);
      list.forward(1);
    }
    for (int32_t i = 0; i < behind; ++i) {  // 3
      list.input(1);
      list.oldest_weight();
      list.forward(1);
    }
    for (int32_t i = 0; i < count - 2 * roles + role + 1; ++i) {  // 4
      if (i == 0 && behind == 0) {  // the first backward of all: nothing waits for this forward, the others for it
        list.forward(0);
        list.backward(1);
      } else {
        list.pair(0, 1);
      }
      list.pair(1, 0);
    }
    for (int32_t i = 0; i < behind; ++i) {  // 5
      list.backward(1);
      list.pair(1, 0);
    }
    // 6 and 7: half way through the last backwards their weight halves begin to wait for the gaps behind them.
    bool divided = false;
    const auto backward = [&](int chunk) { divided ? list.input(chunk) : list.backward(chunk); };
    for (int32_t i = 0; i <= role; ++i) {
      const bool half = i == (role + 1) / 2;
      if (half && role % 2 == 1) divided = true;
      backward(1);
      if (half && role % 2 == 0) divided = true;
      backward(0);
    }
    for (int32_t i = 0; i < behind; ++i) {
      list.oldest_weight();
      backward(0);
    }
    for (int32_t i = 0; i <= role; ++i) list.oldest_weight();  // 8
  }
}

}  // namespace weft::schedule
