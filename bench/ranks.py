"""CPU seconds of a step on many ranks, all of them together, over those of one rank: a Llama of 15 million parameters, 4 x 256 tokens.

weft trains over threads and over processes (gloo), PyTorch's DDP, FSDP2 and DTensor tensor parallelism over gloo processes. `ours` and
`peer` are such quotients, each of its own single rank; `ratio` is peer / ours, above 1 where weft costs less; `bar` is the most that ours may be.
A step's CPU is the difference of two runs of different length.
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
SHORT, LONG = 2, 8
# name: ranks, [parallel] of weft, kind of the peer, bar over threads, bar over processes (PyTorch's quotient on the reference machine)
LAYOUTS = {
    "data 2": (2, "data=2", "ddp", 1.08, 1.15),
    "data 4": (4, "data=4", "ddp", 1.2, 1.46),
    "fsdp 2": (2, "fsdp=2", "fsdp2", 1.2, 1.52),
    "fsdp 4": (4, "fsdp=4", "fsdp2", 1.4, 2.22),
    "tensor 2": (2, "tensor=2", "tensor", 1.25, 3.6),
    "tensor 4": (4, "tensor=4", "tensor", 1.6, 9.3),
}
HEADS = ["--set", "model.heads=8", "--set", "model.kv_heads=8"]  # so that four tensor ranks divide them
SETTINGS = {"model.vocabulary": "4096", "train.global_batch": "4", "train.micro_batch": "4", "train.threads": "1", "samples.every": "0",
            "validation.every": "0", "data.validation": "0.0005", "checkpoint.every": "0"}


def children():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def run(command):
    environment = dict(os.environ, OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")
    before = children()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=ROOT, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit {done.returncode}\n{done.stderr[-2000:]}")
    return children() - before


def step_cpu(command_of):
    return (run(command_of(LONG)) - run(command_of(SHORT))) / (LONG - SHORT)


def weft(ranks, parallel, threads):
    def command(steps):
        out = os.path.join(tempfile.mkdtemp(), "run")
        words = [os.path.join(ROOT, "build/release/bin/weft")]
        if ranks > 1:
            words += ["launch", "--ranks", str(ranks)] + (["--threads"] if threads else []) + ["--"]
        words += ["train", "recipes/llama-15m.toml", "--steps", str(steps), "--out", out, *HEADS]
        for key, value in SETTINGS.items():
            words += ["--set", f"{key}={value}"]
        return words + (["--set", f"parallel={{{parallel}}}"] if parallel else [])

    return step_cpu(command)


def torch(ranks, kind):
    return step_cpu(lambda steps: [sys.executable, "-P", os.path.join(HERE, "ranks_peer.py"), kind, str(ranks), str(steps)])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--layout", choices=LAYOUTS, action="append")
    arguments = parser.parse_args()
    rounds = range(arguments.rounds)
    ours_alone = statistics.median(weft(1, "", True) for _ in rounds)
    theirs_alone = statistics.median(torch(1, "single") for _ in rounds)
    rows = []
    for name in arguments.layout or LAYOUTS:
        ranks, parallel, kind, thread_bar, process_bar = LAYOUTS[name]
        theirs = statistics.median(torch(ranks, kind) for _ in rounds) / theirs_alone
        for how, threads, bar in (("threads", True, thread_bar), ("processes", False, process_bar)):
            ours = statistics.median(weft(ranks, parallel, threads) for _ in rounds) / ours_alone
            rows.append({"work": f"{name} over {how}: CPU over one rank's", "ours": round(ours, 2), "peer": round(theirs, 2),
                         "ratio": round(theirs / ours, 2), "bar": bar})
            if not arguments.json:
                row = rows[-1]
                print(f"{row['work']:50} weft {row['ours']:5.2f} (at most {bar})  torch {kind} {row['peer']:5.2f}  ratio {row['ratio']}", flush=True)
    if arguments.json:
        print(json.dumps({"rows": rows}))


main()
