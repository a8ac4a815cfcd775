#include "comm/exchanger.h"

#include <fmt/format.h>

namespace weft::comm {
namespace {

constexpr int kNoticeChannel = 0;

}  // namespace

Exchanger::Exchanger(GroupName group, std::unique_ptr<Links> links, std::chrono::milliseconds timeout)
    : group_(std::move(group)), timeout_(timeout), links_(std::move(links)) {
  for (int peer = 0; peer < group_.size(); ++peer) {
    if (peer == group_.rank) continue;
    Notice notice{std::make_unique<NoticeText>(), nullptr};
    try {
      notice.transfer = links_->receive(peer, kNoticeChannel, notice.text->data(), notice.text->size());
      notices_.push_back(std::move(notice));
    } catch (const CommunicationError&) {  // it is gone already, which the first call says
    }
  }
}

void Exchanger::exchange(const std::vector<Piece>& sent, const std::vector<Piece>& received, int channel) {
  std::vector<Pending> pending;
  // Sends first: then gloo's own thread moves the data, and does not spin for a lock that this thread holds meanwhile.
  for (const Piece& piece : sent) post(pending, piece, channel, Direction::kSend);
  for (const Piece& piece : received) post(pending, piece, channel, Direction::kReceive);
  wait_for(pending);
}

void Exchanger::post(std::vector<Pending>& pending, const Piece& piece, int channel, Direction direction) {
  if (piece.bytes == 0) return;
  const auto out = links();
  try {
    pending.push_back({piece.peer, direction == Direction::kSend
                                       ? out->send(piece.peer, channel, piece.data, piece.bytes)
                                       : out->receive(piece.peer, channel, piece.data, piece.bytes)});
  } catch (const CommunicationError& error) {
    throw_lost({piece.peer}, error.what());
  }
}

void Exchanger::wait_for(std::vector<Pending>& pending) {
  std::set<int> late, gone;
  std::string cause;
  Transfer::Deadline until = deadline();
  for (const Pending& each : pending) {
    try {
      const Transfer::Outcome outcome = wait(*each.transfer, until);
      if (outcome == Transfer::Outcome::kCancelled) throw_lost({}, "");
      if (outcome == Transfer::Outcome::kLate) late.insert(each.peer);
    } catch (const CommunicationError& error) {
      if (!failure().empty()) throw_lost({}, "");
      if (gone.empty()) cause = error.what();
      gone.insert(each.peer);
      until = std::chrono::steady_clock::now();  // the others are only asked whether they are gone too
    }
  }
  if (!gone.empty()) throw_lost({gone.begin(), gone.end()}, cause);
  if (late.empty()) return;
  std::vector<int> ranks;
  for (const int peer : late) ranks.push_back(group_.ranks[peer]);
  throw CommunicationError(
      fmt::format("waited {} s for {}", static_cast<double>(timeout_.count()) / 1000, ranks_text(ranks)));
}

Transfer::Outcome Exchanger::wait(Transfer& transfer, Transfer::Deadline deadline) {
  {
    const std::lock_guard lock(mutex_);
    if (!failure_.empty()) return Transfer::Outcome::kCancelled;
    waits_.insert(&transfer);
  }
  struct Leave {
    Exchanger& exchanger;
    Transfer& transfer;
    ~Leave() {
      const std::lock_guard lock(exchanger.mutex_);
      exchanger.waits_.erase(&transfer);
    }
  } const leave{*this, transfer};
  return transfer.wait(deadline);
}

void Exchanger::throw_lost(const std::vector<int>& peers, const std::string& cause) {
  if (const std::string reason = failure(); !reason.empty()) throw CommunicationError(reason);
  // One that failed has said why before it broke the connection.
  if (const std::string notice = read_notice(); !notice.empty()) {
    fail(notice, Origin::kPeer);
    throw CommunicationError(failure());
  }
  std::vector<int> ranks;
  for (const int peer : peers) ranks.push_back(group_.ranks[peer]);
  throw CommunicationError(fmt::format("{} ended ({})", ranks_text(ranks), cause));
}

std::string Exchanger::read_notice() {
  // The notices stay: while a peer's has a place to go to, that peer does not wait for it.
  const std::lock_guard lock(notices_mutex_);
  for (const Notice& notice : notices_) {
    try {
      if (notice.transfer->wait(std::chrono::steady_clock::now()) != Transfer::Outcome::kDone) continue;
      return notice.text->data();
    } catch (const CommunicationError&) {  // that peer is gone without one
    }
  }
  return "";
}

void Exchanger::fail(const std::string& reason, Origin origin) {
  {
    const std::lock_guard lock(mutex_);
    if (!failure_.empty()) return;
    failure_ = reason.empty() ? "aborted" : reason;
    notice_ = origin == Origin::kPeer ? failure_ : fmt::format("rank {}: {}", group_.ranks[group_.rank], failure_);
    for (Transfer* transfer : waits_) transfer->cancel();
  }
  closing_.post([this] { tell_others_and_close(); });
}

void Exchanger::tell_others_and_close() {
  std::shared_ptr<Links> out;
  NoticeText text{};
  {
    const std::lock_guard lock(mutex_);
    out.swap(links_);
    notice_.copy(text.data(), text.size() - 1);
  }
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  std::vector<std::unique_ptr<Transfer>> transfers;
  for (int peer = 0; peer < group_.size(); ++peer) {
    if (peer == group_.rank) continue;
    try {
      transfers.push_back(out->send(peer, kNoticeChannel, text.data(), text.size()));
    } catch (const CommunicationError&) {  // that peer is gone
    }
  }
  for (const auto& transfer : transfers) {
    try {
      static_cast<void>(transfer->wait(until));
    } catch (const CommunicationError&) {  // that peer is gone
    }
  }
  const std::lock_guard lock(notices_mutex_);
  notices_.clear();  // with them the last connection goes
}

std::string Exchanger::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

std::shared_ptr<Links> Exchanger::links() const {
  const std::lock_guard lock(mutex_);
  if (!links_) throw CommunicationError(failure_);
  return links_;
}

}  // namespace weft::comm
