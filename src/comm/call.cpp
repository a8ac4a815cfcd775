#include "comm/call.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/check.h"
#include "base/hash.h"

namespace weft::comm {
namespace {

[[noreturn]] void fail(const GroupName& group, const CallCard& card, const std::string& why) {
  throw CommunicationError(
      fmt::format("{} in group {}, rank {}: {}", card.text(), group.name, group.ranks[group.rank], why));
}

CallCard make_card(Operation operation, mesh::ElementType type, int64_t count, std::string_view what) {
  CallCard card;
  card.operation = operation;
  card.type = type;
  card.count = count;
  what.copy(card.what, sizeof(card.what) - 1);
  return card;
}

uint64_t hash_of(std::span<const int64_t> counts) { return xxh3(std::as_bytes(counts)); }

bool reduces(Operation operation) {
  return operation == Operation::kAllReduce || operation == Operation::kReduceScatter;
}

void check_reduction(const GroupName& group, const CallCard& card) {
  if (card.type == mesh::ElementType::kFloat16 || card.type == mesh::ElementType::kUInt8) {
    fail(group, card, "reductions take f32, f64, bf16, i64 and i32");
  }
}

// Parts for (or from) all members, which fill `count` elements of memory.
void check_parts(const GroupName& group, const CallCard& card, std::span<const int64_t> counts, int64_t count,
                 std::string_view memory) {
  if (static_cast<int>(counts.size()) != group.size()) {
    fail(group, card, fmt::format("{} counts are given for {} members", counts.size(), group.size()));
  }
  if (std::any_of(counts.begin(), counts.end(), [](int64_t part) { return part < 0; })) {
    fail(group, card, fmt::format("the counts [{}] hold a negative one", fmt::join(counts, ", ")));
  }
  const int64_t sum = std::accumulate(counts.begin(), counts.end(), int64_t{0});
  if (sum != count) {
    fail(group, card,
         fmt::format("the counts [{}] make {} elements, the {} has {}", fmt::join(counts, ", "), sum, memory, count));
  }
}

void check_equal_types(const GroupName& group, const CallCard& card, Source source, Target target) {
  if (source.type == target.type) return;
  fail(group, card, fmt::format("the source is {}, the target {}", mesh::text(source.type), mesh::text(target.type)));
}

void check_own_part(const GroupName& group, const CallCard& card, int64_t own, int64_t expected) {
  if (own == expected) return;
  fail(group, card, fmt::format("the own part has {} elements, its count is {}", own, expected));
}

void check_member(const GroupName& group, const CallCard& card, int member, std::string_view role) {
  if (member < 0 || member >= group.size()) {
    fail(group, card, fmt::format("the {} {} is not below the group's size {}", role, member, group.size()));
  }
}

void check_peer(const GroupName& group, const CallCard& card, int peer) {
  check_member(group, card, peer, "peer");
  if (peer == group.rank) fail(group, card, "the peer is the member itself");
}

bool matches(const CallCard& one, const CallCard& other) {
  return one.operation == other.operation && one.type == other.type && one.reduction == other.reduction &&
         one.root == other.root && one.count == other.count && one.parts == other.parts &&
         std::string_view(one.what) == other.what;
}

}  // namespace

std::string_view text(Operation operation) {
  switch (operation) {
    case Operation::kAllReduce:
      return "all_reduce";
    case Operation::kReduceScatter:
      return "reduce_scatter";
    case Operation::kAllGather:
      return "all_gather";
    case Operation::kAllToAll:
      return "all_to_all";
    case Operation::kBroadcast:
      return "broadcast";
    case Operation::kSend:
      return "send";
    case Operation::kReceive:
      return "receive";
    case Operation::kBarrier:
      return "barrier";
  }
  WEFT_CHECK(false);
}

std::string CallCard::text() const {
  std::string all(comm::text(operation));
  if (reduces(operation)) all += reduction == Reduction::kSum ? " (sum)" : " (max)";
  if (operation == Operation::kAllToAll) {
    all += fmt::format(" of {}", mesh::text(type));
  } else if (operation != Operation::kBarrier) {
    all += fmt::format(" of {} {}", count, mesh::text(type));
  }
  if (operation == Operation::kBroadcast) all += fmt::format(" from member {}", root);
  return all + fmt::format(" \"{}\"", what);
}

std::string mismatch(const GroupName& group, std::span<const CallCard> cards) {
  for (size_t member = 1; member < cards.size(); ++member) {
    if (matches(cards[0], cards[member])) continue;
    const bool same_text = cards[0].text() == cards[member].text();
    return fmt::format("group {}: rank {} calls {}, but rank {} calls {}{}", group.name, group.ranks[0],
                       cards[0].text(), group.ranks[member], cards[member].text(),
                       same_text ? ", cut into other parts" : "");
  }
  return "";
}

std::string part_mismatch(const GroupName& group, int from, const CallCard& sent, int64_t sent_count, int to,
                          const CallCard& received, int64_t received_count) {
  if (sent_count == received_count && sent.type == received.type && std::string_view(sent.what) == received.what) {
    return "";
  }
  return fmt::format("group {}: rank {} sends rank {} {} {} ({}), which expects {} {} ({})", group.name,
                     group.ranks[from], group.ranks[to], sent_count, mesh::text(sent.type), sent.text(), received_count,
                     mesh::text(received.type), received.text());
}

Handle CheckedCommunicator::all_reduce(Target numbers, Reduction reduction, std::string_view what) {
  Call call{.card = make_card(Operation::kAllReduce, numbers.type, numbers.count, what),
            .source = numbers.source(),
            .target = numbers};
  call.card.reduction = reduction;
  check_reduction(group_, call.card);
  return start(std::move(call));
}

Handle CheckedCommunicator::reduce_scatter(Source numbers, Target own, std::span<const int64_t> counts,
                                           Reduction reduction, std::string_view what) {
  Call call{.card = make_card(Operation::kReduceScatter, numbers.type, numbers.count, what),
            .source = numbers,
            .target = own,
            .send_counts = {counts.begin(), counts.end()}};
  call.card.reduction = reduction;
  call.card.parts = hash_of(counts);
  check_reduction(group_, call.card);
  check_parts(group_, call.card, counts, numbers.count, "source");
  check_own_part(group_, call.card, own.count, counts[group_.rank]);
  check_equal_types(group_, call.card, numbers, own);
  return start(std::move(call));
}

Handle CheckedCommunicator::all_gather(Source own, Target all, std::span<const int64_t> counts, std::string_view what) {
  Call call{.card = make_card(Operation::kAllGather, all.type, all.count, what),
            .source = own,
            .target = all,
            .receive_counts = {counts.begin(), counts.end()}};
  call.card.parts = hash_of(counts);
  check_parts(group_, call.card, counts, all.count, "target");
  check_own_part(group_, call.card, own.count, counts[group_.rank]);
  check_equal_types(group_, call.card, own, all);
  return start(std::move(call));
}

Handle CheckedCommunicator::all_to_all(Source numbers, std::span<const int64_t> send_counts, Target received,
                                       std::span<const int64_t> receive_counts, std::string_view what) {
  Call call{.card = make_card(Operation::kAllToAll, numbers.type, 0, what),
            .source = numbers,
            .target = received,
            .send_counts = {send_counts.begin(), send_counts.end()},
            .receive_counts = {receive_counts.begin(), receive_counts.end()}};
  check_parts(group_, call.card, send_counts, numbers.count, "source");
  check_parts(group_, call.card, receive_counts, received.count, "target");
  check_equal_types(group_, call.card, numbers, received);
  if (send_counts[group_.rank] != receive_counts[group_.rank]) {
    fail(group_, call.card,
         fmt::format("{} elements go to the member itself, which expects {}", send_counts[group_.rank],
                     receive_counts[group_.rank]));
  }
  return start(std::move(call));
}

Handle CheckedCommunicator::broadcast(Target numbers, int root, std::string_view what) {
  Call call{.card = make_card(Operation::kBroadcast, numbers.type, numbers.count, what),
            .source = numbers.source(),
            .target = numbers};
  call.card.root = root;
  check_member(group_, call.card, root, "root");
  return start(std::move(call));
}

Handle CheckedCommunicator::send(Source numbers, int to, std::string_view what) {
  Call call{.card = make_card(Operation::kSend, numbers.type, numbers.count, what), .source = numbers, .peer = to};
  check_peer(group_, call.card, to);
  return start(std::move(call));
}

Handle CheckedCommunicator::receive(Target numbers, int from, std::string_view what) {
  Call call{.card = make_card(Operation::kReceive, numbers.type, numbers.count, what), .target = numbers, .peer = from};
  check_peer(group_, call.card, from);
  return start(std::move(call));
}

Handle CheckedCommunicator::barrier(std::string_view what) {
  return start({.card = make_card(Operation::kBarrier, mesh::ElementType::kUInt8, 0, what)});
}

std::vector<int64_t> part_begins(std::span<const int64_t> counts) {
  std::vector<int64_t> begins(counts.size() + 1, 0);
  std::partial_sum(counts.begin(), counts.end(), begins.begin() + 1);
  return begins;
}

std::string ranks_text(std::span<const int> ranks) {
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", "));
}

GroupName checked_group(std::span<const int> ranks, const std::string& name, int rank, int world_size) {
  GroupName group{name, {ranks.begin(), ranks.end()}};
  const auto own = std::find(ranks.begin(), ranks.end(), rank);
  const bool ascending = std::adjacent_find(ranks.begin(), ranks.end(), std::greater_equal<>()) == ranks.end();
  if (own == ranks.end() || !ascending || ranks.front() < 0 || ranks.back() >= world_size) {
    throw CommunicationError(
        fmt::format("group {} of ranks [{}], made by rank {} of {}: the ranks must be ascending, inside the world, and "
                    "the own one among them",
                    name, fmt::join(ranks, ", "), rank, world_size));
  }
  group.rank = static_cast<int>(own - ranks.begin());
  return group;
}

}  // namespace weft::comm
