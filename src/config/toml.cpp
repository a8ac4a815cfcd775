#include "config/toml.h"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "config/tree.h"

namespace weft::config {
namespace {

const std::string* text_of(const Item* item) {
  return item == nullptr || item->value() == nullptr ? nullptr : std::get_if<std::string>(item->value());
}

// The fields of a node that is gone came from somewhere else than its successor's.
void forget_below(const std::string& path, Origins& origins) {
  std::erase_if(origins, [&](const auto& entry) { return entry.first.starts_with(path + "."); });
}

void apply_to_slot(const Table& table, AnySlot& slot, const Field& field, const Item& item, Origins& origins,
                   const std::string& path) {
  if (const Item* kind_item = table.find("kind")) {
    const std::string* kind = text_of(kind_item);
    std::vector<std::string> names = slot.kinds().names();
    if (field.optional) names.push_back("none");
    if (kind == nullptr) throw InputError(fmt::format("{}: {}.kind: must be a string", kind_item->origin, path));
    if (*kind == "none" && field.optional) {
      slot.put(nullptr);
      forget_below(path, origins);
    } else if (slot.node() == nullptr || slot.node()->kind() != *kind) {
      std::unique_ptr<Node> node = slot.kinds().make(*kind);
      if (node == nullptr) {
        throw InputError(fmt::format("{}: {}.kind: there is no kind \"{}\"{}", kind_item->origin, path, *kind,
                                     suggestion(*kind, names)));
      }
      slot.put(std::move(node));
      forget_below(path, origins);
    }
    origins[path + ".kind"] = kind_item->origin;
  }
  Table rest = table;
  rest.erase("kind");
  if (slot.node() == nullptr) {
    if (rest.empty() && table.find("kind") != nullptr) return;
    throw InputError(fmt::format("{}: {}: needs a kind{}", item.origin, path, suggestion("", slot.kinds().names())));
  }
  apply(rest, *slot.node(), origins, path);
}

// A list is given whole, as [[name]], or by table of its indices, as --set name.0.key writes it.
void apply_to_list(const Item& item, Field& field, Origins& origins, const std::string& path) {
  AnySlotList& slots = *field.slots();
  const auto apply_at = [&](size_t index, const Table& table, const Item& at) {
    apply_to_slot(table, slots.at(index), field, at, origins, fmt::format("{}.{}", path, index));
  };
  if (const std::vector<Table>* tables = item.tables()) {
    slots.resize(0);
    slots.resize(tables->size());
    for (size_t i = 0; i < tables->size(); ++i) apply_at(i, (*tables)[i], item);
    return;
  }
  const auto* empty_list = item.value() == nullptr ? nullptr : std::get_if<std::vector<int64_t>>(item.value());
  if (empty_list != nullptr && empty_list->empty()) {
    slots.resize(0);
    return;
  }
  if (item.table() == nullptr) {
    throw InputError(fmt::format("{}: {}: must be a list of tables, written [[{}]]", item.origin, path, path));
  }
  for (const auto& [key, entry] : item.table()->entries()) {
    size_t index = 0;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), index);
    if (error != std::errc() || end != key.data() + key.size() || index >= slots.size() || entry.table() == nullptr) {
      throw InputError(
          fmt::format("{}: {}.{}: the list has {} entries, counted from 0", entry.origin, path, key, slots.size()));
    }
    apply_at(index, *entry.table(), entry);
  }
}

void apply_item(const Item& item, Field& field, Origins& origins, const std::string& path) {
  if (field.slots() != nullptr) return apply_to_list(item, field, origins, path);
  if (!field.is_value()) {
    if (item.table() == nullptr) {
      throw InputError(fmt::format("{}: {}: must be a table, written [{}]", item.origin, path, path));
    }
    if (field.child() != nullptr) return apply(*item.table(), *field.child(), origins, path);
    return apply_to_slot(*item.table(), *field.slot(), field, item, origins, path);
  }
  if (item.value() == nullptr) throw InputError(fmt::format("{}: {}: must be a value, not a table", item.origin, path));
  try {
    field.set(*item.value());
  } catch (const InputError& error) {
    throw InputError(fmt::format("{}: {}: {}", item.origin, path, error.what()));
  }
  origins[path] = item.origin;
}

