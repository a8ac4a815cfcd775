#include "comm/linked_world.h"

#include <mutex>
#include <set>

#include <fmt/format.h>

#include "base/hash.h"
#include "comm/linked_group.h"
#include "comm/one.h"

namespace weft::comm {

class LinkedWorld::Registry {
 public:
  void add(Communicator& group) {
    const std::lock_guard lock(mutex_);
    if (!aborted_.empty()) group.abort(aborted_);
    groups_.insert(&group);
  }
  void remove(Communicator& group) {
    const std::lock_guard lock(mutex_);
    groups_.erase(&group);
  }
  void abort(const std::string& reason) {
    const std::lock_guard lock(mutex_);
    if (aborted_.empty()) aborted_ = reason.empty() ? "aborted" : reason;
    for (Communicator* group : groups_) group->abort(aborted_);
  }
  [[nodiscard]] std::string aborted() const {
    const std::lock_guard lock(mutex_);
    return aborted_;
  }

  // A group that is in the registry as long as it is there.
  class Member : public LinkedCommunicator {
   public:
    Member(GroupName group, std::unique_ptr<Links> links, std::chrono::milliseconds timeout,
           std::shared_ptr<Registry> registry)
        : LinkedCommunicator(std::move(group), std::move(links), timeout), registry_(std::move(registry)) {
      registry_->add(*this);
    }
    Member(const Member&) = delete;
    Member& operator=(const Member&) = delete;
    ~Member() override { registry_->remove(*this); }

   private:
    std::shared_ptr<Registry> registry_;
  };

 private:
  mutable std::mutex mutex_;
  std::set<Communicator*> groups_;
  std::string aborted_;
};

LinkedWorld::LinkedWorld(int rank, int size, std::unique_ptr<Connector> connector, std::chrono::milliseconds timeout)
    : rank_(rank),
      size_(size),
      connector_(std::move(connector)),
      timeout_(timeout),
      registry_(std::make_shared<Registry>()) {}

LinkedWorld::~LinkedWorld() = default;

std::unique_ptr<Communicator> LinkedWorld::make_group(std::span<const int> ranks, const std::string& name) {
  GroupName group = checked_group(ranks, name, rank_, size_);
  if (group.size() == 1) return make_group_of_one(name, rank_);
  if (const std::string reason = registry_->aborted(); !reason.empty()) {
    throw CommunicationError(fmt::format("group {}, rank {}: {}", name, rank_, reason));
  }
  const int turn = groups_made_[{name, group.ranks}]++;
  const std::string key = fmt::format("{}.{}.{}", name, hash_text(xxh3(std::as_bytes(ranks))), turn);
  std::unique_ptr<Links> links = connector_->connect(group, key);
  return std::make_unique<Registry::Member>(std::move(group), std::move(links), timeout_, registry_);
}

void LinkedWorld::abort(const std::string& reason) { registry_->abort(reason); }

}  // namespace weft::comm
