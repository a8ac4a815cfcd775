// Any text as a run file: it is refused with InputError, or what is dumped of the tree reads back as the same tree.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "config/toml.h"
#include "config/tree.h"

namespace {

struct Leaf : weft::config::Node {
  static const weft::config::KindList& kinds();
  weft::config::Slot<Leaf> child;
  weft::config::SlotList<Leaf> children;
  bool flag = false;
  int64_t count = 0;
  double number = 0;
  std::string text;
  std::vector<double> numbers;
  std::vector<std::string> texts;
  WEFT_NODE(Leaf, "leaf")
  void fields(weft::config::FieldList& list) override {
    using weft::config::Hint;
    list.add("a", child, Hint::kCore, "").may_be_empty();
    list.add("b", children, Hint::kCore, "");
    list.add("c", flag, Hint::kCore, "", "");
    list.add("d", count, Hint::kCore, "", "");
    list.add("e", number, Hint::kCore, "", "");
    list.add("f", text, Hint::kCore, "", "");
    list.add("g", numbers, Hint::kCore, "", "");
    list.add("h", texts, Hint::kCore, "", "");
  }
};

const weft::config::KindList& Leaf::kinds() {
  static const weft::config::KindList kinds = weft::config::KindList::of<Leaf>();
  return kinds;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    weft::config::Table table = weft::config::parse_toml(text, "fuzz");
    Leaf tree, again;
    weft::config::Origins origins;
    weft::config::apply(table, tree, origins);
    weft::config::apply(weft::config::parse_toml(weft::config::dump(tree), "dump"), again, origins);
    if (!weft::config::differences(tree, again).empty()) std::abort();
    weft::config::assign(table, text);
  } catch (const weft::InputError&) {
  }
  return 0;
}
