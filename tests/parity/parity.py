"""Twenty steps of weft beside a plain PyTorch loop from the same weights, on the same tokens.
usage: parity.py WEFT gpt|llama
"""
import json
import os
import subprocess
import sys
import tempfile

from safetensors.torch import load_file

import training_loop

LOSS, RELATIVE = 2e-6, 1e-5
WEFT, FAMILY = sys.argv[1:]
HERE = os.path.dirname(os.path.abspath(__file__))


def rows(path):
    with open(path) as file:
        return [json.loads(line) for line in file]


with tempfile.TemporaryDirectory() as folder:
    text, run = os.path.join(folder, "text.txt"), os.path.join(folder, "run")
    with open("recipes/data/tiny_shakespeare.txt") as source, open(text, "w") as file:
        file.write(source.read(3000))
    subprocess.run([WEFT, "train", os.path.join(HERE, FAMILY + ".toml"), "--out", run,
                    "--set", f"data.sources={json.dumps([text])}"], check=True)
    metrics, batches = rows(os.path.join(run, "metrics.jsonl")), rows(os.path.join(run, "batches.jsonl"))
    parameters = load_file(os.path.join(run, "checkpoints/step-0/parameters.safetensors"))
    trained = load_file(os.path.join(run, "checkpoints/step-20/parameters.safetensors"))

assert [row["step"] for row in metrics] == list(range(1, 21)), "each step once, in order"
targets = [sum(target >= 0 for row in batch["targets"] for target in row) for batch in batches]
assert len(set(targets)) > 1, "some batch must hold fewer targets than others, or the weighting is not tested"
clipped = 0
expected = list(training_loop.train(parameters, batches, FAMILY == "llama"))
for row, count, (loss, norm) in zip(metrics, targets, expected, strict=True):
    print(f"step {row['step']}: loss {row['loss']:.7f}, PyTorch {loss:.7f}; norm {row['grad_norm']:.5f}, {norm:.5f}")
    assert row["tokens"] == count
    assert abs(row["loss"] - loss) < LOSS
    assert abs(row["grad_norm"] - norm) < 1e-4 * norm
    clipped += norm > 0.5
assert clipped > 0, "clipping must have been at work"
assert parameters.keys() == trained.keys()
# A key's bias adds the same to all scores of a query: its gradient is rounding alone, and Adam makes steps of it.
worst = max((((trained[path].double() - value).norm() / value.norm()).item(), path)
            for path, value in parameters.items() if not path.endswith("key.bias"))
print(f"largest relative difference of a parameter: {worst[0]:.2e} ({worst[1]})")
assert worst[0] < RELATIVE
