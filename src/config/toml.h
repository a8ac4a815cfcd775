// Reading and writing trees as TOML. Every value remembers where it came from, so that errors and `weft explain` can
// say so.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "config/node.h"

namespace weft::config {

struct Item;
struct Entry;

// A TOML table, before it is applied to a tree. Keys keep the order of the file.
class Table {
 public:
  [[nodiscard]] Item* find(std::string_view key);
  [[nodiscard]] const Item* find(std::string_view key) const;
  Item& put(std::string key, Item item);  // replaces one that is there
  void erase(std::string_view key);
  [[nodiscard]] const std::vector<Entry>& entries() const { return entries_; }
  [[nodiscard]] bool empty() const;

 private:
  std::vector<Entry> entries_;
};

struct Item {
  std::variant<Value, Table, std::vector<Table>> content;
  std::string origin;  // "run.toml:3:5", "--set model.width"
  [[nodiscard]] const Value* value() const { return std::get_if<Value>(&content); }
  [[nodiscard]] const Table* table() const { return std::get_if<Table>(&content); }
  [[nodiscard]] const std::vector<Table>* tables() const { return std::get_if<std::vector<Table>>(&content); }
};

struct Entry {
  std::string key;
  Item item;
};

// Parses a text; `name` stands for it in errors and origins. Throws InputError with line and column: not UTF-8, control
// characters, a syntax error, a date (nothing in weft is one), nesting deeper than 32, more than 4 MiB.
[[nodiscard]] Table parse_toml(std::string_view text, const std::string& name);

// Reads a file; its key `base` names another (relative to it) over which this one is laid. Throws InputError also for a
// cycle.
[[nodiscard]] Table load_toml(const std::filesystem::path& path);

// Lays `over` on `base`: tables are merged key by key, everything else is replaced. Where `over` names another kind,
// family or hf than the table below it, nothing of that table remains: its keys belonged to the other one.
void merge(Table& base, const Table& over);

// "a.b.0.c=VALUE". VALUE is TOML; what does not parse as TOML is a string. An `hf` takes the place of a family and of
// all keys beside it, as in merge. Throws InputError without a "=" or for an
// empty key.
void assign(Table& table, std::string_view assignment);

// Where values came from: full path -> origin. A field that is not in it has its default.
using Origins = std::map<std::string, std::string>;

// Writes a table into a tree. A slot takes `kind`: another one than it holds makes a new node with that kind's
// defaults; "none" empties it. Throws InputError naming origin and path: unknown keys (with the nearest names), wrong
// types, values out of range.
void apply(const Table& table, Node& root, Origins& origins, const std::string& path = "");

// The whole tree, defaults included, unset fields left out. apply(parse_toml(dump(t))) on a default tree gives t.
[[nodiscard]] std::string dump(const Node& root);

}  // namespace weft::config
