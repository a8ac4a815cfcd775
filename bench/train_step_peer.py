"""PyTorch's side of bench/train_step: the same models, eager or compiled, written as nanoGPT and Llama are, fused AdamW, clipping at 1.

Reads numbers of steps, a line each, from standard input; answers each with one JSON line.
"""

import json
import math
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F

torch.set_num_threads(1)


class LayerNorm(nn.Module):
    def __init__(self, width, bias):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width)) if bias else None

    def forward(self, x):
        return F.layer_norm(x, self.weight.shape, self.weight, self.bias, 1e-5)


class RmsNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.weight


def rotated(x, cosine, sine):
    first, second = x.chunk(2, dim=-1)
    return x * cosine + torch.cat((-second, first), dim=-1) * sine


class Attention(nn.Module):
    def __init__(self, width, heads, bias):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width, bias=bias)
        self.output = nn.Linear(width, width, bias=bias)

    def forward(self, x, rope):
        batch, length, width = x.shape
        q, k, v = (part.view(batch, length, self.heads, -1).transpose(1, 2) for part in self.qkv(x).split(width, dim=2))
        if rope is not None:
            q, k = rotated(q, *rope), rotated(k, *rope)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.output(y.transpose(1, 2).reshape(batch, length, width))


class GeluMlp(nn.Module):
    def __init__(self, width, bias, tanh):
        super().__init__()
        self.up = nn.Linear(width, 4 * width, bias=bias)
        self.down = nn.Linear(4 * width, width, bias=bias)
        self.approximate = "tanh" if tanh else "none"

    def forward(self, x):
        return self.down(F.gelu(self.up(x), approximate=self.approximate))


class SwiGluMlp(nn.Module):
    def __init__(self, width, ffn):
        super().__init__()
        self.gate = nn.Linear(width, ffn, bias=False)
        self.up = nn.Linear(width, ffn, bias=False)
        self.down = nn.Linear(ffn, width, bias=False)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Block(nn.Module):
    def __init__(self, norm, attention, mlp):
        super().__init__()
        self.first, self.attention, self.second, self.mlp = norm(), attention(), norm(), mlp()

    def forward(self, x, rope):
        x = x + self.attention(self.first(x), rope)
        return x + self.mlp(self.second(x))


class Model(nn.Module):
    def __init__(self, vocabulary, width, layers, length, norm, attention, mlp, learned_positions):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(length, width) if learned_positions else None
        self.blocks = nn.ModuleList(Block(norm, attention, mlp) for _ in range(layers))
        self.norm = norm()
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.tokens.weight
        for parameter in self.parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, std=0.02)
        if not learned_positions:
            head_dim = width // self.blocks[0].attention.heads
            inverse = 10000.0 ** (-torch.arange(0, head_dim, 2) / head_dim)
            angle = torch.outer(torch.arange(length), inverse).repeat(1, 2)
            self.register_buffer("cosine", angle.cos())
            self.register_buffer("sine", angle.sin())

    def forward(self, tokens, targets):
        x = self.tokens(tokens)
        rope = None
        if self.positions is not None:
            x = x + self.positions(torch.arange(tokens.shape[1]))
        else:
            rope = (self.cosine, self.sine)
        for block in self.blocks:
            x = block(x, rope)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.view(-1))


def work(name):
    if name == "shakespeare":
        model = Model(65, 128, 4, 64, lambda: LayerNorm(128, False), lambda: Attention(128, 4, False),
                      lambda: GeluMlp(128, False, False), True)
        return model, 65, 12, 64
    if name == "llama-15m":
        model = Model(4096, 288, 6, 256, lambda: RmsNorm(288), lambda: Attention(288, 6, False), lambda: SwiGluMlp(288, 768), False)
        return model, 4096, 4, 256
    if name == "gpt2-124m":
        model = Model(50257, 768, 12, 64, lambda: LayerNorm(768, True), lambda: Attention(768, 12, True),
                      lambda: GeluMlp(768, True, True), True)
        return model, 50257, 4, 64
    raise SystemExit(f"no work named {name}")


def memory(key):
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(key))


def main():
    name, kind = sys.argv[1:3]
    torch.manual_seed(1)
    torch.ones(64, 64) @ torch.ones(64, 64)
    before = memory("VmRSS:")
    model, vocabulary, sequences, length = work(name)
    groups = [{"params": [p for p in model.parameters() if p.dim() >= 2], "weight_decay": 0.1},
              {"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.95), fused=True)
    run = torch.compile(model) if kind == "compile" else model
    tokens = torch.randint(vocabulary, (sequences, length + 1))
    inputs, targets = tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
    parameters = list(model.parameters())
    for line in sys.stdin:
        steps = int(line)
        start = time.process_time()
        for _ in range(steps):
            loss = run(inputs, targets)
            loss.backward()
            nn.utils.clip_grad_norm_(parameters, 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        cpu = time.process_time() - start
        value = loss.item()
        assert math.isfinite(value)
        print(json.dumps({"cpu": cpu, "loss": value, "tokens": steps * sequences * length, "peak": memory("VmHWM:") - before}), flush=True)


main()
