"""A step of Muon on one matrix beside its bare products and torch.optim.Muon; AdamW beside torch's fused kernel. CPU seconds, one thread.

The bare products are the fifteen of five Newton-Schulz steps by LibTorch's fp32 mm, which is the fastest type of a CPU without bf16 instructions of its own;
they are timed beside ours in our process, torch's optimizers in this one. Medians of interleaved rounds. A ratio is peer / ours. The bar of 1536 x 3840 is
1 / 1.15 of the bare products, that of AdamW on large tensors torch's speed, on 512 of 4,096 twice that; other rows have none.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

# This folder's tokenize.py is not the standard library's, which tracebacks and torch's compiler load.
sys.path = [folder for folder in sys.path if folder != os.path.dirname(os.path.abspath(__file__))]

import torch

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MATRICES = [(1536, 3840), (3840, 1536), (1536, 1536), (768, 3072), (128, 352)]
BUFFERS = [(1, 1 << 24, 1.0), (512, 4096, 2.0)]


def cpu_seconds(call):
    start = time.process_time()
    call()
    return time.process_time() - start


def peer_step(optimizer, tensors):
    for tensor in tensors:
        tensor.grad = torch.randn_like(tensor)
    optimizer.step()
    return lambda: optimizer.step()


def muon_peer(shape):
    weight = torch.nn.Parameter(torch.randn(shape))
    return peer_step(torch.optim.Muon([weight], adjust_lr_fn="match_rms_adamw"), [weight])


def adamw_peer(tensors, elements):
    weights = [torch.nn.Parameter(torch.randn(elements)) for _ in range(tensors)]
    return peer_step(torch.optim.AdamW(weights, fused=True), weights)


class Ours:
    def __init__(self, program):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __call__(self, line):
        print(line, file=self.process.stdin, flush=True)
        return json.loads(self.process.stdout.readline())


def medians(answers):
    return {key: statistics.median(answer[key] for answer in answers) for key in answers[0]}


def row(work, ours, peer, peer_name, bar):
    return {"work": work, "unit": "ms", "ours": round(ours * 1e3, 3), "peer": round(peer * 1e3, 3), "peer_name": peer_name,
            "ratio": round(peer / ours, 2), "bar": bar}


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--json", action="store_true")
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--program", default=f"{ROOT}/build/release/bench/muon_speed")
    options = arguments.parse_args()
    torch.set_num_threads(1)
    ours, rows = Ours(options.program), []
    for shape in MATRICES:
        line, peer = f"{shape[0]} {shape[1]}", muon_peer(shape)
        ours(line)
        answers, peers = [], []
        for _ in range(options.rounds):
            answers.append(ours(line))
            peers.append(cpu_seconds(peer))
        found = medians(answers)
        name = f"Muon, {shape[0]} x {shape[1]}"
        rows.append(row(name, found["step"], found["products"], "bare products", 0.87 if shape == MATRICES[0] else None))
        rows.append(row(name, found["step"], statistics.median(peers), "torch.optim.Muon", None))
    for tensors, elements, bar in BUFFERS:
        line, peer = f"adamw {tensors} {elements}", adamw_peer(tensors, elements)
        answers, peers = [], []
        for _ in range(options.rounds):
            answers.append(ours(line))
            peers.append(statistics.median(cpu_seconds(peer) for _ in range(20)))
        rows.append(row(f"AdamW, {tensors} x {elements}", medians(answers)["step"], statistics.median(peers), "torch, fused", bar))
    if options.json:
        print(json.dumps({"rows": rows}))
        return
    print(f"{'work':26} {'weft ms':>10} {'peer ms':>10}  {'peer':18} {'ratio':>6} {'bar':>6}")
    for line in rows:
        print(f"{line['work']:26} {line['ours']:10.2f} {line['peer']:10.2f}  {line['peer_name']:18} {line['ratio']:6.2f} {line['bar'] or '-':>6}")


if __name__ == "__main__":
    main()
