// What the engine sets once for the whole process, before its first tensor.
#pragma once

namespace weft::kernel {

// `threads` threads inside an operator. `reproducible`: products of a slice equal slices of the product bit by bit,
// whatever the number of threads: MKL's strict mode where the processor has it and it is not too late to choose it, and
// slices of some products prove it; else plain loops, at about half the speed. Memory that a step gives back is kept
// for the next one.
struct ProcessSettings {
  int threads = 1;
  bool reproducible = false;
};

// Returns whether the settings hold.
bool start_process(const ProcessSettings& settings);

}  // namespace weft::kernel
