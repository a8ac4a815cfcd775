#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <random>

#include <gtest/gtest.h>

#include "config/node.h"
#include "config/toml.h"
#include "config/tree.h"

namespace weft::config {
namespace {

struct Shape : Node {
  static const KindList& kinds();
  int64_t corners = 0;  // set by the parent
};

struct Circle : Shape {
  double radius = 1.5;
  WEFT_NODE(Circle, "circle")
  void fields(FieldList& list) override {
    list.add("radius", radius, Hint::kArchitecture, "m", "distance to the centre").above(0);
  }
};

struct Frame : Shape {
  Slot<Shape> inner;
  std::optional<int64_t> depth;
  WEFT_NODE(Frame, "frame")
  void fields(FieldList& list) override {
    list.add("inner", inner, Hint::kArchitecture, "what is framed").may_be_empty();
    list.add("depth", depth, Hint::kOptional, "layers", "how deep").at_least(1).at_most(9);
  }
};

struct Square : Shape {
  Required<double> side;
  WEFT_NODE(Square, "square")
  void fields(FieldList& list) override { list.add("side", side, Hint::kArchitecture, "m", "length of a side"); }
};

const KindList& Shape::kinds() {
  static const KindList kinds = KindList::of<Circle, Frame, Square>();
  return kinds;
}

struct Colours : Node {
  std::string mode = "grey";
  std::vector<double> weights = {0.1, 1, 1e-30};
  std::vector<std::string> names;
  std::vector<int64_t> sizes;
  WEFT_NODE(Colours, "colours")
  void fields(FieldList& list) override {
    list.add("mode", mode, Hint::kCore, "", "how colours mix").one_of({"grey", "full"});
    list.add("weights", weights, Hint::kCore, "", "one a channel").at_least(0);
    list.add("names", names, Hint::kOptional, "", "one a channel");
    list.add("sizes", sizes, Hint::kOptional, "", "one a channel");
  }
};

struct Picture : Node {
  Slot<Shape> shape = Circle();
  SlotList<Shape> more;
  Colours colours;
  bool shown = true;
  WEFT_NODE(Picture, "picture")
  void fields(FieldList& list) override {
    list.add("shape", shape, Hint::kArchitecture, "the main shape");
    list.add("more", more, Hint::kArchitecture, "further shapes");
    list.add("colours", colours, Hint::kCore, "its colours");
    list.add("shown", shown, Hint::kPerformance, "", "whether it is drawn");
  }
};

Picture read(const std::string& text) {
  Picture picture;
  Origins origins;
  apply(parse_toml(text, "p.toml"), picture, origins);
  name_paths(picture);
  return picture;
}

std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const InputError& error) {
    return error.what();
  }
  return "(no error)";
}

TEST(Config, CopiesAreDeep) {
  Picture first;
  Picture second = first;
  dynamic_cast<Circle&>(*second.shape).radius = 9;
  EXPECT_EQ(dynamic_cast<Circle&>(*first.shape).radius, 1.5);
}

TEST(Config, RequiredFieldsFailAtFirstUseWithTheirPath) {
  const Picture picture = read("[shape]\nkind = 'frame'\n[shape.inner]\nkind = 'square'");
  const auto& square = dynamic_cast<const Square&>(*dynamic_cast<const Frame&>(*picture.shape).inner);
  EXPECT_EQ(error_of([&] { static_cast<void>(square.side + 1); }), "shape.inner.side is not set: it has no default");
  EXPECT_EQ(unset_fields(picture), std::vector<std::string>{"shape.inner.side"});
}

