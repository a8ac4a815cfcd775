#include "app/schedule_definitions.h"

namespace weft::app {

CommandDefinition schedule() {
  return {
      .name = "schedule",
      .text = "make a pipeline schedule by name and simulate it",
      .details =
          "KIND is gpipe, 1f1b, interleaved, bfs, zb-h1, zb-h2, zb-auto, zbv, v-half, v-min or dualpipe-v. Times are "
          "of one micro-batch through all the layers of one role, and of one message; activations are of one "
          "micro-batch through one role's layers.",
      .example = "weft schedule interleaved --ranks 4 --chunks 2 --micro-batches 8 --html timeline.html",
      .arguments = {{"KIND", "the name of the schedule"}},
      .options = {{.name = "--ranks",
                   .placeholder = "P",
                   .text = "pipeline roles",
                   .type = OptionType::kInteger,
                   .least = 1,
                   .greatest = 65536,
                   .required = true},
                  {.name = "--chunks",
                   .placeholder = "V",
                   .text = "stages a role; what the kind has if not given",
                   .type = OptionType::kInteger,
                   .least = 1,
                   .greatest = 65536},
                  {.name = "--micro-batches",
                   .placeholder = "M",
                   .text = "micro-batches of a step",
                   .type = OptionType::kInteger,
                   .least = 1,
                   .greatest = 1 << 24,
                   .required = true},
                  {.name = "--times",
                   .placeholder = "F,B,W,C",
                   .text = "of a forward, a backward for the input, one for the weights, and a message",
                   .type = OptionType::kNumbers,
                   .standard = "1,1,1,0",
                   .least = 0},
                  {.name = "--stage-times",
                   .placeholder = "T0,T1,..",
                   .text = "relative times of the stages; equal if not given",
                   .type = OptionType::kNumbers,
                   .least = 0},
                  {.name = "--fsdp",
                   .placeholder = "CAP",
                   .text = "gather and reduce sharded parameters, so that a role holds at most CAP stages whole",
                   .type = OptionType::kInteger,
                   .least = 1,
                   .greatest = 65536},
                  {.name = "--memory",
                   .placeholder = "LIMIT",
                   .text = "activations that a role of zb-auto may hold; P if not given",
                   .type = OptionType::kNumber,
                   .least = 0},
                  {.name = "--weight-share",
                   .placeholder = "X",
                   .text = "of an activation, what is held from the backward for the input to that for the weights",
                   .type = OptionType::kNumber,
                   .standard = "0.4",
                   .least = 0,
                   .greatest = 1},
                  {.name = "--run",
                   .placeholder = "N",
                   .text = "interleaved: micro-batches that run through a chunk in a row; P if not given",
                   .type = OptionType::kInteger,
                   .least = 1,
                   .greatest = 1 << 24},
                  {.name = "--rounds",
                   .placeholder = "N",
                   .text = "bfs: parts of the micro-batches, one after the other",
                   .type = OptionType::kInteger,
                   .standard = "1",
                   .least = 1,
                   .greatest = 1 << 24},
                  {.name = "--csv", .placeholder = "FILE", .text = "write the lists of actions, with their messages"},
                  {.name = "--html", .placeholder = "FILE", .text = "write the timeline as a page for a browser"},
                  {.name = "--trace", .placeholder = "FILE", .text = "write the timeline for Perfetto or Chrome"},
                  {.name = "--measured",
                   .placeholder = "TRACE.json",
                   .text = "draw what a run measured beside it; times of the schedule are then seconds"}},
  };
}

CommandDefinition schedule_check() {
  return {
      .name = "schedule check",
      .text = "whether a schedule in a file runs to its end and makes the right gradient",
      .details =
          "FILE.csv holds a line of comma-separated actions for each role, as torch.distributed.pipelining writes "
          "them. "
          "Exit code 2 if it is not valid.",
      .example = "weft schedule check my-schedule.csv",
      .arguments = {{"FILE.csv", "the lists of actions"}},
      .options = {},
  };
}

}  // namespace weft::app
