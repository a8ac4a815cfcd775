// The typed configuration tree: what a run is, as a value. A node documents each of its fields in one place (fields());
// reading and writing TOML, `weft explain`, goldens, comparison on resume and typed replacement all go through that
// list.
//
// A tree is built by non-const code (recipes, TOML, --set, replace) and frozen by handing it on as const: a const tree
// offers no way to change a field. Copies are deep; two trees never share a node.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "base/error.h"

namespace weft::config {

// Why a field matters to whom. A resumed run may not change architecture and core fields.
enum class Hint {
  kArchitecture,  // shapes and meaning of the parameters
  kCore,          // the numbers a run computes
  kOptional,      // what a run reports, keeps or names
  kPerformance,   // speed and memory only
  kExpert,        // rarely touched
};
[[nodiscard]] std::string_view name(Hint hint);

// A field's value without its C++ type; monostate where it is not set.
using Value = std::variant<std::monostate, bool, int64_t, double, std::string, std::vector<int64_t>,
                           std::vector<double>, std::vector<std::string>>;
// As TOML: 3, 0.1, "text", [1, 2]; reals keep every digit.
[[nodiscard]] std::string value_text(const Value& value);

// A field that is a number or names: validation = 0.1 or validation = ["held_out.txt"].
using RealOrTexts = std::variant<double, std::vector<std::string>>;

// A field that has no default. Reading it unset throws InputError with its full path (known once the tree is loaded).
template <class T>
class Required {
 public:
  Required() = default;
  Required(T value) : value_(std::move(value)) {}  // NOLINT(google-explicit-constructor): assigned like a plain field
  [[nodiscard]] bool set() const { return value_.has_value(); }
  [[nodiscard]] const T& get() const {
    if (!value_) throw InputError((path_.empty() ? "a required field" : path_) + " is not set: it has no default");
    return *value_;
  }
  operator const T&() const { return get(); }  // NOLINT(google-explicit-constructor)
  void name_path(std::string path) { path_ = std::move(path); }
  friend bool operator==(const Required& left, const Required& right) { return left.value_ == right.value_; }
  friend bool operator==(const Required& left, const T& right) { return left.get() == right; }

 private:
  std::optional<T> value_;
  std::string path_;
};

class FieldList;

class Node {
 public:
  virtual ~Node() = default;
  [[nodiscard]] virtual std::unique_ptr<Node> clone() const = 0;
  // The word that names this type of node in its slot: kind = "swiglu".
  [[nodiscard]] virtual std::string_view kind() const = 0;
  // Lists every field. The only place where a field's name, unit, text and limits are written.
  virtual void fields(FieldList& list) = 0;

 protected:
  Node() = default;
  Node(const Node&) = default;
  Node& operator=(const Node&) = default;
};

// The parts of a node that are the same in each. First in the class body, which ends as public.
#define WEFT_NODE(Type, kind_name)                                                                                     \
 public:                                                                                                               \
  static constexpr std::string_view kKind = kind_name;                                                                 \
  [[nodiscard]] std::unique_ptr<::weft::config::Node> clone() const override { return std::make_unique<Type>(*this); } \
  [[nodiscard]] std::string_view kind() const override { return kKind; }

// The kinds that a slot's base type offers. Explicit: each base lists them in one function, `static const KindList&
// kinds()`.
class KindList {
 public:
  template <class... Kinds>
  [[nodiscard]] static KindList of() {
    KindList list;
    (list.entries_.push_back({Kinds::kKind, [] { return std::unique_ptr<Node>(std::make_unique<Kinds>()); }}), ...);
    return list;
  }
  // A node with its defaults, or null.
  [[nodiscard]] std::unique_ptr<Node> make(std::string_view kind) const;
  [[nodiscard]] std::vector<std::string> names() const;

