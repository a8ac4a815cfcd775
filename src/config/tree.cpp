#include "config/tree.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace weft::config {
namespace {

// Insertions, deletions, substitutions and swaps of neighbours (optimal string alignment).
size_t edit_distance(std::string_view left, std::string_view right) {
  std::vector<size_t> before_last, last, row(right.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= left.size(); ++i) {
    before_last = std::exchange(last, row);
    row[0] = i;
    for (size_t j = 1; j <= right.size(); ++j) {
      const size_t substituted = last[j - 1] + (left[i - 1] == right[j - 1] ? 0 : 1);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, substituted});
      if (i > 1 && j > 1 && left[i - 1] == right[j - 2] && left[i - 2] == right[j - 1]) {
        row[j] = std::min(row[j], before_last[j - 2] + 1);
      }
    }
  }
  return row.back();
}

struct Seen {
  Hint hint;
  std::string text;
};

std::map<std::string, Seen> flatten(const Node& root) {
  std::map<std::string, Seen> fields;
  visit(root, [&](const std::string& path, const Field& field) {
    if (field.is_value()) {
      fields[path] = {field.hint, value_text(field.get())};
    } else if (field.slot() != nullptr) {
      Node* node = field.slot()->node();
      fields[path + ".kind"] = {field.hint, node == nullptr ? "\"none\"" : value_text(std::string(node->kind()))};
    } else if (field.slots() != nullptr) {
      for (size_t i = 0; i < field.slots()->size(); ++i) {
        Node* node = field.slots()->at(i).node();
        fields[fmt::format("{}.{}.kind", path, i)] = {
            field.hint, node == nullptr ? "\"none\"" : value_text(std::string(node->kind()))};
      }
    }
  });
  return fields;
}

}  // namespace

std::string join_path(const std::string& path, const std::string& name) {
  return path.empty() ? name : path + "." + name;
}

void visit(Node& root, const std::function<void(const std::string&, Field&)>& enter, const std::string& path) {
  FieldList list;
  root.fields(list);
  for (const auto& field : list.entries()) {
    const std::string field_path = join_path(path, field->name);
    enter(field_path, *field);
    if (field->child() != nullptr) visit(*field->child(), enter, field_path);
    if (field->slot() != nullptr && field->slot()->node() != nullptr) {
      visit(*field->slot()->node(), enter, field_path);
    }
    if (field->slots() != nullptr) {
      for (size_t i = 0; i < field->slots()->size(); ++i) {
        Node* node = field->slots()->at(i).node();
        if (node != nullptr) visit(*node, enter, join_path(field_path, std::to_string(i)));
      }
    }
  }
}

void visit(const Node& root, const std::function<void(const std::string&, const Field&)>& enter,
           const std::string& path) {
  // Listing needs references that could write; a constant Field offers no way to do so.
  visit(
      const_cast<Node&>(root), [&](const std::string& field_path, Field& field) { enter(field_path, field); }, path);
}

void name_paths(Node& root, const std::string& path) {
  visit(
      root, [](const std::string& field_path, Field& field) { field.name_path(field_path); }, path);
}

std::vector<std::string> unset_fields(const Node& root) {
  std::vector<std::string> paths;
  visit(root, [&](const std::string& path, const Field& field) {
    if (field.is_value() && field.required && std::holds_alternative<std::monostate>(field.get()))
      paths.push_back(path);
  });
  return paths;
}

std::vector<Difference> differences(const Node& before, const Node& after) {
  const std::map<std::string, Seen> old_fields = flatten(before), new_fields = flatten(after);
  std::vector<Difference> found;
  for (const auto& [path, old_field] : old_fields) {
    const auto now = new_fields.find(path);
    if (now == new_fields.end()) {
      found.push_back({path, old_field.hint, old_field.text, "(none)"});
    } else if (now->second.text != old_field.text) {
      found.push_back({path, old_field.hint, old_field.text, now->second.text});
    }
  }
  for (const auto& [path, new_field] : new_fields) {
    if (!old_fields.contains(path)) found.push_back({path, new_field.hint, "(none)", new_field.text});
  }
  return found;
}

void visit_slots(Node& root, const std::function<void(AnySlot&)>& leave) {
  FieldList list;
  root.fields(list);
  const auto walk = [&](AnySlot& slot) {
    if (slot.node() != nullptr) visit_slots(*slot.node(), leave);
    leave(slot);
  };
  for (const auto& field : list.entries()) {
    if (field->child() != nullptr) visit_slots(*field->child(), leave);
    if (field->slot() != nullptr) walk(*field->slot());
    if (field->slots() != nullptr) {
      for (size_t i = 0; i < field->slots()->size(); ++i) walk(field->slots()->at(i));
    }
  }
}

std::vector<std::string> nearest(std::string_view name, const std::vector<std::string>& candidates) {
  std::vector<std::pair<size_t, std::string>> near;
  for (const std::string& candidate : candidates) {
    const size_t distance = edit_distance(name, candidate);
    if (distance <= std::max(name.size(), candidate.size()) / 3) near.emplace_back(distance, candidate);
  }
  std::stable_sort(near.begin(), near.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> names;
  for (size_t i = 0; i < std::min<size_t>(near.size(), 3); ++i) names.push_back(near[i].second);
  return names;
}

std::string suggestion(std::string_view name, const std::vector<std::string>& candidates) {
  const std::vector<std::string> near = nearest(name, candidates);
  if (!near.empty()) return fmt::format(", did you mean {}?", fmt::join(near, " or "));
  if (candidates.empty()) return "; there are none here";
  return fmt::format("; there are: {}", fmt::join(candidates, ", "));
}

}  // namespace weft::config
