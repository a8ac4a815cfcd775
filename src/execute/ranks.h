// The groups of ranks that a layout's traffic runs in, as one rank sees them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "nn/parameter_store.h"
#include "schedule/layout.h"

namespace weft::execute {

class Ranks {
 public:
  // Makes the groups, in the same order on every rank. The world has as many ranks as the layout (WEFT_CHECK).
  Ranks(const schedule::Layout& layout, comm::World& world);

  [[nodiscard]] const schedule::Layout& layout() const { return layout_; }
  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int64_t coordinate(const std::string& axis) const;
  // Of the data * fsdp ranks that divide a batch, which this one is.
  [[nodiscard]] int64_t batch_rank() const { return coordinate("dp") * layout_.fsdp + coordinate("fsdp"); }
  [[nodiscard]] nn::StoreLayout store_layout(bool strict) const;

  comm::Communicator& world() { return *world_; }
  comm::Communicator& tensor() { return *tensor_; }
  comm::Communicator& context() { return *context_; }
  comm::Communicator& shards() { return *shards_; }      // that divide a bucket among them
  comm::Communicator& replicas() { return *replicas_; }  // whose gradients of one shard are added
  comm::Communicator& copies() { return *copies_; }      // that hold the same slice of every parameter, or shards of it
  comm::Communicator& holders() { return *holders_; }    // that hold different parts of the parameters

 private:
  // The members' world ranks of this rank's group over these axes, ascending.
  [[nodiscard]] std::vector<int> members(const std::vector<std::string>& axes) const;
  std::unique_ptr<comm::Communicator> make(comm::World& world, const std::vector<std::string>& axes) const;

  schedule::Layout layout_;
  mesh::Mesh mesh_;
  int rank_ = 0;
  std::unique_ptr<comm::Communicator> world_, tensor_, context_, shards_, replicas_, copies_, holders_;
};

}  // namespace weft::execute
