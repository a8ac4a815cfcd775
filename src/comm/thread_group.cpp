#include "comm/thread_group.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "comm/sums.h"

namespace weft::comm {

class ThreadGroup::Meeting {
 public:
  Meeting(Place place, std::vector<int> members)
      : place_(place), members_(std::move(members)), calls_(members_.size()) {}

  Place place_;
  std::vector<int> members_;  // all of the group, or sender and receiver
  std::vector<std::optional<Call>> calls_;
  size_t arrived_ = 0;
  size_t left_ = 0;
  std::condition_variable changed_;
  std::vector<Piece> pieces_;
  size_t taken_ = 0;    // of the pieces
  size_t running_ = 0;  // pieces that some thread works on
  size_t done_ = 0;

  [[nodiscard]] size_t slot(int member) const {
    return static_cast<size_t>(std::find(members_.begin(), members_.end(), member) - members_.begin());
  }
  [[nodiscard]] bool complete() const { return arrived_ == members_.size(); }
  [[nodiscard]] bool finished() const { return complete() && done_ == pieces_.size(); }
};

namespace {

using Calls = std::vector<std::optional<Call>>;

// A piece's bytes: large enough that taking it costs nothing, small enough that all who wait have some.
constexpr int64_t kPieceBytes = int64_t{1} << 18;

const std::byte* at(const void* data, int64_t element, mesh::ElementType type) {
  return static_cast<const std::byte*>(data) + element * mesh::element_size(type);
}
std::byte* at(void* data, int64_t element, mesh::ElementType type) {
  return static_cast<std::byte*>(data) + element * mesh::element_size(type);
}

int64_t begin_of(const std::vector<int64_t>& counts, int member) {
  int64_t begin = 0;
  for (int before = 0; before < member; ++before) begin += counts[before];
  return begin;
}

void cut(std::vector<Piece>& pieces, int from, int to, int64_t count, mesh::ElementType type) {
  const int64_t length = kPieceBytes / mesh::element_size(type);
  for (int64_t begin = 0; begin < count; begin += length) {
    pieces.push_back({from, to, begin, std::min(begin + length, count)});
  }
}

std::vector<Piece> cut(const Calls& calls) {
  const Call& first = *calls[0];
  const int size = static_cast<int>(calls.size());
  std::vector<Piece> pieces;
  for (int member = 0; member < size; ++member) {
    switch (first.card.operation) {
      case Operation::kAllReduce:
      case Operation::kBroadcast:
      case Operation::kSend:
      case Operation::kReceive:
        if (member == 0) cut(pieces, first.card.root, 0, first.card.count, first.card.type);
        break;
      case Operation::kReduceScatter:
        cut(pieces, 0, member, first.send_counts[member], first.card.type);
        break;
      case Operation::kAllGather:
        cut(pieces, member, 0, first.receive_counts[member], first.card.type);
        break;
      case Operation::kAllToAll:
        for (int to = 0; to < size; ++to) cut(pieces, member, to, calls[member]->send_counts[to], first.card.type);
        break;
      case Operation::kBarrier:
        break;
    }
  }
  return pieces;
}

void copy_piece(const Source& source, int64_t source_begin, const Target& target, int64_t target_begin, Piece piece) {
  const std::byte* from = at(source.data, source_begin + piece.begin, source.type);
  std::byte* to = at(target.data, target_begin + piece.begin, target.type);
  const auto bytes = static_cast<size_t>((piece.end - piece.begin) * mesh::element_size(source.type));
  if (from != to) std::memcpy(to, from, bytes);
}

void reduce_piece(const Calls& calls, Piece piece) {
  const Call& first = *calls[0];
  const bool scatters = first.card.operation == Operation::kReduceScatter;
  const int64_t begin = (scatters ? begin_of(first.send_counts, piece.to) : 0) + piece.begin;
  std::vector<const void*> sources;
  std::vector<void*> targets;
  for (const auto& call : calls) {
    sources.push_back(at(call->source.data, begin, first.card.type));
    if (!scatters) targets.push_back(at(call->target.data, begin, first.card.type));
  }
  if (scatters) targets.push_back(at(calls[piece.to]->target.data, piece.begin, first.card.type));
  reduce(first.card.reduction, first.card.type, sources, targets, piece.end - piece.begin);
}

void do_piece(const Calls& calls, Piece piece) {
  const Call& first = *calls[0];
  switch (first.card.operation) {
    case Operation::kAllReduce:
    case Operation::kReduceScatter:
      return reduce_piece(calls, piece);
    case Operation::kAllGather: {
      const int64_t begin = begin_of(first.receive_counts, piece.from);
      for (const auto& call : calls) copy_piece(calls[piece.from]->source, 0, call->target, begin, piece);
      return;
    }
    case Operation::kAllToAll:
      return copy_piece(calls[piece.from]->source, begin_of(calls[piece.from]->send_counts, piece.to),
                        calls[piece.to]->target, begin_of(calls[piece.to]->receive_counts, piece.from), piece);
    case Operation::kBroadcast:
      for (const auto& call : calls) copy_piece(calls[piece.from]->source, 0, call->target, 0, piece);
      return;
    case Operation::kSend:
      return copy_piece(calls[0]->source, 0, calls[1]->target, 0, piece);
    case Operation::kReceive:
    case Operation::kBarrier:
      return;
  }
}

// "" if the members' calls fit together.
std::string mismatch_of(const GroupName& group, const std::vector<int>& members, const Calls& calls) {
  const CallCard& first = calls[0]->card;
  if (first.operation == Operation::kSend) {
    return part_mismatch(group, members[0], first, first.count, members[1], calls[1]->card, calls[1]->card.count);
  }
  std::vector<CallCard> cards;
  for (const auto& call : calls) cards.push_back(call->card);
  std::string wrong = mismatch(group, cards);
  if (first.operation != Operation::kAllToAll) return wrong;
  for (size_t from = 0; from < calls.size(); ++from) {
    for (size_t to = 0; to < calls.size() && wrong.empty(); ++to) {
      wrong = part_mismatch(group, members[from], cards[from], calls[from]->send_counts[to], members[to], cards[to],
                            calls[to]->receive_counts[from]);
    }
  }
  return wrong;
}

}  // namespace

ThreadGroup::ThreadGroup(std::string name, std::vector<int> ranks, std::chrono::milliseconds timeout)
    : name_(std::move(name)), ranks_(std::move(ranks)), timeout_(timeout) {}

std::shared_ptr<ThreadGroup::Meeting> ThreadGroup::arrive(int member, Place place, Call call) {
  std::unique_lock lock(mutex_);
  if (!failure_.empty()) {
    throw CommunicationError(
        fmt::format("{} in group {}, rank {}: {}", call.card.text(), name_, ranks_[member], failure_));
  }
  std::shared_ptr<Meeting>& meeting = meetings_[place];
  if (!meeting) {
    std::vector<int> members;
    if (call.peer < 0) {
      for (int every = 0; every < static_cast<int>(ranks_.size()); ++every) members.push_back(every);
    } else if (call.card.operation == Operation::kSend) {
      members = {member, call.peer};
    } else {
      members = {call.peer, member};
    }
    meeting = std::make_shared<Meeting>(place, std::move(members));
  }
  const std::shared_ptr<Meeting> own = meeting;
  own->calls_[own->slot(member)] = std::move(call);
  ++own->arrived_;
  if (own->complete()) {
    start(*own);
    // What is small is done here, so that those who wait are woken once; what is large is left to them.
    if (failure_.empty() && own->pieces_.size() == 1) work(*own, lock);
    own->changed_.notify_all();
  }
  return own;
}

void ThreadGroup::start(Meeting& meeting) {
  const std::string wrong = mismatch_of(seen_by(0), meeting.members_, meeting.calls_);
  if (wrong.empty()) {
    meeting.pieces_ = cut(meeting.calls_);
  } else {
    meeting.pieces_.resize(1);  // never done
    fail(wrong);
  }
}

void ThreadGroup::work(Meeting& meeting, std::unique_lock<std::mutex>& lock) {
  while (failure_.empty() && meeting.taken_ < meeting.pieces_.size()) {
    const Piece piece = meeting.pieces_[meeting.taken_++];
    ++meeting.running_;
    lock.unlock();
    do_piece(meeting.calls_, piece);
    lock.lock();
    --meeting.running_;
    ++meeting.done_;
    if (meeting.finished() || !failure_.empty()) meeting.changed_.notify_all();
  }
}

void ThreadGroup::finish(Meeting& meeting, int member) {
  std::unique_lock lock(mutex_);
  const auto deadline = std::chrono::steady_clock::now() + timeout_;
  while (!meeting.finished()) {
    if (!failure_.empty()) {
      // Others may still read or write this member's memory.
      meeting.changed_.wait(lock, [&] { return meeting.running_ == 0; });
      break;
    }
    if (meeting.complete() && meeting.taken_ < meeting.pieces_.size()) {
      work(meeting, lock);
      continue;
    }
    if (meeting.complete()) {
      meeting.changed_.wait(lock);
    } else if (meeting.changed_.wait_until(lock, deadline) == std::cv_status::timeout && !meeting.complete() &&
               failure_.empty()) {
      fail(missing_text(meeting, member));
    }
  }
  const bool finished = meeting.finished();
  const std::string failure = failure_;
  const std::string call = meeting.calls_[meeting.slot(member)]->card.text();
  if (++meeting.left_ == meeting.members_.size()) meetings_.erase(meeting.place_);
  if (!finished) {
    throw CommunicationError(fmt::format("{} in group {}, rank {}: {}", call, name_, ranks_[member], failure));
  }
}

std::string ThreadGroup::missing_text(const Meeting& meeting, int member) const {
  std::vector<int> missing;
  for (size_t slot = 0; slot < meeting.members_.size(); ++slot) {
    if (!meeting.calls_[slot]) missing.push_back(ranks_[meeting.members_[slot]]);
  }
  return fmt::format("rank {} waited {} s for {} to make this call", ranks_[member],
                     static_cast<double>(timeout_.count()) / 1000, ranks_text(missing));
}

void ThreadGroup::fail(const std::string& reason) {
  if (!failure_.empty()) return;
  failure_ = reason.empty() ? "aborted" : reason;
  for (const auto& [place, meeting] : meetings_) meeting->changed_.notify_all();
}

void ThreadGroup::abort(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  fail(reason);
}

}  // namespace weft::comm
