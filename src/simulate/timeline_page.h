// A timeline as one HTML page that needs nothing else: pan, zoom, what each action was, what each role held and waited
// for. docs/schedules.md.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/trace.h"
#include "simulate/simulate.h"

namespace weft::simulate {

struct PageText {
  std::string title;
  struct Fact {
    std::string label, value, meaning;
  };
  std::vector<Fact> facts = {};            // the numbers on top
  std::vector<RoleSimulation> roles = {};  // rows of the table, may be empty
};

[[nodiscard]] PageText page_text(const Simulation& simulation, std::string title);

// A lane a stream of each role, and where there are several traces, of each trace: what was predicted and what was
// measured stand one below the other. Where a trace is measured, times are seconds. InputError: more than a million
// events.
[[nodiscard]] std::string timeline_page(std::span<const Trace> traces, const PageText& text);

// The parts of the page, from src/simulate/page/. {0} in the body is the title.
[[nodiscard]] std::string_view page_style();
[[nodiscard]] std::string_view page_body();
[[nodiscard]] std::string_view page_script();

}  // namespace weft::simulate
