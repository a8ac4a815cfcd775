"""The largest difference of 20 steps' losses from those of one device, with tensor parallelism 2 and 4, dropout on and off.

weft trains the shakespeare recipe's model over threads in strict mode; PyTorch trains a model of the same sizes as a DTensor on a CPU mesh, initialised
as DTensors, at the same rate. `ratio` is null: ours is 0. `bar` is the most that ours may be.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
STEPS = 20


def weft(seed, ranks, dropout):
    out = os.path.join(tempfile.mkdtemp(), "run")
    command = [os.path.join(ROOT, "build/release/bin/weft")]
    if ranks > 1:
        command += ["launch", "--ranks", str(ranks), "--threads", "--"]
    command += ["train", "recipes/shakespeare.toml", "--strict", "--steps", str(STEPS), "--seed", str(seed), "--out", out]
    for setting in (f"model.dropout={dropout}", f"parallel.tensor={ranks}", "phases=[]", "samples.every=0", "validation.every=0",
                    "data.validation=0.002", "checkpoint.every=0"):
        command += ["--set", setting]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit {done.returncode}\n{done.stderr[-2000:]}")
    with open(os.path.join(out, "metrics.jsonl"), encoding="utf-8") as file:
        return [json.loads(line)["loss"] for line in file]


def torch(seed, ranks, dropout):
    command = [sys.executable, "-P", os.path.join(HERE, "equality_peer.py"), str(seed), str(ranks), str(dropout), str(STEPS)]
    done = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ, OMP_NUM_THREADS="1"), check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit {done.returncode}\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    rows = []
    for dropout in (0.0, 0.1):
        most = {(side, ranks): 0.0 for side in ("weft", "torch") for ranks in (2, 4)}
        for seed in range(1, arguments.seeds + 1):
            for side, train in (("weft", weft), ("torch", torch)):
                alone = train(seed, 1, dropout)
                for ranks in (2, 4):
                    many = train(seed, ranks, dropout)
                    most[side, ranks] = max(most[side, ranks], *(abs(a - b) for a, b in zip(alone, many)))
        for ranks in (2, 4):
            rows.append({"work": f"tensor {ranks}, dropout {dropout}: largest loss difference in {STEPS} steps", "ours": most["weft", ranks],
                         "peer": round(most["torch", ranks], 4), "ratio": None, "bar": 0.0})
            if not arguments.json:
                row = rows[-1]
                print(f"{row['work']:62} weft {row['ours']:.1e}  DTensor {row['peer']}", flush=True)
    if arguments.json:
        print(json.dumps({"rows": rows}))


main()
