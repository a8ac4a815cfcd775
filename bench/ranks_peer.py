"""PyTorch's side of bench/ranks: one model in processes over gloo. ranks_peer.py KIND RANKS STEPS; KIND is single, ddp, fsdp2 or tensor."""

import math
import os
import socket
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.nn import functional as F

VOCABULARY, WIDTH, LAYERS, HEADS, FFN, SEQUENCES, LENGTH = 4096, 288, 6, 8, 768, 4, 256


class RmsNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x):
        return F.rms_norm(x, (WIDTH,), self.weight, 1e-5)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key, self.value, self.output = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))

    def forward(self, x, cosine, sine):
        batch, length, _ = x.shape
        q, k, v = (part(x).view(batch, length, -1, WIDTH // HEADS).transpose(1, 2) for part in (self.query, self.key, self.value))
        q, k = (t * cosine + torch.cat((-t.chunk(2, -1)[1], t.chunk(2, -1)[0]), -1) * sine for t in (q, k))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.output(y.transpose(1, 2).reshape(batch, length, -1))


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.up = nn.Linear(WIDTH, FFN, bias=False), nn.Linear(WIDTH, FFN, bias=False)
        self.down = nn.Linear(FFN, WIDTH, bias=False)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.attention, self.second, self.mlp = RmsNorm(), Attention(), RmsNorm(), Mlp()

    def forward(self, x, cosine, sine):
        x = x + self.attention(self.first(x), cosine, sine)
        return x + self.mlp(self.second(x))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = RmsNorm()
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.head.weight = self.tokens.weight
        head_dim = WIDTH // HEADS
        angle = torch.outer(torch.arange(LENGTH), 10000.0 ** (-torch.arange(0, head_dim, 2) / head_dim)).repeat(1, 2)
        self.register_buffer("cosine", angle.cos())
        self.register_buffer("sine", angle.sin())

    def forward(self, tokens, targets):
        x = self.tokens(tokens)
        for block in self.blocks:
            x = block(x, self.cosine, self.sine)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.view(-1))


def distributed(model, kind, ranks):
    if kind == "ddp":
        return nn.parallel.DistributedDataParallel(model)
    mesh = init_device_mesh("cpu", (ranks,))
    if kind == "fsdp2":
        from torch.distributed.fsdp import fully_shard

        for block in model.blocks:
            fully_shard(block, mesh=mesh)
        return fully_shard(model, mesh=mesh)
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    plan = {f"attention.{name}": ColwiseParallel() for name in ("query", "key", "value")}
    plan |= {"mlp.gate": ColwiseParallel(), "mlp.up": ColwiseParallel(), "attention.output": RowwiseParallel(), "mlp.down": RowwiseParallel()}
    for block in model.blocks:
        parallelize_module(block, mesh, plan)
    return model


def work(rank, kind, ranks, steps, port):
    torch.set_num_threads(1)
    if ranks > 1:
        dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=ranks)
    torch.manual_seed(1)
    model = Model()
    model = distributed(model, kind, ranks) if kind != "single" else model
    sequences = SEQUENCES if kind in ("single", "tensor") else SEQUENCES // ranks
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), fused=kind != "tensor")
    tokens = torch.randint(VOCABULARY, (sequences, LENGTH + 1))
    inputs, targets = tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
    for _ in range(steps):
        loss = model(inputs, targets)
        loss.backward()
        if kind != "tensor":  # refuses parameters of which some are sharded
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    assert math.isfinite(loss.item())
    if ranks > 1:
        dist.destroy_process_group()


def main():
    kind, ranks, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    if ranks == 1:
        work(0, kind, ranks, steps, port)
    else:
        mp.spawn(work, (kind, ranks, steps, port), nprocs=ranks)


if __name__ == "__main__":
    main()
