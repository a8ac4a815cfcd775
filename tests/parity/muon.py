"""Twenty steps of weft's Muon beside torch.optim.Muon on the gradients of a plain PyTorch loop, from the same weights.
torch's makes matrices orthogonal in bf16: twenty steps are compared with that product in double, and the first step as it
is, where weft may differ by what bf16 alone does to it.
usage: muon.py WEFT
"""
import json
import os
import subprocess
import sys
import tempfile

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch.optim import _muon

import training_loop

WEFT = sys.argv[1]
HERE = os.path.dirname(os.path.abspath(__file__))
RATE, DECAY, MOMENTUM = 3e-3, 0.2, 0.95
TORCH_SCALES = {"adamw": "match_rms_adamw", "original": "original", "spectral": "spectral_unclamped"}


def rows(path):
    with open(path) as file:
        return [json.loads(line) for line in file]


def in_double(gradient, coefficients, steps, eps):
    a, b, c = coefficients
    x = gradient.double()
    x = x.T if gradient.shape[0] > gradient.shape[1] else x
    x = x / x.norm()
    for _ in range(steps):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.T if gradient.shape[0] > gradient.shape[1] else x


def torch_steps(parameters, batches, scale):
    p = {path: value.double().requires_grad_() for path, value in parameters.items()}
    hidden = [value for path, value in p.items() if value.dim() == 2 and path.startswith("layers.")]
    tables = [value for path, value in p.items() if value.dim() == 2 and not path.startswith("layers.")]
    vectors = [value for value in p.values() if value.dim() == 1]
    optimizers = [torch.optim.Muon(hidden, lr=RATE, weight_decay=DECAY, momentum=MOMENTUM, adjust_lr_fn=TORCH_SCALES[scale]),
                  torch.optim.AdamW([{"params": tables, "weight_decay": DECAY}, {"params": vectors, "weight_decay": 0.0}],
                                    lr=RATE, betas=(0.9, 0.98), eps=1e-8)]
    for batch in batches:
        tokens, targets = torch.tensor(batch["tokens"]), torch.tensor(batch["targets"])
        for value in p.values():
            value.grad = None
        F.cross_entropy(training_loop.logits(p, tokens, True).flatten(0, 1), targets.flatten(), ignore_index=-1).backward()
        torch.nn.utils.clip_grad_norm_(p.values(), 0.5)
        for optimizer in optimizers:
            optimizer.step()
        yield {path: value.detach().clone() for path, value in p.items()}


def change_difference(found, wanted, start):
    """Of the change since the start, relative, the largest of all matrices."""
    return max(((found[path].double() - value).norm() / (value - start[path].double()).norm()).item()
               for path, value in wanted.items() if value.dim() == 2)


for scale in TORCH_SCALES:
    with tempfile.TemporaryDirectory() as folder:
        text, run = os.path.join(folder, "text.txt"), os.path.join(folder, "run")
        with open("recipes/data/tiny_shakespeare.txt") as source, open(text, "w") as file:
            file.write(source.read(3000))
        settings = (f"data.sources={json.dumps([text])}", "optimizer.kind=muon", "optimizer.convention=average",
                    f"optimizer.scale={scale}", f"optimizer.weight_decay={DECAY}", f"optimizer.learning_rate={RATE}",
                    "optimizer.clip=0.5", "optimizer.betas=[0.9, 0.98]", "phases=[]", "checkpoint.every=1", "checkpoint.keep=99")
        subprocess.run([WEFT, "train", os.path.join(HERE, "llama.toml"), "--out", run,
                        *(word for setting in settings for word in ("--set", setting))], check=True)
        batches = rows(os.path.join(run, "batches.jsonl"))
        weights = {step: load_file(os.path.join(run, f"checkpoints/step-{step}/parameters.safetensors")) for step in (0, 1, 20)}
    as_it_is = next(torch_steps(weights[0], batches, scale))
    rounded = change_difference(weights[1], as_it_is, weights[0])
    original, _muon._zeropower_via_newtonschulz = _muon._zeropower_via_newtonschulz, in_double
    first, *_, last = torch_steps(weights[0], batches, scale)
    _muon._zeropower_via_newtonschulz = original
    allowed = change_difference(first, as_it_is, weights[0])
    exact = change_difference(weights[20], last, weights[0])
    print(f"{scale}: twenty steps {exact:.1e} from torch's Muon in double; first step {rounded:.3f} from it in bf16, which "
          f"itself is {allowed:.3f} from double")
    assert exact < 1e-4 and rounded < 1.01 * allowed, (scale, exact, rounded, allowed)
