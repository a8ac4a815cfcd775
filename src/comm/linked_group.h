// Collectives over messages between processes, with the same bits as between threads: parts go straight to the member
// that needs them, and sums run there in the order of ranks.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "comm/call.h"
#include "comm/exchanger.h"
#include "comm/lane.h"
#include "comm/links.h"

namespace weft::comm {

// Calls are worked on by a thread of the group, in order. Before each collective the members exchange cards, so that no
// transport ever sees sizes that do not match; a message has a card before it. A sent message is copied, so that its
// handle is done at once; a mismatch then is the receiver's to find, and the sender's next call says it.
class LinkedCommunicator : public CheckedCommunicator {
 public:
  // `timeout`: how long a call waits for a member's card, and for the data that follow it.
  LinkedCommunicator(GroupName group, std::unique_ptr<Links> links, std::chrono::milliseconds timeout);
  // Waits for the calls under way and until sent messages are received, each at most for the timeout.
  ~LinkedCommunicator() override;

  void abort(const std::string& reason) override { exchanger_.fail(reason, Exchanger::Origin::kHere); }

 protected:
  Handle start(Call call) override;

 private:
  struct Item;  // a collective in the lane
  class CollectiveWork;
  class ReceiveWork;

  Handle start_message(Call call);
  void send_message(const Call& call);
  void perform(const Call& call);
  void exchange_cards(const Call& call);
  // The cards, and the data that do not depend on the peers'.
  void first_exchange(const Call& call, const std::vector<Exchanger::Piece>& sent,
                      const std::vector<Exchanger::Piece>& received);
  void all_reduce(const Call& call);
  void all_reduce_small(const Call& call);
  void reduce_scatter(const Call& call);
  void all_gather(const Call& call);
  void all_to_all(const Call& call);
  void broadcast(const Call& call);
  // Member p's elements [begins[r], begins[r + 1]) go to member r; their sum goes to `own`.
  void sum_own_part(const Call& call, const std::vector<int64_t>& begins, void* own);
  // Memory for what the peers send, kept for the next call.
  [[nodiscard]] std::byte* room(int64_t bytes);
  [[nodiscard]] std::string full_text(const CallCard& card, const std::string& reason) const;

  const int exceptions_;
  Exchanger exchanger_;
  std::unique_ptr<std::byte[]> room_;  // the collectives' thread's
  int64_t room_bytes_ = 0;
  std::vector<int64_t> messages_sent_, messages_received_;  // by peer
  Lane collectives_, messages_;
};

}  // namespace weft::comm
