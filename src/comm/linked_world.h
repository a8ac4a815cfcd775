// A world of processes: makes groups over whatever transport connects their members.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "comm/call.h"
#include "comm/links.h"

namespace weft::comm {

class Connector {
 public:
  virtual ~Connector() = default;
  // Waits until all members have come. `key` is the same for all of them, and no other group of the world has it.
  // CommunicationError if they do not come in time.
  virtual std::unique_ptr<Links> connect(const GroupName& group, const std::string& key) = 0;
};

// Connects once for each group of more than one rank, and does nothing else that the world's size could matter for.
class LinkedWorld : public World {
 public:
  // `timeout`: of the groups' calls.
  LinkedWorld(int rank, int size, std::unique_ptr<Connector> connector, std::chrono::milliseconds timeout);
  ~LinkedWorld() override;

  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return size_; }
  std::unique_ptr<Communicator> make_group(std::span<const int> ranks, const std::string& name) override;
  void abort(const std::string& reason) override;

 private:
  class Registry;  // of the groups that are still there

  const int rank_, size_;
  const std::unique_ptr<Connector> connector_;
  const std::chrono::milliseconds timeout_;
  std::map<std::pair<std::string, std::vector<int>>, int> groups_made_;
  std::shared_ptr<Registry> registry_;
};

}  // namespace weft::comm
