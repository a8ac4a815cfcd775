"""PyTorch's side of bench/equality: equality_peer.py SEED RANKS DROPOUT STEPS prints the losses. A GPT of the shakespeare recipe's sizes, its
layers tensor-parallel DTensors on a CPU mesh, the weights drawn as DTensors from the same seed on every rank."""

import json
import os
import socket
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn import functional as F

VOCABULARY, WIDTH, LAYERS, HEADS, LENGTH, SEQUENCES = 65, 128, 4, 4, 64, 12
TEXT = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "recipes/data/tiny_shakespeare.txt")


class Block(nn.Module):
    def __init__(self, dropout):
        super().__init__()
        self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.query, self.key, self.value, self.output = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH, bias=False), nn.Linear(4 * WIDTH, WIDTH, bias=False)
        self.dropout = dropout

    def forward(self, x):
        batch, length, _ = x.shape
        normed = self.first(x)
        q, k, v = (part(normed).view(batch, length, -1, WIDTH // HEADS).transpose(1, 2) for part in (self.query, self.key, self.value))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(batch, length, -1)
        x = x + F.dropout(self.output(y), self.dropout)
        return x + F.dropout(self.down(F.gelu(self.up(self.second(x)))), self.dropout)


class Model(nn.Module):
    def __init__(self, dropout):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleList(Block(dropout) for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, tokens):
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return F.linear(self.norm(x), self.tokens.weight)


def batches(steps):
    with open(TEXT, encoding="utf-8") as file:
        text = file.read()
    numbers = {character: number for number, character in enumerate(sorted(set(text)))}
    data = torch.tensor([numbers[character] for character in text])
    generator = torch.Generator().manual_seed(0)
    for _ in range(steps):
        starts = torch.randint(len(data) - LENGTH - 1, (SEQUENCES,), generator=generator)
        rows = torch.stack([data[start : start + LENGTH + 1] for start in starts.tolist()])
        yield rows[:, :-1].contiguous(), rows[:, 1:].contiguous()


def work(rank, seed, ranks, dropout, steps, port):
    torch.set_num_threads(1)
    model = Model(dropout)
    if ranks > 1:
        dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=ranks)
        plan = {name: ColwiseParallel() for name in ("query", "key", "value", "up")} | {name: RowwiseParallel() for name in ("output", "down")}
        for block in model.blocks:
            parallelize_module(block, init_device_mesh("cpu", (ranks,)), plan)
    torch.manual_seed(seed)
    for parameter in model.parameters():
        if parameter.dim() == 2:
            nn.init.normal_(parameter, std=0.08)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.99))
    losses = []
    for tokens, targets in batches(steps):
        loss = F.cross_entropy(model(tokens).view(-1, VOCABULARY), targets.view(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    if rank == 0:
        print(json.dumps(losses), flush=True)
    if ranks > 1:
        dist.destroy_process_group()


def main():
    seed, ranks, dropout, steps = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    if ranks == 1:
        work(0, seed, ranks, dropout, steps, port)
    else:
        mp.spawn(work, (seed, ranks, dropout, steps, port), nprocs=ranks)


if __name__ == "__main__":
    main()
