// A list in a run file with one entry a parameter class: kind = "embedding" names the class.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "config/node.h"
#include "model/description.h"

namespace weft::recipe {

// The words of model::parameter_class_name, in its order.
inline constexpr std::array<std::string_view, 6> kClassNames = {"embedding",     "head",   "tied",
                                                                "hidden_matrix", "vector", "expert"};

// The entry of one class, with the fields of Entry (a node with `virtual model::ParameterClass of() const`).
template <class Entry, model::ParameterClass kClass>
struct OfClass final : Entry {
  WEFT_NODE(OfClass, kClassNames[static_cast<size_t>(kClass)])
  [[nodiscard]] model::ParameterClass of() const override { return kClass; }
};

template <class Entry>
[[nodiscard]] const config::KindList& class_kinds() {
  using enum model::ParameterClass;
  static const config::KindList kinds =
      config::KindList::of<OfClass<Entry, kEmbedding>, OfClass<Entry, kHead>, OfClass<Entry, kTied>,
                           OfClass<Entry, kHiddenMatrix>, OfClass<Entry, kVector>, OfClass<Entry, kExpert>>();
  return kinds;
}

// The entry of a class, or null.
template <class Entry>
[[nodiscard]] const Entry* entry_of(const config::SlotList<Entry>& list, model::ParameterClass parameter_class) {
  for (const auto& slot : list.slots) {
    if (slot->of() == parameter_class) return slot.get();
  }
  return nullptr;
}

// InputError naming `path` where a class has two entries.
template <class Entry>
void check_classes(const config::SlotList<Entry>& list, std::string_view path) {
  std::set<model::ParameterClass> seen;
  for (const auto& slot : list.slots) {
    if (!seen.insert(slot->of()).second) throw InputError(fmt::format("{}: {} has two entries", path, slot->kind()));
  }
}

}  // namespace weft::recipe
