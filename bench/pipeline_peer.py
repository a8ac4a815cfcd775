"""PyTorch's side of bench/pipeline: the model of ranks_peer.py in four stages on two ranks over gloo, by torch.distributed.pipelining, or on one rank.
pipeline_peer.py KIND STEPS; KIND is single, bfs, interleaved or zbv.

The head is not tied to the embedding: torch.distributed.pipelining has no way to tie stages of different ranks.
"""

import os
import socket
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.distributed.pipelining import PipelineStage, schedules
from torch.nn import functional as F

# Last, since this folder's tokenize.py is not the standard library's.
sys.path.append(os.path.dirname(os.path.abspath(__file__)))
from ranks_peer import LAYERS, LENGTH, SEQUENCES, VOCABULARY, Model

RANKS, STAGES = 2, 4
SCHEDULES = {"bfs": schedules.ScheduleLoopedBFS, "interleaved": schedules.ScheduleInterleaved1F1B, "zbv": schedules.ScheduleZBVZeroBubble}
OWNED = {"bfs": [[0, 2], [1, 3]], "interleaved": [[0, 2], [1, 3]], "zbv": [[0, 3], [1, 2]]}
CUTS = [0, 2, 3, 5, LAYERS]  # layers of the four stages


class Part(nn.Module):
    def __init__(self, model, stage):
        super().__init__()
        self.blocks = model.blocks[CUTS[stage] : CUTS[stage + 1]]
        self.tokens = model.tokens if stage == 0 else None
        self.norm, self.head = (model.norm, model.head) if stage == STAGES - 1 else (None, None)
        self.register_buffer("cosine", model.cosine)
        self.register_buffer("sine", model.sine)

    def forward(self, x):
        if self.tokens is not None:
            x = self.tokens(x)
        for block in self.blocks:
            x = block(x, self.cosine, self.sine)
        return x if self.head is None else self.head(self.norm(x))


def loss_of(logits, targets):
    return F.cross_entropy(logits.view(-1, VOCABULARY), targets.view(-1))


def batch():
    tokens = torch.randint(VOCABULARY, (SEQUENCES, LENGTH + 1))
    return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()


def model_of():
    torch.set_num_threads(1)
    torch.manual_seed(1)
    model = Model()
    model.head.weight = nn.Parameter(torch.randn(VOCABULARY, model.head.in_features) * 0.02)
    return model


def finish(parameters, optimizer):
    nn.utils.clip_grad_norm_(parameters, 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


def single(steps):
    model = model_of()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), fused=True)
    inputs, targets = batch()
    for _ in range(steps):
        for row in range(SEQUENCES):
            (model(inputs[row : row + 1], targets[row : row + 1]) / SEQUENCES).backward()
        finish(list(model.parameters()), optimizer)


def work(rank, kind, steps, port):
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=RANKS)
    model = model_of()
    parts = [Part(model, stage) for stage in OWNED[kind][rank]]
    stages = [PipelineStage(part, stage, STAGES, torch.device("cpu")) for part, stage in zip(parts, OWNED[kind][rank])]
    schedule = SCHEDULES[kind](stages, SEQUENCES, loss_fn=loss_of)
    parameters = [parameter for part in parts for parameter in part.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=1e-3, betas=(0.9, 0.95), fused=True)
    inputs, targets = batch()
    arguments = (inputs,) if 0 in OWNED[kind][rank] else ()
    target = {"target": targets} if STAGES - 1 in OWNED[kind][rank] else {}
    for _ in range(steps):
        schedule.step(*arguments, **target)
        finish(parameters, optimizer)
    dist.destroy_process_group()


def main():
    kind, steps = sys.argv[1], int(sys.argv[2])
    if kind == "single":
        single(steps)
        return
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    mp.spawn(work, (kind, steps, port), nprocs=RANKS)


if __name__ == "__main__":
    main()
