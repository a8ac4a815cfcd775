"""CPU seconds of a step of a pipeline of four stages on two ranks, both together, over those of the same micro-batches on one rank: a Llama of 15 million
parameters, 4 micro-batches of 256 tokens.

weft runs over threads and over processes (gloo), torch.distributed.pipelining over gloo processes. `ours` and `peer` are such quotients, each of its own
single rank; `ratio` is peer / ours, above 1 where weft costs less; `bar` is the most that ours may be: 1.1 over threads, and over processes half of the
peer's overhead. A step's CPU is the difference of two runs of different length. torch's stages do not share the embedding, weft's do.
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
KINDS = {"bfs": 2, "interleaved": 2, "zbv": 2}  # chunks
SETTINGS = {"model.heads": "8", "model.kv_heads": "8", "model.vocabulary": "4096", "train.global_batch": "4", "train.micro_batch": "1",
            "train.threads": "1", "samples.every": "0", "validation.every": "0", "data.validation": "0.0005", "checkpoint.every": "0"}


def run(command):
    environment = dict(os.environ, OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=ROOT, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit {done.returncode}\n{done.stderr[-2000:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def step_cpu(command_of):
    return (run(command_of(LONG)) - run(command_of(SHORT))) / (LONG - SHORT)


def weft(kind, threads):
    def command(steps):
        words = [os.path.join(ROOT, "build/release/bin/weft")]
        if kind:
            words += ["launch", "--ranks", "2"] + (["--threads"] if threads else []) + ["--"]
        words += ["train", "recipes/llama-15m.toml", "--steps", str(steps), "--out", os.path.join(tempfile.mkdtemp(), "run")]
        settings = dict(SETTINGS, **({"parallel.pipeline": "2", "schedule.kind": kind, "schedule.chunks": str(KINDS[kind])} if kind else {}))
        for key, value in settings.items():
            words += ["--set", f"{key}={value}"]
        return words

    return step_cpu(command)


def torch(kind):
    return step_cpu(lambda steps: [sys.executable, "-P", os.path.join(HERE, "pipeline_peer.py"), kind, str(steps)])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    rounds = range(arguments.rounds)
    ours_alone = statistics.median(weft("", True) for _ in rounds)
    theirs_alone = statistics.median(torch("single") for _ in rounds)
    rows = []
    for kind in KINDS:
        theirs = statistics.median(torch(kind) for _ in rounds) / theirs_alone
        for how, threads, bar in (("threads", True, 1.1), ("processes", False, round(1 + (theirs - 1) / 2, 2))):
            ours = statistics.median(weft(kind, threads) for _ in rounds) / ours_alone
            rows.append({"work": f"{kind} over {how}: CPU over one rank's", "ours": round(ours, 2), "peer": round(theirs, 2),
                         "ratio": round(theirs / ours, 2), "bar": bar})
            if not arguments.json:
                row = rows[-1]
                print(f"{row['work']:48} weft {row['ours']:5.2f} (at most {bar})  torch {row['peer']:5.2f}  ratio {row['ratio']}", flush=True)
    if arguments.json:
        print(json.dumps({"rows": rows}))


main()
