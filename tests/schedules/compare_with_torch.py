"""weft's schedules beside those of torch.distributed.pipelining: orders, placed messages, gathers, and the text both ways.

usage: compare_with_torch.py SCHEDULE_PEER
"""

import csv
import os
import subprocess
import sys
import tempfile
import types
import unittest

import torch.distributed.pipelining.schedules as torch_schedules
from torch.distributed.pipelining.schedules import _Action

PEER = sys.argv.pop()
REDUCTIONS = (torch_schedules.REDUCE_GRAD, torch_schedules.WAIT_REDUCE_GRAD)
SHAPES = [(p, v, m) for p in (1, 2, 3, 4, 6, 8) for v in (1, 2, 3, 4) for m in (1, 2, 3, 4, 5, 8, 12, 16, 24)]


def weft(*arguments):
    run = subprocess.run([PEER, *map(str, arguments)], capture_output=True, text=True)
    if run.returncode != 0:
        raise RuntimeError(f"{arguments}: {run.stderr}")
    return run.stdout


def rows(text):
    """As torch reads them."""
    return {rank: [_Action.from_str(cell) for cell in row] for rank, row in enumerate(csv.reader(text.splitlines()))}


def computations(order):
    return {rank: [a for a in order[rank] if a is not None and a.is_compute_op] for rank in order}


def without_waits(order):
    """Without those for reductions, which weft puts right behind them, and without empty cells."""
    return {rank: [a for a in actions if a is not None and a.computation_type != torch_schedules.WAIT_REDUCE_GRAD]
            for rank, actions in order.items()}


def by_rank(schedule_class, roles, chunks, micro_batches, **fields):
    """The order of a torch schedule without a process group: its lists look at these fields alone."""
    shape = types.SimpleNamespace(
        pp_group_size=roles, num_stages=roles * chunks, n_local_stages=chunks, _num_stages=roles * chunks,
        _stages=[None] * chunks, _n_microbatches=micro_batches, **fields)
    return {rank: schedule_class._calculate_single_rank_operations(shape, rank) for rank in range(roles)}


def owner(order):
    owners = {}
    for rank, actions in order.items():
        for action in actions:
            for part in action.sub_actions or (action,):
                owners[part.stage_index] = rank
    return owners


