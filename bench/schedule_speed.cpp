// One schedule generated, validated and simulated: schedule_speed KIND ROLES CHUNKS MICRO_BATCHES. Prints actions, CPU
// seconds of each, and the process's peak memory as a line of JSON. bench/schedule runs it.
#include <cstdlib>
#include <ctime>
#include <sys/resource.h>

#include <fmt/format.h>

#include "schedule/generate.h"
#include "schedule/passes.h"
#include "schedule/validate_stages.h"
#include "simulate/simulate.h"

namespace {

double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

int run(char** words) {
  using namespace weft;
  const auto kind = schedule::kind_of(words[1]);
  if (!kind) return EXIT_FAILURE;
  schedule::GenerateOptions options;
  options.roles = std::atoi(words[2]);
  options.chunks = std::atoi(words[3]);
  options.micro_batches = std::atoi(words[4]);
  const double start = cpu_seconds();
  const schedule::Schedule computed = schedule::generate(*kind, options);
  const double generated = cpu_seconds();
  const schedule::Schedule placed = schedule::place_messages(computed, schedule::MessagePlace::kSender, options.times);
  const double messages = cpu_seconds();
  const bool valid = !schedule::validate_stages(placed).has_value();
  const double validated = cpu_seconds();
  const simulate::Simulation simulation = simulate::simulate(placed, simulate::costs_of(placed, options.times));
  const double simulated = cpu_seconds();
  size_t actions = 0;
  for (const schedule::RoleSchedule& role : placed.roles) actions += role.actions.size();
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  fmt::print(
      R"({{"valid": {}, "actions": {}, "generate": {}, "messages": {}, "validate": {}, "simulate": {}, "makespan": {}, "peak_mib": {}}})"
      "\n",
      valid, actions, generated - start, messages - generated, validated - messages, simulated - validated,
      simulation.makespan, usage.ru_maxrss / 1024);
  return EXIT_SUCCESS;
}

}  // namespace

int main(int count, char** words) { return count == 5 ? run(words) : EXIT_FAILURE; }
