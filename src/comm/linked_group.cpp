#include "comm/linked_group.h"

#include <condition_variable>
#include <cstring>
#include <exception>

#include <fmt/format.h>

#include "comm/sums.h"

namespace weft::comm {
namespace {

// Why a handle or group is destroyed while an exception is on its way up.
constexpr const char* kLeft = "left because of an error of its own";

constexpr int kCardChannel = 1, kDataChannel = 2;
// Each message has two channels of its own, since receivers may wait for them in any order.
constexpr int kFirstMessageChannel = 16;
constexpr int64_t kMessageChannels = int64_t{1} << 29;

// Up to here it is cheaper that everybody adds everything, in one exchange instead of two.
constexpr int64_t kSmallBytes = 16 << 10;

// What a member tells another of a call. Counts: of the parts of an all-to-all, or of a message.
struct CardMessage {
  CallCard card;
  int64_t sent = 0;
  int64_t expected = 0;
};

int card_channel(int64_t message) { return kFirstMessageChannel + static_cast<int>(2 * (message % kMessageChannels)); }

std::byte* at(void* data, int64_t element, mesh::ElementType type) {
  return static_cast<std::byte*>(data) + element * mesh::element_size(type);
}
// Transports send from memory that they do not write.
std::byte* at(const void* data, int64_t element, mesh::ElementType type) {
  return at(const_cast<void*>(data), element, type);
}

void copy_bytes(void* to, const void* from, int64_t bytes) {
  if (to != from && bytes > 0) std::memmove(to, from, static_cast<size_t>(bytes));
}

}  // namespace

struct LinkedCommunicator::Item {
  Call call;
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  std::string failure;
};

class LinkedCommunicator::CollectiveWork : public Work {
 public:
  CollectiveWork(LinkedCommunicator& group, std::shared_ptr<Item> item) : group_(group), item_(std::move(item)) {}
  CollectiveWork(const CollectiveWork&) = delete;
  CollectiveWork& operator=(const CollectiveWork&) = delete;
  ~CollectiveWork() override {
    if (!item_) return;
    if (std::uncaught_exceptions() > exceptions_) group_.exchanger_.fail(kLeft, Exchanger::Origin::kHere);
    finish();
  }
  void wait() override {
    if (!item_) return;
    const std::string failure = finish();
    item_ = nullptr;
    if (!failure.empty()) throw CommunicationError(failure);
  }

 private:
  std::string finish() {
    std::unique_lock lock(item_->mutex);
    item_->changed.wait(lock, [this] { return item_->done; });
    return item_->failure;
  }

  LinkedCommunicator& group_;
  std::shared_ptr<Item> item_;
  int exceptions_ = std::uncaught_exceptions();
};

class LinkedCommunicator::ReceiveWork : public Work {
 public:
  ReceiveWork(LinkedCommunicator& group, Call call, int64_t message)
      : group_(group), call_(std::move(call)), channel_(card_channel(message)) {
    group_.exchanger_.post(pending_, {call_.peer, &card_, sizeof(card_)}, channel_, Exchanger::Direction::kReceive);
  }
  ReceiveWork(const ReceiveWork&) = delete;
  ReceiveWork& operator=(const ReceiveWork&) = delete;
  ~ReceiveWork() override {
    if (std::uncaught_exceptions() > exceptions_) group_.exchanger_.fail(kLeft, Exchanger::Origin::kHere);
    try {
      wait();
    } catch (const CommunicationError&) {  // the group is of no use, which its next call says
    }
  }