class Orders(unittest.TestCase):
    def same(self, ours, theirs):
        self.assertEqual(computations(rows(ours)), computations(theirs))

    def test_gpipe(self):
        for p, v, m in SHAPES:
            if v == 1:
                shape = types.SimpleNamespace(_num_stages=p, _n_microbatches=m)
                self.same(weft("make", "gpipe", p, 1, m), torch_schedules.ScheduleGPipe._get_pipeline_order(shape))

    def test_1f1b(self):
        for p, v, m in SHAPES:
            if v != 1 or m < p:
                continue  # torch's picture of fewer micro-batches than ranks has too many forwards
            shape = types.SimpleNamespace(_num_stages=p, _n_microbatches=m)
            theirs = torch_schedules.Schedule1F1B._get_pipeline_order(shape)
            # torch's picture counts the last rank's forwards from 1; what it runs counts from 0.
            theirs[p - 1] = [a and (a._replace(microbatch_index=a.microbatch_index - 1) if str(a.computation_type.value) == "F" else a)
                             for a in theirs[p - 1]]
            self.same(weft("make", "1f1b", p, 1, m), theirs)

    def test_interleaved(self):
        compared = 0
        for p, v, m in SHAPES:
            rounds = max(1, m // p)
            if m % rounds == 0:
                theirs = by_rank(torch_schedules.ScheduleInterleaved1F1B, p, v, m, microbatches_per_round=m // rounds)
                ours = weft("make", "interleaved", p, v, m)
                self.same(ours, theirs)
                compared += 1
        self.assertGreater(compared, 100)

    def test_looped_bfs(self):
        """torch runs the backward micro-batches of a stage descending, weft ascending."""
        for p, v, m in SHAPES:
            theirs = computations(by_rank(torch_schedules.ScheduleLoopedBFS, p, v, m))
            for rank, actions in theirs.items():
                theirs[rank] = [a if str(a.computation_type.value) == "F" else a._replace(microbatch_index=m - 1 - a.microbatch_index)
                                for a in actions]
            self.same(weft("make", "bfs", p, v, m), theirs)

    def test_zb_h1_is_the_interleaved_zero_bubble_schedule_of_one_chunk(self):
        for p, v, m in SHAPES:
            if v == 1 and m >= p:
                theirs = by_rank(torch_schedules.ScheduleInterleavedZeroBubble, p, 1, m, microbatches_per_round=m)
                self.same(weft("make", "zb-h1", p, 1, m), theirs)

    def test_zbv(self):
        for p, v, m in SHAPES:
            if v == 2:
                self.same(weft("make", "zbv", p, 2, m), by_rank(torch_schedules.ScheduleZBVZeroBubble, p, 2, m))

    def test_dualpipe_v(self):
        for p, v, m in SHAPES:
            if v == 2 and m >= 2 * p:
                self.same(weft("make", "dualpipe-v", p, 2, m), by_rank(torch_schedules.ScheduleDualPipeV, p, 2, m))


KINDS = [("gpipe", 4, 1, 8), ("1f1b", 4, 1, 8), ("interleaved", 2, 2, 4), ("interleaved", 4, 3, 12), ("bfs", 2, 2, 4), ("bfs", 4, 3, 6),
         ("zb-h1", 4, 1, 8), ("zb-h2", 4, 1, 9), ("zb-auto", 4, 1, 9), ("zbv", 4, 2, 8), ("v-half", 4, 2, 9), ("v-min", 3, 2, 9),
         ("dualpipe-v", 4, 2, 10), ("1f1b", 4, 1, 2), ("interleaved", 4, 2, 3)]


class Passes(unittest.TestCase):
    def test_messages_of_the_sender(self):
        for kind, p, v, m in KINDS:
            bare = computations(rows(weft("make", kind, p, v, m)))
            owners = owner(bare)
            theirs = torch_schedules._add_send_recv(bare, owners.__getitem__, p * v)
            self.assertEqual(rows(weft("make", kind, p, v, m, "place=sender")), theirs, (kind, p, v, m))

    def test_gathers(self):
        for kind, p, v, m in KINDS:
            for whole in (1, 2, 3):
                if kind == "dualpipe-v" and whole < 3:
                    continue  # torch holds both stages of a coming pair beyond the bound
                theirs = {r: torch_schedules._add_unshard_reshard(a, whole) for r, a in rows(weft("make", kind, p, v, m)).items()}
                ours = rows(weft("make", kind, p, v, m, f"shards={whole}"))
                ours = {r: [a for a in actions if a.computation_type not in REDUCTIONS] for r, actions in ours.items()}
                self.assertEqual(ours, theirs, (kind, p, v, m, whole))


class Text(unittest.TestCase):
    def test_torch_reads_computations(self):
        for kind, p, v, m in KINDS:
            order = rows(weft("make", kind, p, v, m))
            torch_schedules._validate_schedule(order, p, p * v, m)

    def test_torch_reads_and_runs_messages(self):
        for kind, p, v, m in KINDS:
            if kind == "dualpipe-v":
                continue  # torch's dry run knows no pair
            order = rows(weft("make", kind, p, v, m, "place=sender", "ahead=1000"))
            torch_schedules._validate_send_waits(order)
            owners = owner(computations(order))
            torch_schedules._simulate_comms_compute(order, owners.__getitem__, p * v)
            # Few messages on their way still end.
            order = rows(weft("make", kind, p, v, m, "place=sender", "ahead=1"))
            torch_schedules._simulate_comms_compute(order, owners.__getitem__, p * v)

    def test_torch_loads_everything_together(self):
        for kind, p, v, m in KINDS:
            for whole in (2, 3):
                order = rows(weft("make", kind, p, v, m, f"shards={whole}", "place=sender", "ahead=4"))
                loader = torch_schedules._PipelineScheduleRuntime.__new__(torch_schedules._PipelineScheduleRuntime)
                loader.pp_group_size, loader._num_stages, loader._n_microbatches, loader._stages = p, p * v, m, []
                loader._unshard_lookahead, loader._max_active_stages, loader._max_outstanding_sends = "full", whole, None
                loader._prepare_schedule_with_comms(order, format="compute_comms")
                self.assertEqual(loader.pipeline_order_with_comms, order)

    def test_weft_reads_what_torch_writes(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "plan.csv")
            for p, v, m in SHAPES:
                if v != 2 or m < 2 * p:
                    continue
                orders = [by_rank(c, p, 2, m) for c in (
                    torch_schedules.ScheduleLoopedBFS, torch_schedules.ScheduleZBVZeroBubble, torch_schedules.ScheduleDualPipeV)]
                for order in orders:
                    lowered = {r: torch_schedules._add_reduce_grad(torch_schedules._add_unshard_reshard(a), m) for r, a in order.items()}
                    lowered = torch_schedules._add_wait_send(
                        torch_schedules._add_send_recv(lowered, owner(computations(order)).__getitem__, 2 * p))
                    for written in (order, lowered):
                        writer = types.SimpleNamespace(pipeline_order=written)
                        torch_schedules.PipelineScheduleMulti._dump_csv(writer, path)
                        read = rows(weft("read", path))
                        self.assertEqual(without_waits(read), without_waits(written))


if __name__ == "__main__":
    unittest.main()