 private:
  struct Entry {
    std::string_view kind;
    std::unique_ptr<Node> (*make)();
  };
  std::vector<Entry> entries_;
};

// A slot without its type, for code that walks trees.
class AnySlot {
 public:
  virtual ~AnySlot() = default;
  [[nodiscard]] virtual Node* node() = 0;            // null if empty
  virtual void put(std::unique_ptr<Node> node) = 0;  // null empties; the node must be of the slot's base type
  [[nodiscard]] virtual const KindList& kinds() const = 0;
};

// A polymorphic child, held by value. Empty slots are written kind = "none".
template <class Base>
class Slot final : public AnySlot {
 public:
  Slot() = default;
  template <class Kind>
  requires std::is_base_of_v<Base, std::decay_t<Kind>> Slot(Kind&& node)
      : node_(std::make_unique<std::decay_t<Kind>>(std::forward<Kind>(node))) {}  // NOLINT
  Slot(const Slot& other) { put(other.node_ ? other.node_->clone() : nullptr); }
  Slot(Slot&&) noexcept = default;
  Slot& operator=(const Slot& other) {
    put(other.node_ ? other.node_->clone() : nullptr);
    return *this;
  }
  Slot& operator=(Slot&&) noexcept = default;

  explicit operator bool() const { return node_ != nullptr; }
  Base* operator->() { return node_.get(); }
  const Base* operator->() const { return node_.get(); }
  Base& operator*() { return *node_; }
  const Base& operator*() const { return *node_; }
  Base* get() { return node_.get(); }
  const Base* get() const { return node_.get(); }

  Node* node() override { return node_.get(); }
  void put(std::unique_ptr<Node> node) override {
    auto* typed = dynamic_cast<Base*>(node.get());
    if (node && typed == nullptr)
      throw Error("a slot was given a node of another family: " + std::string(node->kind()));
    node.release();
    node_.reset(typed);
  }
  const KindList& kinds() const override { return Base::kinds(); }

 private:
  std::unique_ptr<Base> node_;
};

// A list of slots without its type.
class AnySlotList {
 public:
  virtual ~AnySlotList() = default;
  [[nodiscard]] virtual size_t size() const = 0;
  [[nodiscard]] virtual AnySlot& at(size_t index) = 0;
  virtual void resize(size_t size) = 0;
};

template <class Base>
class SlotList final : public AnySlotList {
 public:
  std::vector<Slot<Base>> slots;
  SlotList() = default;
  SlotList(std::vector<Slot<Base>> initial) : slots(std::move(initial)) {}  // NOLINT(google-explicit-constructor)
  [[nodiscard]] size_t size() const override { return slots.size(); }
  AnySlot& at(size_t index) override { return slots.at(index); }
  void resize(size_t size) override { slots.resize(size); }
};

// One documented field of a node. A reference into the node: valid while the node is neither moved nor destroyed.
class Field {
 public:
  enum class Type { kBool, kInt, kReal, kText, kInts, kReals, kTexts, kRealOrTexts, kChild, kSlot, kSlots };

  std::string name, unit, text;
  Hint hint = Hint::kCore;
  Type type = Type::kInt;
  bool required = false;                  // without a default
  bool optional = false;                  // a std::optional, or a slot that may be empty
  std::optional<double> least, greatest;  // of numbers and of each element of a list
  bool least_excluded = false;            // the value must be above `least`
  bool greatest_excluded = false;         // the value must be below `greatest`
  std::optional<size_t> elements;         // how many a list has
  std::vector<std::string> words;         // if not empty, the allowed texts

  [[nodiscard]] Value get() const { return get_(); }
  // Takes a value of the right type (an integer serves a real); throws InputError without a path otherwise, or if out
  // of range.
  void set(const Value& value);
  void name_path(const std::string& path) const {
    if (name_path_) name_path_(path);
  }
  [[nodiscard]] Node* child() const { return child_; }         // kChild: a node by value, always there
  [[nodiscard]] AnySlot* slot() const { return slot_; }        // kSlot
  [[nodiscard]] AnySlotList* slots() const { return slots_; }  // kSlots
  [[nodiscard]] bool is_value() const { return type < Type::kChild; }

  // Chained behind FieldList::add.
  Field& at_least(double value) { return least = value, *this; }
  Field& above(double value) { return least_excluded = true, least = value, *this; }
  Field& at_most(double value) { return greatest = value, *this; }
  Field& below(double value) { return greatest_excluded = true, greatest = value, *this; }
  Field& length(size_t count) { return elements = count, *this; }
  Field& one_of(std::vector<std::string> allowed) { return words = std::move(allowed), *this; }
  Field& may_be_empty() { return optional = true, *this; }  // of a slot

