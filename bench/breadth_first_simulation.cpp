// Reads lines of JSON, each a schedule with the costs of one of its stages, all alike, and answers each with a line:
//   {"kind": "bfs", "roles": 8, "chunks": 4, "micro_batches": 8, "rounds": 1, "whole": 2, "gathers": true,
//    "forward": s, "input": s, "weight": s, "gather": s, "reduce": s, "message": s}
//   {"makespan": s, "peak": activations of one role's layers, "gather": s, "reduce": s, "pipeline": s}
// The last three are what the fullest role waits for. whole 0: nothing is gathered or reduced; gathers false: gradients
// are reduced, parameters stay whole.
#include <algorithm>
#include <iostream>
#include <string>

#include "base/error.h"
#include "base/json.h"
#include "schedule/generate.h"
#include "schedule/passes.h"
#include "simulate/simulate.h"

namespace weft {
namespace {

Json answer(const JsonReader& line) {
  const auto number = [&](std::string_view key) { return static_cast<int32_t>(line.integer(key)); };
  const auto kind = schedule::kind_of(line.string("kind"));
  if (!kind) line.at("kind").fail("no such kind");
  schedule::GenerateOptions options;
  options.roles = number("roles");
  options.chunks = number("chunks");
  options.micro_batches = number("micro_batches");
  options.rounds = number("rounds");
  schedule::Schedule schedule = generate(*kind, options);
  const int32_t whole = number("whole");
  if (whole > 0) schedule = place_shards(schedule, whole, line.boolean("gathers"));

  simulate::Costs costs;
  costs.message = line.number("message");
  costs.stages.assign(schedule.stages.size(), {.forward = line.number("forward"),
                                               .input = line.number("input"),
                                               .weight = line.number("weight"),
                                               .gather = line.number("gather"),
                                               .reduce = line.number("reduce"),
                                               .activation = 1 / line.number("chunks")});
  const simulate::Simulation simulation = simulate::simulate(schedule, costs);
  double peak = 0, gather = 0, reduce = 0, pipeline = 0;
  for (const simulate::RoleSimulation& role : simulation.roles) {
    using simulate::Idle;
    peak = std::max(peak, role.peak);
    gather = std::max(gather, role.idle_of(Idle::kGather));
    reduce = std::max(reduce, role.idle_of(Idle::kReduce));
    pipeline =
        std::max(pipeline, role.idle_of(Idle::kWarmUp) + role.idle_of(Idle::kCoolDown) + role.idle_of(Idle::kOther));
  }
  return {{"makespan", simulation.makespan},
          {"peak", peak},
          {"gather", gather},
          {"reduce", reduce},
          {"pipeline", pipeline}};
}

}  // namespace
}  // namespace weft

int main() {
  try {
    for (std::string line; std::getline(std::cin, line);) {
      const weft::Json json = weft::parse_json(line, "standard input");
      std::cout << weft::dump_json(weft::answer(weft::JsonReader(json, "standard input"))) << std::endl;
    }
  } catch (const weft::Error& error) {
    std::cerr << error.what() << "\n";
    return static_cast<int>(error.exit_code());
  }
  return 0;
}
