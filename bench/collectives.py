"""CPU time of a collective, all ranks together: between threads of one process beside c10d's gloo between processes, the same
values in the same run; and, without a bar, our groups over gloo, whose sums have the bits of threads.

Each round runs each of them once; a figure is the rounds' median. A ratio above 1 means that ours costs less. Walls are not
compared: ranks outnumber the cores.
"""

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
OPERATIONS = ("all_reduce", "reduce_scatter", "all_gather", "all_to_all")
BAR = 4.0


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def cpu_of_threads(program, words):
    reply = subprocess.run([program, "threads", *words], check=True, capture_output=True, text=True).stdout
    return json.loads(reply)["cpu_ms"]


def cpu_of_processes(program, how, words):
    size, port = int(words[1]), str(free_port())
    ranks = []
    for rank in range(size):
        environment = dict(os.environ, WEFT_RANK=str(rank), WEFT_RANKS=str(size), WEFT_ADDRESS="127.0.0.1", WEFT_PORT=port,
                           OMP_NUM_THREADS="1")
        ranks.append(subprocess.Popen([program, how, *words], stdout=subprocess.PIPE, text=True, env=environment))
    replies = [rank.communicate()[0] for rank in ranks]
    if any(rank.returncode for rank in ranks):
        sys.exit(f"{how} {' '.join(words)}: a rank failed")
    return sum(json.loads(reply)["cpu_ms"] for reply in replies)


def compare(program, operation, size, mebibytes, rounds):
    calls = max(3, 24 // mebibytes)
    words = [operation, str(size), str(mebibytes << 20), str(calls)]
    results = {"threads": [], "gloo": [], "c10d": []}
    for _ in range(rounds):
        results["threads"].append(cpu_of_threads(program, words))
        for how in ("gloo", "c10d"):
            results[how].append(cpu_of_processes(program, how, words))
    middle = {how: statistics.median(values) for how, values in results.items()}
    work = f"{operation}, {mebibytes} MiB, {size} ranks: CPU ms"
    return [{"work": f"{work}, {name}", "ours": round(middle[how], 3), "peer": round(middle["c10d"], 3), "peer_name": "c10d gloo",
             "ratio": round(middle["c10d"] / middle[how], 2), "bar": bar}
            for how, name, bar in (("threads", "threads", BAR), ("gloo", "processes", None))]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--operation", choices=OPERATIONS, action="append")
    parser.add_argument("--ranks", type=int, action="append")
    parser.add_argument("--mebibytes", type=int, action="append")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--program", default=os.path.join(os.path.dirname(HERE), "build/release/bench/collectives_speed"))
    options = parser.parse_args()
    rows = []
    for size in options.ranks or (2, 4):
        for operation in options.operation or OPERATIONS:
            for mebibytes in options.mebibytes or (1, 4, 16, 64):
                rows += compare(options.program, operation, size, mebibytes, options.rounds)
    if options.json:
        print(json.dumps({"rows": rows}))
        return
    print(f"{'work':52} {'weft':>10} {'peer':>10} {'ratio':>7}")
    for row in rows:
        print(f"{row['work']:52} {row['ours']:10.3f} {row['peer']:10.3f} {row['ratio']:7.2f}")


if __name__ == "__main__":
    main()
