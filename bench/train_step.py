"""Training steps a CPU second, one thread: weft beside PyTorch eager and torch.compile on the same model.

Every round runs each of them once, one after the other; a ratio is the median of the rounds' ratios, above 1 where weft is
faster. Memory is the peak above what the process had before it made the model.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
# name: steps a round, rounds
WORKS = {"shakespeare": (10, 9), "llama-15m": (2, 7), "gpt2-124m": (1, 5)}


class Runner:
    def __init__(self, command):
        environment = dict(os.environ, OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)

    def steps(self, count):
        self.process.stdin.write(f"{count}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"{self.process.args} ended with {self.process.wait()}")
        return json.loads(line)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def measure(work, program, peers, rounds):
    peer = os.path.join(HERE, "train_step_peer.py")
    runners = {"weft": Runner([program, work])}
    for kind in peers:
        runners[kind] = Runner([sys.executable, "-P", peer, work, kind])  # -P: tokenize.py beside it is not the library's
    steps, usual_rounds = WORKS[work]
    for runner in runners.values():
        runner.steps(2)  # allocations, compilation
    results = {name: [] for name in runners}
    for _ in range(rounds or usual_rounds):
        for name, runner in runners.items():
            results[name].append(runner.steps(steps))
    for runner in runners.values():
        runner.close()
    ours = results["weft"]
    rows = []
    for name in peers:
        theirs = results[name]
        ratio = statistics.median(b["cpu"] / a["cpu"] for a, b in zip(ours, theirs))
        speed = lambda rows: statistics.median(row["tokens"] / row["cpu"] for row in rows)
        rows.append({"work": f"{work}: tokens per CPU second", "peer": name, "ours": round(speed(ours), 1),
                     "peer_value": round(speed(theirs), 1), "ratio": round(ratio, 3), "bar": 1.0 if name == "eager" else None})
        mib = [max(row["peak"] for row in rows) / 2**20 for rows in (ours, theirs)]
        rows.append({"work": f"{work}: peak MiB", "peer": name, "ours": round(mib[0], 1), "peer_value": round(mib[1], 1),
                     "ratio": round(mib[1] / mib[0], 3), "bar": 1.0 if name == "eager" else None})
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--work", choices=WORKS, action="append")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--without-compile", action="store_true")
    parser.add_argument("--program", default=os.path.join(os.path.dirname(HERE), "build/release/bench/train_step_speed"))
    arguments = parser.parse_args()
    peers = ["eager"] if arguments.without_compile else ["eager", "compile"]
    rows = []
    for work in arguments.work or WORKS:
        rows += measure(work, arguments.program, peers, arguments.rounds)
    if arguments.json:
        print(json.dumps({"rows": rows}))
        return
    for row in rows:
        print(f"{row['work']:45} weft {row['ours']:>10}  {row['peer']:8} {row['peer_value']:>10}  ratio {row['ratio']}")


main()
