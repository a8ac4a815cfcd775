"""The mean loss over the whole validation part (1,742 windows of 64) after the 2,000 steps of recipes/shakespeare.toml.

The peer's losses are those of a plain PyTorch loop with nanoGPT's configuration for CPUs, measured once; its seeds are other
random numbers, so that rows stand beside each other only as samples of one distribution. The bar is a loss of 1.92.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PEER = {1: 1.9085, 2: 1.9159, 3: 1.9053}
BAR = 1.92


def train(seed, folder):
    done = subprocess.run([os.path.join(ROOT, "weft"), "train", "recipes/shakespeare.toml", "--seed", str(seed), "--out",
                           os.path.join(folder, str(seed)), "--set", "samples.every=0", "--json"], cwd=ROOT, check=True,
                          stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout)["validation_loss"]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    reached = True
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for seed, peer in PEER.items():
            ours = train(seed, folder)
            reached &= ours <= BAR
            row = {"work": f"shakespeare, seed {seed}", "ours": ours, "peer": peer, "ratio": peer / ours, "bar": peer / BAR}
            rows.append(row)
            if not options.json:
                print(f"{row['work']}: loss {ours:.4f}, PyTorch {peer:.4f}, at most {BAR}", flush=True)
    if options.json:
        print(json.dumps({"rows": rows}))
    return 0 if reached else 1


sys.exit(main())
