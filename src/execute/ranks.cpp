#include "execute/ranks.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/check.h"

namespace weft::execute {

Ranks::Ranks(const schedule::Layout& layout, comm::World& world)
    : layout_(layout), mesh_(layout.mesh()), rank_(world.rank()) {
  WEFT_CHECK(world.size() == layout.ranks());
  const std::string shard_axis(layout.shard_axis());
  const bool divided = layout.shards() > 1;
  std::vector<std::string> replica_axes = {"dp", "fsdp", "cp"};
  if (divided) std::erase(replica_axes, shard_axis);
  world_ = make(world, {"dp", "fsdp", "cp", "tp"});
  tensor_ = make(world, {"tp"});
  context_ = make(world, {"cp"});
  shards_ = make(world, divided ? std::vector<std::string>{shard_axis} : std::vector<std::string>{});
  replicas_ = make(world, replica_axes);
  copies_ = make(world, {"dp", "fsdp", "cp"});
  holders_ = make(world, divided ? std::vector<std::string>{shard_axis, "tp"} : std::vector<std::string>{"tp"});
}

int64_t Ranks::coordinate(const std::string& axis) const {
  int64_t rest = rank_;
  for (size_t i = mesh_.axes.size(); i-- > 0;) {
    if (mesh_.axes[i].name == axis) return rest % mesh_.axes[i].size;
    rest /= mesh_.axes[i].size;
  }
  WEFT_CHECK(false);
}

nn::StoreLayout Ranks::store_layout(bool strict) const {
  nn::StoreLayout store;
  store.shard.tensor = layout_.tensor;
  store.shard.tensor_rank = coordinate("tp");
  store.shard.context = layout_.context;
  store.shard.context_rank = coordinate("cp");
  store.shard.sequence = layout_.sequence;
  store.shard.strict = strict;
  store.shards = layout_.shards();
  store.shard_index = store.shards == 1 ? 0 : coordinate(std::string(layout_.shard_axis()));
  return store;
}

std::vector<int> Ranks::members(const std::vector<std::string>& axes) const {
  std::vector<int> ranks = {0};
  int64_t rest = rank_;
  int stride = 1;
  for (size_t i = mesh_.axes.size(); i-- > 0;) {
    const int size = mesh_.axes[i].size;
    const int own = static_cast<int>(rest % size) * stride;
    rest /= size;
    const bool varies = std::ranges::find(axes, mesh_.axes[i].name) != axes.end();
    std::vector<int> next;
    for (int index = 0; index < (varies ? size : 1); ++index) {
      for (const int rank : ranks) next.push_back(rank + (varies ? index * stride : own));
    }
    ranks = std::move(next);
    stride *= size;
  }
  return ranks;
}

std::unique_ptr<comm::Communicator> Ranks::make(comm::World& world, const std::vector<std::string>& axes) const {
  std::vector<std::string> named;
  for (const mesh::Axis& axis : mesh_.axes) {
    if (axis.size > 1 && std::ranges::find(axes, axis.name) != axes.end()) named.push_back(axis.name);
  }
  return world.make_group(members(axes), named.empty() ? "self" : fmt::format("{}", fmt::join(named, "+")));
}

}  // namespace weft::execute