// One row = a text and what must be said about it.
TEST(Config, MistakesAreAnsweredWithPlaceAndPath) {
  const std::vector<std::pair<std::string, std::string>> rows = {
      {"shwn = true", "p.toml:1:1: shwn: unknown key, did you mean shown?"},
      {"\n[colours]\n  mode = 'gray'", "p.toml:3:3: colours.mode: is \"gray\"; it must be one of \"grey\", \"full\""},
      {"zzzzzz = 1", "p.toml:1:1: zzzzzz: unknown key; there are: shape, more, colours, shown"},
      {"shown = 1", "p.toml:1:1: shown: is 1; it must be true or false"},
      {"[shape]\nradius = 0", "p.toml:2:1: shape.radius: is 0; it must be above 0"},
      {"[shape]\nradius = nan", "p.toml:2:1: shape.radius: is not a number"},
      {"[shape]\nkind = 'frame'\ndepth = 10", "p.toml:3:1: shape.depth: is 10; it must be at least 1 and at most 9"},
      {"[shape]\nkind = 'circel'", "p.toml:2:1: shape.kind: there is no kind \"circel\", did you mean circle?"},
      {"shape = 3", "p.toml:1:1: shape: must be a table, written [shape]"},
      {"[shown]\na = 1", "p.toml:1:2: shown: must be a value, not a table"},
      {"more = 3", "p.toml:1:1: more: must be a list of tables, written [[more]]"},
      {"[[more]]\nradius = 2", "p.toml:1:3: more.0: needs a kind; there are: circle, frame, square"},
      {"shown = 1979-05-27", "p.toml:1:9: dates and times are not used here; write a string or a number"},
      {"a = [1, 'x']", "p.toml:1:5: the list mixes strings and numbers"},
      {"a = \"\xff\"", "p.toml:1:6: is not UTF-8"},
      {"\xcd\xab = 1", "p.toml:1:1: only ASCII letters may stand outside of quotes"},
      {"[[=\"leaf\"", "p.toml: is not TOML"},
      {"a = \"\x01\"", "p.toml:1:6: control character 0x01"},
  };
  for (const auto& [text, message] : rows) EXPECT_EQ(error_of([&] { read(text); }), message) << text;
  EXPECT_NE(error_of([&] { read("a = [1,"); }).find("p.toml:1:"), std::string::npos);
  EXPECT_NE(error_of([&] { read("a = " + std::string(100000, '[')); }).find("deeper than 32"), std::string::npos);
  std::string dotted = "a";
  for (int i = 0; i < 100000; ++i) dotted += ".a";
  EXPECT_NE(error_of([&] { read(dotted + " = 1"); }).find("deeper than 32"), std::string::npos);
}

TEST(Config, AssignmentsReachEveryPlace) {
  Table table = parse_toml("[[more]]\nkind = 'circle'", "p.toml");
  for (const char* text : {"more.0.radius=4", "colours.mode=full", "colours.weights=[1, 2]", "shape.kind=frame",
                           "colours.names=['a b']"}) {
    assign(table, text);
  }
  Picture picture;
  Origins origins;
  apply(table, picture, origins);
  EXPECT_EQ(dynamic_cast<Circle&>(*picture.more.slots[0]).radius, 4);
  EXPECT_EQ(picture.colours.mode, "full");
  EXPECT_EQ(picture.colours.weights, (std::vector<double>{1, 2}));
  EXPECT_EQ(picture.shape->kind(), "frame");
  EXPECT_EQ(origins.at("colours.mode"), "--set colours.mode");
  EXPECT_FALSE(origins.contains("shown"));
  for (const char* text : {"shown", "=1", "a..b=1", "more.1.radius=2", "more.x=2", "more.0=1", "a.=1"}) {
    EXPECT_NE(error_of([&] { assign(table, text); }), "(no error)") << text;
  }
  assign(table, "colours.mode=a\nshown = false");
  EXPECT_EQ(std::get<std::string>(*table.find("colours")->table()->find("mode")->value()), "a\nshown = false");
}

TEST(Config, ABaseFileLiesBelowAndAnotherKindStartsAfresh) {
  const std::filesystem::path folder = std::filesystem::temp_directory_path() / "weft_config_test";
  std::filesystem::create_directories(folder / "deep");
  const auto write = [&](const char* name, const char* text) { std::ofstream(folder / name) << text; };
  write("low.toml", "shown = false\n[shape]\nkind = 'circle'\nradius = 7\n[colours]\nmode = 'full'\nweights = [3]");
  write("deep/high.toml", "base = '../low.toml'\n[colours]\nweights = [4]\n[shape]\nkind = 'frame'\ndepth = 2");
  write("loop.toml", "base = 'loop.toml'");
  write("lost.toml", "base = 'nowhere.toml'");
  Picture picture;
  Origins origins;
  apply(load_toml(folder / "deep/high.toml"), picture, origins);
  EXPECT_FALSE(picture.shown);
  EXPECT_EQ(picture.colours.mode, "full");
  EXPECT_EQ(picture.colours.weights, std::vector<double>{4});
  EXPECT_EQ(dynamic_cast<Frame&>(*picture.shape).depth, 2);
  EXPECT_NE(origins.at("shown").find("low.toml:1:1"), std::string::npos);
  EXPECT_NE(error_of([&] { static_cast<void>(load_toml(folder / "loop.toml")); }).find("lead back"), std::string::npos);
  EXPECT_NE(error_of([&] { static_cast<void>(load_toml(folder / "lost.toml")); }).find("nowhere.toml"),
            std::string::npos);
  std::filesystem::remove_all(folder);
}

