"""Actions of pipeline schedules a CPU second, on one core: generated with their messages, and validated; and simulated.

Kinds on 64 roles with 256 micro-batches, and one large case, 256 roles x 4 chunks x 1,024 micro-batches, whose CPU seconds and peak memory count in all.
The bars are two million actions a second generated and validated, one million simulated, 10 seconds and 4,096 MiB. `ratio` is ours over the bar for rates,
the bar over ours for seconds and memory.
"""

import argparse
import json
import os
import statistics
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PROGRAM = os.path.join(ROOT, "build/release/bench/schedule_speed")
KINDS = [("gpipe", 1), ("1f1b", 1), ("interleaved", 4), ("bfs", 4), ("zb-h1", 1), ("zb-h2", 1), ("zbv", 2), ("dualpipe-v", 2)]
LARGE = [("interleaved", 4), ("bfs", 4)]


def measure(kind, roles, chunks, micro_batches, rounds):
    answers = [json.loads(subprocess.run([PROGRAM, kind, str(roles), str(chunks), str(micro_batches)], capture_output=True, text=True, check=True).stdout)
               for _ in range(rounds)]
    assert all(answer["valid"] for answer in answers), f"{kind}: not valid"
    return {key: statistics.median(answer[key] for answer in answers) for key in answers[0]}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    rows = []

    def add(work, ours, bar, ratio):
        rows.append({"work": work, "ours": round(ours, 3), "peer": bar, "ratio": round(ratio, 2), "bar": 1})
        if not arguments.json:
            print(f"{work:72} {ours:10.3f}  bar {bar:8}  ratio {ratio:6.2f}", flush=True)

    for kind, chunks in KINDS:
        got = measure(kind, 64, chunks, 256, arguments.rounds)
        prepared = got["actions"] / (got["generate"] + got["messages"] + got["validate"]) / 1e6
        simulated = got["actions"] / got["simulate"] / 1e6
        add(f"{kind}: million actions a second generated and validated", prepared, 2, prepared / 2)
        add(f"{kind}: million actions a second simulated", simulated, 1, simulated)
    for kind, chunks in LARGE:
        got = measure(kind, 256, chunks, 1024, 1)
        seconds = got["generate"] + got["messages"] + got["validate"]
        add(f"{kind}, 256 x 4 x 1,024, {got['actions'] / 1e6:.1f} million actions: seconds", seconds, 10, 10 / seconds)
        add(f"{kind}, 256 x 4 x 1,024: peak MiB, simulation included", got["peak_mib"], 4096, 4096 / got["peak_mib"])
    if arguments.json:
        print(json.dumps({"rows": rows}))


main()
