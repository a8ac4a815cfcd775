// The groups of ranks that a layout's traffic runs in, as one rank sees them.
#pragma once

#include <memory>
#include <string_view>

#include "comm/groups.h"
#include "nn/parameter_store.h"
#include "schedule/action.h"
#include "schedule/layout.h"
#include "schedule/roles.h"

namespace weft::execute {

class Ranks {
 public:
  // Makes the groups, in the same order on every rank. The world has as many ranks as the layout (InputError).
  Ranks(const schedule::Layout& layout, comm::World& world);

  [[nodiscard]] const schedule::Layout& layout() const { return layout_; }
  [[nodiscard]] int rank() const { return groups_.device_mesh().rank(); }
  [[nodiscard]] int role() const { return static_cast<int>(coordinate("pp")); }  // in the pipeline
  // Of the data * fsdp ranks that divide a batch, which this one is.
  [[nodiscard]] int64_t batch_rank() const { return coordinate("dp") * layout_.fsdp + coordinate("fsdp"); }
  // `roles`: which pipeline role holds which parameters; null: this one all.
  [[nodiscard]] nn::StoreLayout store_layout(bool strict, const schedule::BucketRoles* roles = nullptr) const;

  comm::Communicator& world() { return groups_.group(sets_.world); }
  comm::Communicator& role_ranks() { return groups_.group(sets_.role); }  // with the same stages
  // One rank a role, in their order. Gradients have a channel of their own, so that what goes forward and what goes
  // back between the same two ranks needs no common order.
  comm::Communicator& pipeline(schedule::Direction direction) {
    return direction == schedule::Direction::kForward ? groups_.group(sets_.pipeline) : *pipeline_backward_;
  }
  comm::Communicator& tensor() { return groups_.group(sets_.tensor); }
  comm::Communicator& context() { return groups_.group(sets_.context); }
  comm::Communicator& shards() { return groups_.group(sets_.shards); }      // that divide a bucket among them
  comm::Communicator& replicas() { return groups_.group(sets_.replicas); }  // whose gradients of one shard are added
  comm::Communicator& copies() { return groups_.group(sets_.copies); }  // that hold the same slices, or shards of them
  comm::Communicator& holders() { return groups_.group(sets_.holders); }  // that hold different parts of the parameters

 private:
  struct Sets {
    mesh::AxisSet world, role, pipeline, tensor, context, shards, replicas, copies, holders;
  };
  static Sets sets_of(const schedule::Layout& layout);
  [[nodiscard]] int64_t coordinate(std::string_view axis) const;

  schedule::Layout layout_;
  Sets sets_;
  comm::Groups groups_;
  std::unique_ptr<comm::Communicator> pipeline_backward_;
};

}  // namespace weft::execute