TEST(Config, ReplacementGoesInsideOutAndKeepsWhatMergeSays) {
  Picture picture;
  Frame frame;
  frame.inner = Circle();
  picture.more.slots = {frame, Square()};
  // The replacement holds what it replaces, and must not be replaced again.
  const int count = replace<Circle>(picture, Frame(), [](const Circle& old, Frame& now) { now.inner = old; });
  EXPECT_EQ(count, 2);
  EXPECT_EQ(dynamic_cast<Frame&>(*picture.shape).inner->kind(), "circle");
  EXPECT_EQ(replace<Shape>(picture, Circle(), [](const Shape&, Circle&) {}), 0);
  EXPECT_GT(replace<Shape>(
                picture, Circle(), [](const Shape&, Circle&) {}, Match::kOrDerived),
            0);
}

TEST(Config, DifferencesNameFieldsAndHints) {
  Picture before, after;
  after.shown = false;
  after.shape = Square();
  const std::vector<Difference> found = differences(before, after);
  std::vector<std::string> texts;
  for (const Difference& one : found)
    texts.push_back(one.path + " " + one.before + " " + one.after + " " + std::string(name(one.hint)));
  EXPECT_EQ(texts, (std::vector<std::string>{"shape.kind \"circle\" \"square\" architecture",
                                             "shape.radius 1.5 (none) architecture", "shown true false performance",
                                             "shape.side (none) (not set) architecture"}));
  EXPECT_TRUE(differences(before, Picture()).empty());
}

Slot<Shape> random_shape(std::mt19937& random, int depth) {
  Slot<Shape> shape;
  if (depth > 3 || random() % 3 == 0) {
    Circle circle;
    circle.radius = std::ldexp(1.0 + static_cast<double>(random()) / 3e9, static_cast<int>(random() % 600) - 300);
    shape = circle;
  } else if (random() % 2 == 0) {
    Frame frame;
    if (random() % 4 != 0) frame.inner = random_shape(random, depth + 1);
    if (random() % 2 == 0) frame.depth = 1 + static_cast<int64_t>(random() % 9);
    shape = frame;
  } else {
    Square square;
    if (random() % 2 == 0) square.side = -static_cast<double>(random());
    shape = square;
  }
  return shape;
}

std::string random_text(std::mt19937& random) {
  static const std::vector<std::string> kPieces = {"a", "\"", "\\", "\n",   "\t",   "ä",
                                                   "'", "#",  " ",  "\x7f", "\x01", "="};
  std::string text;
  for (size_t i = random() % 8; i > 0; --i) text += kPieces[random() % kPieces.size()];
  return text;
}

TEST(Config, DumpAndLoadGiveTheSameTree) {
  std::mt19937 random(7);
  for (int round = 0; round < 2000; ++round) {
    Picture picture;
    picture.shape = random_shape(random, 0);
    for (size_t i = random() % 3; i > 0; --i) picture.more.slots.push_back(random_shape(random, 0));
    picture.shown = random() % 2 == 0;
    if (random() % 2 == 0) picture.colours.weights = {static_cast<double>(random()), 5e-324, 0.1 + 0.2};
    if (random() % 3 == 0) picture.colours.weights = {std::numeric_limits<double>::infinity()};
    if (random() % 2 == 0) picture.colours.names = {random_text(random), random_text(random)};
    if (random() % 2 == 0)
      picture.colours.sizes = {static_cast<int64_t>(random()), std::numeric_limits<int64_t>::min()};
    const std::string text = dump(picture);
    const Picture again = read(text);
    ASSERT_TRUE(differences(picture, again).empty()) << text;
    ASSERT_EQ(dump(again), text);
  }
}

}  // namespace
}  // namespace weft::config
