"""Normal mode: 100 steps of a recipe at a constant rate of 1e-3 under several layouts, each loss within 6e-5 of one rank's.
usage: hundred_steps.py WEFT RECIPE
"""

import json
import os
import subprocess
import sys
import tempfile

WEFT, RECIPE = sys.argv[1:]
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BOUND = 6e-5
LAYOUTS = [(1, "data=1", ["schedule.micro_batches=3"]), (3, "data=3", []), (2, "fsdp=2", ["schedule.micro_batches=2"]), (4, "tensor=4", []),
           (2, "tensor=2, sequence=true", []), (4, "context=2, tensor=2", []), (4, "data=2, fsdp=2, zero=2", [])]


def losses(folder, name, ranks, parallel, more):
    out = os.path.join(folder, name)
    settings = ["phases=[]", "optimizer.learning_rate=1e-3", "samples.every=0", "validation.every=0", "data.validation=0.002",
                "checkpoint.every=0", f"parallel={{{parallel}}}", *more]
    command = [WEFT] + (["launch", "--ranks", str(ranks), "--threads", "--"] if ranks > 1 else [])
    command += ["train", os.path.join(ROOT, RECIPE), "--steps", "100", "--out", out]
    for setting in settings:
        command += ["--set", setting]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=600)
    assert done.returncode == 0, f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr}"
    with open(os.path.join(out, "metrics.jsonl"), encoding="utf-8") as file:
        return [json.loads(line)["loss"] for line in file]


def main():
    with tempfile.TemporaryDirectory() as folder:
        alone = losses(folder, "alone", 1, "data=1", [])
        assert len(alone) == 100 and alone[-1] < alone[0] - 1
        for number, (ranks, parallel, more) in enumerate(LAYOUTS):
            many = losses(folder, str(number), ranks, parallel, more)
            most = max(abs(a - b) for a, b in zip(alone, many, strict=True))
            print(f"{parallel} {more}: {most:.2e}")
            assert most < BOUND, f"{parallel} {more}: a loss differs by {most:.2e}, at most {BOUND} is allowed"


main()
