#include "execute/ranks.h"

#include <algorithm>
#include <initializer_list>

#include "base/check.h"

namespace weft::execute {
namespace {

// The axes with these names that have more than one rank: a group of one needs no axis.
mesh::AxisSet axes(const mesh::Mesh& mesh, std::initializer_list<std::string_view> names) {
  mesh::AxisSet set = 0;
  for (size_t axis = 0; axis < mesh.axes.size(); ++axis) {
    if (mesh.axes[axis].size > 1 && std::ranges::find(names, mesh.axes[axis].name) != names.end()) {
      set |= mesh::axis_bit(axis);
    }
  }
  return set;
}

}  // namespace

Ranks::Ranks(const schedule::Layout& layout, comm::World& world)
    : layout_(layout),
      sets_(sets_of(layout)),
      groups_(world, layout.mesh(),
              {sets_.world, sets_.role, sets_.pipeline, sets_.tensor, sets_.context, sets_.shards, sets_.replicas,
               sets_.copies, sets_.holders}),
      pipeline_backward_(
          world.make_group(groups_.device_mesh().members(sets_.pipeline), sets_.pipeline == 0 ? "none" : "pp back")) {}

Ranks::Sets Ranks::sets_of(const schedule::Layout& layout) {
  const mesh::Mesh mesh = layout.mesh();
  Sets sets{};
  sets.pipeline = axes(mesh, {"pp"});
  sets.role = axes(mesh, {"dp", "fsdp", "cp", "tp"});
  sets.world = sets.pipeline | sets.role;
  sets.tensor = axes(mesh, {"tp"});
  sets.context = axes(mesh, {"cp"});
  sets.shards = layout.shards() > 1 ? axes(mesh, {layout.shard_axis()}) : 0;
  sets.copies = axes(mesh, {"dp", "fsdp", "cp"});
  sets.replicas = sets.copies & ~sets.shards;
  sets.holders = sets.pipeline | sets.shards | sets.tensor;
  return sets;
}

int64_t Ranks::coordinate(std::string_view axis) const {
  const mesh::DeviceMesh& device_mesh = groups_.device_mesh();
  const auto& all = device_mesh.mesh().axes;
  const auto found = std::ranges::find(all, axis, &mesh::Axis::name);
  WEFT_CHECK(found != all.end());
  return device_mesh.coordinates()[static_cast<size_t>(found - all.begin())];
}

nn::StoreLayout Ranks::store_layout(bool strict, const schedule::BucketRoles* roles) const {
  nn::StoreLayout store;
  store.shard.tensor = layout_.tensor;
  store.shard.tensor_rank = coordinate("tp");
  store.shard.context = layout_.context;
  store.shard.context_rank = coordinate("cp");
  store.shard.sequence = layout_.sequence;
  store.shard.strict = strict;
  store.shards = layout_.shards();
  store.shard_index = store.shards == 1 ? 0 : coordinate(layout_.shard_axis());
  if (roles == nullptr) return store;
  for (size_t bucket = 0; bucket < roles->owner.size(); ++bucket) {
    store.owner.push_back(roles->owner[bucket]);
    const bool holds = roles->holds(role(), static_cast<int>(bucket));
    store.held.push_back(!holds                         ? nn::Held::kAbsent
                         : store.owner.back() == role() ? nn::Held::kOwned
                                                        : nn::Held::kBorrowed);
  }
  return store;
}

}  // namespace weft::execute
