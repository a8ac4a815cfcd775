// What is done with whole trees: walking, typed replacement, comparison.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <typeinfo>
#include <vector>

#include "config/node.h"

namespace weft::config {

// "model" and "width" -> "model.width"; an empty path leaves the name.
[[nodiscard]] std::string join_path(const std::string& path, const std::string& name);

// Calls `enter` for every field of the tree, parents first, with its full path ("model.layer.mlp.ffn",
// "phases.0.rate"). Slots and children are fields too; their own fields follow.
void visit(Node& root, const std::function<void(const std::string& path, Field& field)>& enter,
           const std::string& path = "");
// The same for a frozen tree; the field may only be read.
void visit(const Node& root, const std::function<void(const std::string& path, const Field& field)>& enter,
           const std::string& path = "");

// Tells every Required its path, so that reading it unset names it.
void name_paths(Node& root, const std::string& path = "");

// The paths of required fields that are not set.
[[nodiscard]] std::vector<std::string> unset_fields(const Node& root);

// A difference between two trees, as texts: "(none)" where a side has no such field.
struct Difference {
  std::string path;
  Hint hint;
  std::string before, after;
};
// All fields (kinds of slots included) that differ.
[[nodiscard]] std::vector<Difference> differences(const Node& before, const Node& after);

// The slots of a tree, children before parents, so that a replacement may hold what it replaces.
void visit_slots(Node& root, const std::function<void(AnySlot& slot)>& leave);

enum class Match { kExactKind, kOrDerived };

// Puts a New wherever a slot holds a Target; `merge(old, now)` carries over what should stay. The root itself is in no
// slot and stays. Returns how many were replaced.
template <class Target, class New, class Merge>
int replace(Node& root, const New& replacement, Merge merge, Match match = Match::kExactKind) {
  int count = 0;
  visit_slots(root, [&](AnySlot& slot) {
    auto* old = dynamic_cast<Target*>(slot.node());
    if (old == nullptr || (match == Match::kExactKind && typeid(*slot.node()) != typeid(Target))) return;
    auto now = std::make_unique<New>(replacement);
    merge(*old, *now);
    slot.put(std::move(now));
    ++count;
  });
  return count;
}

// The candidates nearest to a mistyped name, best first; empty if none is near (edit distance above a third of the
// length).
[[nodiscard]] std::vector<std::string> nearest(std::string_view name, const std::vector<std::string>& candidates);
// ", did you mean a or b?" or, where nothing is near, "; there are: a, b, c".
[[nodiscard]] std::string suggestion(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace weft::config