 private:
  friend class FieldList;
  std::function<Value()> get_;
  std::function<void(const Value&)> set_;
  std::function<void(const std::string&)> name_path_;
  Node* child_ = nullptr;
  AnySlot* slot_ = nullptr;
  AnySlotList* slots_ = nullptr;
};

// What Node::fields fills.
class FieldList {
 public:
  // A value: bool, int64_t, double, std::string, vectors of the last three, RealOrTexts, or Required or std::optional
  // of these.
  template <class T>
  requires(!std::is_base_of_v<Node, T> && !std::is_base_of_v<AnySlot, T> &&
           !std::is_base_of_v<AnySlotList, T>) Field& add(std::string name, T& value, Hint hint, std::string unit,
                                                          std::string text) {
    Field& field = start(std::move(name), hint, std::move(text));
    field.unit = std::move(unit);
    bind(field, value);
    return field;
  }
  // A slot, a list of slots, or a child node held by value.
  template <class T>
  requires(std::is_base_of_v<Node, T> || std::is_base_of_v<AnySlot, T> ||
           std::is_base_of_v<AnySlotList, T>) Field& add(std::string name, T& child, Hint hint, std::string text) {
    Field& field = start(std::move(name), hint, std::move(text));
    if constexpr (std::is_base_of_v<Node, T>) {
      field.type = Field::Type::kChild, field.child_ = &child;
    } else if constexpr (std::is_base_of_v<AnySlot, T>) {
      field.type = Field::Type::kSlot, field.slot_ = &child;
    } else {
      field.type = Field::Type::kSlots, field.slots_ = &child;
    }
    return field;
  }
  [[nodiscard]] std::vector<std::unique_ptr<Field>>& entries() { return entries_; }

 private:
  Field& start(std::string name, Hint hint, std::string text) {
    auto& field = *entries_.emplace_back(std::make_unique<Field>());
    field.name = std::move(name), field.hint = hint, field.text = std::move(text);
    return field;
  }
  template <class T>
  static constexpr Field::Type type_of() {
    if constexpr (std::is_same_v<T, bool>) return Field::Type::kBool;
    if constexpr (std::is_same_v<T, int64_t>) return Field::Type::kInt;
    if constexpr (std::is_same_v<T, double>) return Field::Type::kReal;
    if constexpr (std::is_same_v<T, std::string>) return Field::Type::kText;
    if constexpr (std::is_same_v<T, std::vector<int64_t>>) return Field::Type::kInts;
    if constexpr (std::is_same_v<T, std::vector<double>>) return Field::Type::kReals;
    if constexpr (std::is_same_v<T, std::vector<std::string>>) return Field::Type::kTexts;
  }
  template <class T>
  static void bind(Field& field, T& value) {
    field.type = type_of<T>();
    field.get_ = [&value] { return Value(value); };
    field.set_ = [&value](const Value& given) { value = std::get<T>(given); };
  }
  static void bind(Field& field, RealOrTexts& value) {
    field.type = Field::Type::kRealOrTexts;
    field.get_ = [&value] { return std::visit([](const auto& held) { return Value(held); }, value); };
    field.set_ = [&value](const Value& given) {
      if (const auto* real = std::get_if<double>(&given)) {
        value = *real;
      } else {
        value = std::get<std::vector<std::string>>(given);
      }
    };
  }
  template <class T>
  static void bind(Field& field, Required<T>& value) {
    field.type = type_of<T>();
    field.required = true;
    field.get_ = [&value] { return value.set() ? Value(value.get()) : Value(); };
    field.set_ = [&value](const Value& given) { value = std::get<T>(given); };
    field.name_path_ = [&value](const std::string& path) { value.name_path(path); };
  }
  template <class T>
  static void bind(Field& field, std::optional<T>& value) {
    field.type = type_of<T>();
    field.optional = true;
    field.get_ = [&value] { return value ? Value(*value) : Value(); };
    field.set_ = [&value](const Value& given) { value = std::get<T>(given); };
  }
  std::vector<std::unique_ptr<Field>> entries_;
};

}  // namespace weft::config
