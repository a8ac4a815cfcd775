"""Ranks as processes over gloo, as threads, and one rank alone: one parameter_hash in strict mode, from the command line.
usage: processes.py WEFT
"""

import json
import os
import subprocess
import sys
import tempfile

WEFT = sys.argv[1]
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SETTINGS = ["--steps", "4", "--strict", "--set", "samples.every=0", "--set", "validation.every=0", "--set", "data.validation=0.002"]
# Ranks, [parallel], [schedule].
LAYOUTS = [
    (2, "data=2, zero=1", ""),
    (2, "tensor=2, sequence=true", ""),
    (3, "fsdp=3", ""),
    (4, "context=2, tensor=2", ""),
    (2, "pipeline=2", "kind='zbv', micro_batches=3"),
    (4, "pipeline=2, data=2, zero=3", "kind='bfs', chunks=2, micro_batches=2"),
    (4, "data=2, fsdp=2, zero=2", ""),
]


def train(folder, name, recipe, launch, settings):
    # A launcher of its own starts `weft train` itself.
    start = launch if launch[:1] == [sys.executable] else [WEFT, *launch]
    command = [*start, "train", os.path.join(ROOT, recipe), "--out", os.path.join(folder, name), "--json", *settings]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=300)
    assert done.returncode == 0, f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr}"
    lines = done.stdout.splitlines()
    assert len(lines) == 1, f"standard output is rank 0's line alone: {lines}"
    return json.loads(lines[0])


def main():
    for recipe in ("recipes/llama-nano.toml", "recipes/shakespeare.toml"):
        with tempfile.TemporaryDirectory() as folder:
            alone = train(folder, "alone", recipe, [], SETTINGS)
            for number, (ranks, parallel, schedule) in enumerate(LAYOUTS):
                for how in (["--threads"], []):
                    launch = ["launch", "--ranks", str(ranks), *how, "--"]
                    settings = [*SETTINGS, "--set", f"parallel={{{parallel}}}", "--set", f"schedule={{{schedule}}}"]
                    many = train(folder, f"{number}{'-threads' if how else ''}", recipe, launch, settings)
                    for key in ("parameter_hash", "loss", "validation_loss", "tokens"):
                        assert many[key] == alone[key], f"{recipe}, {parallel}, {how}: {key} is {many[key]}, alone {alone[key]}"
            torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--no-python", "--nproc-per-node", "2", WEFT]
            started = train(folder, "torchrun", recipe, torchrun, [*SETTINGS, "--set", "parallel.data=2"])
            assert started["parameter_hash"] == alone["parameter_hash"], "started by torchrun"
            # Saved by four ranks as processes, gone on with by one.
            longer = [word if word != "4" else "6" for word in SETTINGS]
            last = f"{len(LAYOUTS) - 1}"
            resumed = train(folder, last, recipe, [], [*longer, "--resume"])
            whole = train(folder, "whole", recipe, [], longer)
            assert resumed["parameter_hash"] == whole["parameter_hash"], "resumed on one rank"


main()