// Values first and tables behind them, as TOML wants it.
void dump_node(Node& node, const std::string& path, std::string& values, std::string& tables) {
  FieldList list;
  node.fields(list);
  const auto section = [&](Node* child, const std::string& child_path, bool in_list, bool has_kind) {
    std::string child_values, child_tables;
    if (has_kind) child_values = fmt::format("kind = \"{}\"\n", child == nullptr ? "none" : child->kind());
    if (child != nullptr) dump_node(*child, child_path, child_values, child_tables);
    tables +=
        fmt::format("\n{}[{}]{}\n", in_list ? "[" : "", child_path, in_list ? "]" : "") + child_values + child_tables;
  };
  for (const auto& field : list.entries()) {
    const std::string field_path = join_path(path, field->name);
    if (field->is_value()) {
      const Value value = field->get();
      if (value.index() != 0) values += fmt::format("{} = {}\n", field->name, value_text(value));
    } else if (field->child() != nullptr) {
      section(field->child(), field_path, false, false);
    } else if (field->slot() != nullptr) {
      section(field->slot()->node(), field_path, false, true);
    } else if (field->slots()->size() == 0) {
      values += field->name + " = []\n";
    } else {
      for (size_t i = 0; i < field->slots()->size(); ++i) section(field->slots()->at(i).node(), field_path, true, true);
    }
  }
}

}  // namespace

Item* Table::find(std::string_view key) {
  const auto found =
      std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) { return entry.key == key; });
  return found == entries_.end() ? nullptr : &found->item;
}

const Item* Table::find(std::string_view key) const { return const_cast<Table*>(this)->find(key); }

Item& Table::put(std::string key, Item item) {
  if (Item* there = find(key)) return *there = std::move(item);
  return entries_.emplace_back(Entry{std::move(key), std::move(item)}).item;
}

void Table::erase(std::string_view key) {
  std::erase_if(entries_, [&](const Entry& entry) { return entry.key == key; });
}

bool Table::empty() const { return entries_.empty(); }

void merge(Table& base, const Table& over) {
  for (const auto& [key, item] : over.entries()) {
    Item* below = base.find(key);
    const Table* table = item.table();
    if (below == nullptr || table == nullptr || below->table() == nullptr) {
      base.put(key, item);
      continue;
    }
    Table& merged = std::get<Table>(below->content);
    for (const std::string_view identity : {"kind", "family", "hf"}) {
      const std::string *now = text_of(table->find(identity)), *before = text_of(merged.find(identity));
      if (now != nullptr && (before == nullptr || *before != *now)) merged = Table();
    }
    merge(merged, *table);
  }
}

void apply(const Table& table, Node& root, Origins& origins, const std::string& path) {
  FieldList list;
  root.fields(list);
  for (const auto& [key, item] : table.entries()) {
    const auto field =
        std::find_if(list.entries().begin(), list.entries().end(),
                     [name = std::string_view(key)](const auto& candidate) { return candidate->name == name; });
    if (field == list.entries().end()) {
      std::vector<std::string> names;
      for (const auto& candidate : list.entries()) names.push_back(candidate->name);
      throw InputError(fmt::format("{}: {}: unknown key{}", item.origin, join_path(path, key), suggestion(key, names)));
    }
    apply_item(item, **field, origins, join_path(path, key));
  }
}

std::string dump(const Node& root) {
  std::string values, tables;
  // Listing needs references that could write; nothing here does.
  dump_node(const_cast<Node&>(root), "", values, tables);
  return values + tables;
}

}  // namespace weft::config