  void wait() override {
    if (pending_.empty()) return;
    std::vector<Exchanger::Pending> pending = std::move(pending_);
    pending_.clear();
    try {
      group_.exchanger_.wait_for(pending);
      const std::string wrong = part_mismatch(group_.group(), call_.peer, card_.card, card_.sent, group_.rank(),
                                              call_.card, call_.card.count);
      if (!wrong.empty()) throw CommunicationError(wrong);
      pending.clear();
      group_.exchanger_.post(pending, {call_.peer, call_.target.data, call_.target.bytes()}, channel_ + 1,
                             Exchanger::Direction::kReceive);
      group_.exchanger_.wait_for(pending);
    } catch (const CommunicationError& error) {
      group_.exchanger_.fail(error.what(), Exchanger::Origin::kHere);
      throw CommunicationError(group_.full_text(call_.card, error.what()));
    }
  }

 private:
  LinkedCommunicator& group_;
  Call call_;
  int channel_;
  CardMessage card_;
  std::vector<Exchanger::Pending> pending_;  // the card; empty once waited for
  int exceptions_ = std::uncaught_exceptions();
};

namespace {

class DoneWork : public Work {
 public:
  void wait() override {}
};

}  // namespace

LinkedCommunicator::LinkedCommunicator(GroupName group, std::unique_ptr<Links> links, std::chrono::milliseconds timeout)
    : CheckedCommunicator(group),
      exceptions_(std::uncaught_exceptions()),
      exchanger_(std::move(group), std::move(links), timeout),
      messages_sent_(size()),
      messages_received_(size()) {}

LinkedCommunicator::~LinkedCommunicator() {
  if (std::uncaught_exceptions() > exceptions_) exchanger_.fail(kLeft, Exchanger::Origin::kHere);
}

Handle LinkedCommunicator::start(Call call) {
  if (const std::string reason = exchanger_.failure(); !reason.empty()) {
    throw CommunicationError(full_text(call.card, reason));
  }
  if (call.card.operation == Operation::kSend || call.card.operation == Operation::kReceive) {
    return start_message(std::move(call));
  }
  auto item = std::make_shared<Item>();
  item->call = std::move(call);
  collectives_.post([this, item] {
    std::string wrong = exchanger_.failure();
    if (wrong.empty()) {
      try {
        perform(item->call);
      } catch (const std::exception& error) {
        wrong = error.what();
        exchanger_.fail(wrong, Exchanger::Origin::kHere);
      }
    }
    const std::lock_guard lock(item->mutex);
    item->done = true;
    if (!wrong.empty()) item->failure = full_text(item->call.card, wrong);
    item->changed.notify_all();
  });
  return std::make_unique<CollectiveWork>(*this, std::move(item));
}

Handle LinkedCommunicator::start_message(Call call) {
  const CallCard card = call.card;
  try {
    if (card.operation == Operation::kReceive) {
      const int64_t message = messages_received_[call.peer]++;
      return std::make_unique<ReceiveWork>(*this, std::move(call), message);
    }
    send_message(call);
    return std::make_unique<DoneWork>();
  } catch (const CommunicationError& error) {
    exchanger_.fail(error.what(), Exchanger::Origin::kHere);
    throw CommunicationError(full_text(card, error.what()));
  }
}

void LinkedCommunicator::send_message(const Call& call) {
  struct Message {
    CardMessage card;
    std::vector<std::byte> data;
    std::vector<Exchanger::Pending> pending;
  };
  auto message = std::make_shared<Message>();
  message->card = {call.card, call.card.count, 0};
  const auto* data = static_cast<const std::byte*>(call.source.data);
  message->data.assign(data, data + call.source.bytes());
  const int channel = card_channel(messages_sent_[call.peer]++);
  exchanger_.post(message->pending, {call.peer, &message->card, sizeof(CardMessage)}, channel,
                  Exchanger::Direction::kSend);
  exchanger_.post(message->pending, {call.peer, message->data.data(), call.source.bytes()}, channel + 1,
                  Exchanger::Direction::kSend);
  messages_.post([this, message] {
    try {
      exchanger_.wait_for(message->pending);
    } catch (const CommunicationError& error) {
      exchanger_.fail(error.what(), Exchanger::Origin::kHere);
    }
    message->pending.clear();
  });
}

void LinkedCommunicator::perform(const Call& call) {
  switch (call.card.operation) {
    case Operation::kAllReduce:
      return all_reduce(call);
    case Operation::kReduceScatter:
      return reduce_scatter(call);
    case Operation::kAllGather:
      return all_gather(call);
    case Operation::kAllToAll:
      return all_to_all(call);
    case Operation::kBroadcast:
      return broadcast(call);
    case Operation::kSend:
    case Operation::kReceive:
    case Operation::kBarrier:
      return exchange_cards(call);
  }
}

void LinkedCommunicator::first_exchange(const Call& call, const std::vector<Exchanger::Piece>& sent,
                                        const std::vector<Exchanger::Piece>& received) {
  // What is sent waits at its sender until the receiver, whose cards fit, asks for it.
  std::vector<Exchanger::Pending> pending;
  for (const auto& piece : sent) exchanger_.post(pending, piece, kDataChannel, Exchanger::Direction::kSend);
  exchange_cards(call);
  for (const auto& piece : received) exchanger_.post(pending, piece, kDataChannel, Exchanger::Direction::kReceive);
  exchanger_.wait_for(pending);
}

void LinkedCommunicator::exchange_cards(const Call& call) {
  const bool parts = call.card.operation == Operation::kAllToAll;
  std::vector<CardMessage> sent(size(), CardMessage{call.card, 0, 0}), received(size());
  received[rank()] = sent[rank()];
  std::vector<Exchanger::Piece> out, in;
  for (int peer = 0; peer < size(); ++peer) {
    if (peer == rank()) continue;
    if (parts) {
      sent[peer].sent = call.send_counts[peer];
      sent[peer].expected = call.receive_counts[peer];
    }
    out.push_back({peer, &sent[peer], sizeof(CardMessage)});
    in.push_back({peer, &received[peer], sizeof(CardMessage)});
  }
  exchanger_.exchange(out, in, kCardChannel);
  std::vector<CallCard> cards;
  for (const CardMessage& message : received) cards.push_back(message.card);
  std::string wrong = mismatch(group(), cards);
  for (int peer = 0; parts && peer < size() && wrong.empty(); ++peer) {
    if (peer == rank()) continue;
    wrong = part_mismatch(group(), rank(), call.card, sent[peer].sent, peer, cards[peer], received[peer].expected);
    if (wrong.empty()) {
      wrong = part_mismatch(group(), peer, cards[peer], received[peer].sent, rank(), call.card, sent[peer].expected);
    }
  }
  if (!wrong.empty()) throw CommunicationError(wrong);
}

void LinkedCommunicator::sum_own_part(const Call& call, const std::vector<int64_t>& begins, void* own) {
  const mesh::ElementType type = call.card.type;
  const int64_t size_of = mesh::element_size(type);
  const int64_t count = begins[rank() + 1] - begins[rank()];
  std::vector<const void*> sources;
  std::vector<Exchanger::Piece> out, in;
  std::byte* next = room(count * size_of * (size() - 1));
  for (int peer = 0; peer < size(); ++peer) {
    if (peer == rank()) {
      sources.push_back(at(call.source.data, begins[peer], type));
      continue;
    }
    out.push_back({peer, at(call.source.data, begins[peer], type), (begins[peer + 1] - begins[peer]) * size_of});
    in.push_back({peer, next, count * size_of});
    sources.push_back(next);
    next += count * size_of;
  }
  first_exchange(call, out, in);
  void* const target[] = {own};
  reduce(call.card.reduction, type, sources, target, count);
}

void LinkedCommunicator::all_reduce_small(const Call& call) {
  std::byte* const all = room(call.target.bytes() * size());
  std::vector<const void*> sources;
  std::vector<Exchanger::Piece> out, in;
  for (int peer = 0; peer < size(); ++peer) {
    std::byte* theirs = all + peer * call.target.bytes();
    sources.push_back(peer == rank() ? call.target.data : theirs);
    if (peer == rank()) continue;
    out.push_back({peer, call.target.data, call.target.bytes()});
    in.push_back({peer, theirs, call.target.bytes()});
  }
  first_exchange(call, out, in);
  void* const target[] = {call.target.data};
  reduce(call.card.reduction, call.card.type, sources, target, call.card.count);
}

void LinkedCommunicator::all_reduce(const Call& call) {
  const mesh::ElementType type = call.card.type;
  const int64_t size_of = mesh::element_size(type);
  if (call.target.bytes() <= kSmallBytes) return all_reduce_small(call);
  std::vector<int64_t> begins;
  for (int peer = 0; peer <= size(); ++peer) begins.push_back(call.card.count * peer / size());
  std::byte* own = at(call.target.data, begins[rank()], type);
  sum_own_part(call, begins, own);
  std::vector<Exchanger::Piece> out, in;
  for (int peer = 0; peer < size(); ++peer) {
    if (peer == rank()) continue;
    out.push_back({peer, own, (begins[rank() + 1] - begins[rank()]) * size_of});
    in.push_back({peer, at(call.target.data, begins[peer], type), (begins[peer + 1] - begins[peer]) * size_of});
  }
  exchanger_.exchange(out, in, kDataChannel);
}

void LinkedCommunicator::reduce_scatter(const Call& call) {
  sum_own_part(call, part_begins(call.send_counts), call.target.data);
}

void LinkedCommunicator::all_gather(const Call& call) {
  const std::vector<int64_t> begins = part_begins(call.receive_counts);
  const int64_t size_of = mesh::element_size(call.card.type);
  std::vector<Exchanger::Piece> out, in;
  for (int peer = 0; peer < size(); ++peer) {
    std::byte* part = at(call.target.data, begins[peer], call.card.type);
    if (peer == rank()) {
      copy_bytes(part, call.source.data, call.source.bytes());
    } else {
      out.push_back({peer, const_cast<void*>(call.source.data), call.source.bytes()});
      in.push_back({peer, part, call.receive_counts[peer] * size_of});
    }
  }
  first_exchange(call, out, in);
}

void LinkedCommunicator::all_to_all(const Call& call) {
  const std::vector<int64_t> from = part_begins(call.send_counts), to = part_begins(call.receive_counts);
  const int64_t size_of = mesh::element_size(call.card.type);
  std::vector<Exchanger::Piece> out, in;
  for (int peer = 0; peer < size(); ++peer) {
    std::byte* sent = at(call.source.data, from[peer], call.card.type);
    std::byte* received = at(call.target.data, to[peer], call.card.type);
    if (peer == rank()) {
      copy_bytes(received, sent, call.send_counts[peer] * size_of);
    } else {
      out.push_back({peer, sent, call.send_counts[peer] * size_of});
      in.push_back({peer, received, call.receive_counts[peer] * size_of});
    }
  }
  first_exchange(call, out, in);
}

void LinkedCommunicator::broadcast(const Call& call) {
  std::vector<Exchanger::Piece> out, in;
  const int root = call.card.root;
  for (int peer = 0; rank() == root && peer < size(); ++peer) {
    if (peer != root) out.push_back({peer, call.target.data, call.target.bytes()});
  }
  if (rank() != root) in.push_back({root, call.target.data, call.target.bytes()});
  first_exchange(call, out, in);
}

std::byte* LinkedCommunicator::room(int64_t bytes) {
  if (bytes > room_bytes_) {
    room_ = std::make_unique_for_overwrite<std::byte[]>(static_cast<size_t>(bytes));
    room_bytes_ = bytes;
  }
  return room_.get();
}

std::string LinkedCommunicator::full_text(const CallCard& card, const std::string& reason) const {
  return fmt::format("{} in group {}, rank {}: {}", card.text(), name(), group().ranks[rank()], reason);
}

}  // namespace weft::comm
