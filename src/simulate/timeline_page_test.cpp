#include "simulate/timeline_page.h"

#include <array>
#include <cstdio>
#include <filesystem>
#include <unistd.h>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file.h"
#include "schedule/generate.h"
#include "schedule/passes.h"
#include "simulate/predicted_trace.h"

namespace weft::simulate {
namespace {

std::string output_of(const std::string& command) {
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return {};
  std::string output;
  std::array<char, 65536> part{};
  while (const size_t count = std::fread(part.data(), 1, part.size(), pipe)) output.append(part.data(), count);
  pclose(pipe);
  return output;
}

std::string browser() {
  for (const std::string name : {"chromium-headless-shell", "chromium", "google-chrome"}) {
    const std::string found = output_of("command -v " + name);
    if (!found.empty()) return found.substr(0, found.find('\n'));
  }
  return {};
}

Trace trace_of(schedule::Kind kind, int32_t chunks, int32_t micro_batches) {
  schedule::GenerateOptions options;
  options.roles = 4;
  options.chunks = chunks;
  options.micro_batches = micro_batches;
  const schedule::Times times = {.message = 0.1};
  const schedule::Schedule schedule =
      place_messages(place_shards(generate(kind, options), 2), schedule::MessagePlace::kTime, times);
  const Costs costs = costs_of(schedule, times);
  return predicted_trace(schedule, costs, simulate(schedule, costs), "a trace");
}

// What the page says about itself once it has drawn: `name` among its root's attributes, or -1.
int64_t attribute(const std::string& document, const std::string& name) {
  const std::string key = fmt::format("data-{}=\"", name);
  const size_t at = document.find(key);
  return at == std::string::npos ? -1 : std::atoll(document.c_str() + at + key.size());
}

// Draws the page in a browser and returns the document afterwards; empty without a browser.
std::string drawn(const std::string& page) {
  const std::string program = browser();
  if (program.empty()) return {};
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / fmt::format("weft_timeline_page_{}", getpid());
  std::filesystem::create_directories(folder);
  write_file(folder / "page.html", page);
  std::string document = output_of(fmt::format(
      "timeout 60 {} --no-sandbox --disable-gpu --user-data-dir={}/profile --dump-dom file://{}/page.html 2>/dev/null",
      program, folder.string(), folder.string()));
  std::filesystem::remove_all(folder);
  return document;
}

constexpr std::string_view kNoBrowser = "no chromium-headless-shell, chromium or google-chrome: the page is not drawn";

TEST(TimelinePage, DrawsEveryEventInABrowser) {
  if (browser().empty()) GTEST_SKIP() << kNoBrowser;
  Trace trace = trace_of(schedule::Kind::kDualPipeV, 0, 8);
  trace.title = "</script></script>";
  const std::string document = drawn(timeline_page({{trace}}, {.title = "a </script> & \"b\""}));
  EXPECT_EQ(attribute(document, "errors"), 0);
  EXPECT_EQ(attribute(document, "events"), static_cast<int64_t>(trace.events.size()));
  int64_t free = 0;  // gathers and reductions that take no time share their pixel
  for (const TraceEvent& event : trace.events) free += event.stream == TraceStream::kData ? 1 : 0;
  EXPECT_GE(attribute(document, "drawn"), static_cast<int64_t>(trace.events.size()) - free);
  EXPECT_NE(document.find("<title>a &lt;/script&gt; &amp; \"b\"</title>"), std::string::npos);
}

TEST(TimelinePage, DrawsWhatWasMeasuredBesideWhatWasPredicted) {
  if (browser().empty()) GTEST_SKIP() << kNoBrowser;
  std::array traces = {trace_of(schedule::Kind::kZeroBubbleH1, 1, 6), trace_of(schedule::Kind::kZeroBubbleH1, 1, 6)};
  traces[1].measured = true;
  for (TraceEvent& event : traces[1].events) event.rank += 4;
  const std::string document = drawn(timeline_page(traces, {.title = "both"}));
  EXPECT_EQ(attribute(document, "errors"), 0);
  EXPECT_EQ(attribute(document, "events"), 2 * static_cast<int64_t>(traces[0].events.size()));
  EXPECT_NE(document.find("measured"), std::string::npos);
}

TEST(TimelinePage, CopesWithAHundredThousandEvents) {
  if (browser().empty()) GTEST_SKIP() << kNoBrowser;
  const Trace trace = trace_of(schedule::Kind::kBreadthFirst, 4, 1800);
  ASSERT_GT(trace.events.size(), 100'000u);
  const std::string document = drawn(timeline_page({{trace}}, {.title = "large"}));
  EXPECT_EQ(attribute(document, "errors"), 0);
  EXPECT_EQ(attribute(document, "events"), static_cast<int64_t>(trace.events.size()));
  EXPECT_GT(attribute(document, "drawn"), 100);
  EXPECT_LT(attribute(document, "drawn"), 40'000) << "no more than the pixels show";
}

TEST(TimelinePage, NeedsNothingFromOutside) {
  const std::string page = timeline_page({{trace_of(schedule::Kind::k1f1b, 1, 4)}}, {.title = "alone"});
  for (const std::string_view outside : {"http://", "https://", "src=", "@import", "url("}) {
    EXPECT_EQ(page.find(outside), std::string::npos) << outside;
  }
  Trace many;
  many.events.resize(1'000'001);
  EXPECT_THROW((void)timeline_page({{many}}, {}), InputError);
}

}  // namespace
}  // namespace weft::simulate
