"""What a sharded tensor adds to the plain operator on 8 x 8 local tensors, one thread: CPU nanoseconds and instructions a call.

Ours is weft's DTensor over LibTorch, the peer PyTorch's DTensor over eager Python, on a fake group of 4 ranks, caches warm. "Added" is sharded minus
plain, medians of interleaved rounds. Instructions are callgrind's, of many calls less those of none (AVX2 kernels, since valgrind knows no AVX-512); the
peer's take minutes and are counted with --peer-instructions only, otherwise their rows have the limit in the peer's place.
Random numbers are timed beside ATen's stateless ones. A bar is a ratio: the peer's over weft's limit (200 ns, 1,500 instructions).
"""

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

# This folder's tokenize.py is not the standard library's, which tracebacks and torch's compiler load.
sys.path = [folder for folder in sys.path if folder != os.path.dirname(os.path.abspath(__file__))]

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
OPERATORS = ["detach", "transpose", "mul", "mul by a number", "add", "mm", "mm to partial", "gelu", "layer_norm", "mul, recorded"]
MOST_NANOSECONDS, MOST_INSTRUCTIONS = 200, 1500


def peer_pairs():
    import torch
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Replicate, Shard
    from torch.testing._internal.distributed.fake_pg import FakeStore
    torch.set_num_threads(1)
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=4)
    mesh = init_device_mesh("cpu", (4,))
    a, b, w = torch.ones(8, 8), torch.ones(8, 8), torch.ones(8)
    r = torch.ones(8, 8, requires_grad=True)
    rows, columns, whole = [Shard(0)], [Shard(1)], [Replicate()]
    place = lambda tensor, placements: DTensor.from_local(tensor, mesh, placements, run_check=False)
    ar, br, bw, ww, ac = place(a, rows), place(b, rows), place(b, whole), place(w, whole), place(a, columns)
    rr = place(r, rows)
    norm = torch.nn.functional.layer_norm
    gelu = torch.nn.functional.gelu
    return {
        "detach": (lambda: a.detach(), lambda: ar.detach()),
        "transpose": (lambda: a.transpose(0, 1), lambda: ar.transpose(0, 1)),
        "mul": (lambda: a * b, lambda: ar * br),
        "mul by a number": (lambda: a * 1.5, lambda: ar * 1.5),
        "add": (lambda: a + b, lambda: ar + br),
        "mm": (lambda: a @ b, lambda: ar @ bw),
        "mm to partial": (lambda: a @ b, lambda: ac @ br),
        "gelu": (lambda: gelu(a), lambda: gelu(ar)),
        "layer_norm": (lambda: norm(a, (8,), w, w), lambda: norm(ar, (8,), ww, ww)),
        "mul, recorded": (lambda: r * b, lambda: rr * br),
    }


def peer_nanoseconds(call, calls=1000):
    start = time.process_time()
    for _ in range(calls):
        call()
    return (time.process_time() - start) / calls * 1e9


def added(plain, sharded):
    return statistics.median(other - one for one, other in zip(plain, sharded))


def times(program, operator, peer, rounds):
    ours = {"plain": [], "sharded": []}
    peers = {"plain": [], "sharded": []}
    for call in peer:
        peer_nanoseconds(call)
    for _ in range(rounds):
        reply = json.loads(subprocess.run([program, "time", operator], check=True, capture_output=True, text=True).stdout)
        for kind in ours:
            ours[kind].append(statistics.median(reply[kind]))
        for kind, call in zip(peers, peer):
            peers[kind].append(peer_nanoseconds(call))
    return added(**ours), added(**peers)


def callgrind(folder, command, *options):
    environment = {"ATEN_CPU_CAPABILITY": "avx2", "PYTHONHASHSEED": "0"}
    subprocess.run(["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/out", *options, *command], check=True, capture_output=True,
                   env=os.environ | environment)


def total(path):
    with open(path, encoding="utf-8") as file:
        return int(re.search(r"^(?:totals|summary): (\d+)", file.read(), re.MULTILINE).group(1))


def instructions(program, calls=1000):
    """{operator: (added, plain)}: a dump at each call of section_begins holds the calls since the one before."""
    with tempfile.TemporaryDirectory() as folder:
        callgrind(folder, [program, "count"], "--dump-before=section_begins")
        sections = [total(f"{folder}/out.{number}") / calls for number in range(2, 2 * len(OPERATORS) + 2)]
    names = sorted(OPERATORS)
    return {name: (sections[2 * i + 1] - sections[2 * i], sections[2 * i]) for i, name in enumerate(names)}


def peer_instructions(operator, calls=100):
    cost = []
    for kind in (0, 1):
        counts = []
        for many in (20, 20 + calls):
            with tempfile.TemporaryDirectory() as folder:
                callgrind(folder, [sys.executable, __file__, "--peer", operator, str(kind), str(many)])
                counts.append(total(f"{folder}/out"))
        cost.append((counts[1] - counts[0]) / calls)
    return cost[1] - cost[0]


def row(work, unit, ours, peer, peer_name, limit):
    ours = max(ours, 1)
    return {"work": work, "unit": unit, "ours": round(ours, 1), "peer": round(peer, 1), "peer_name": peer_name,
            "ratio": round(peer / ours, 2), "bar": round(peer / limit, 2)}


def main():
    if len(sys.argv) > 1 and sys.argv[1] == "--peer":
        call = peer_pairs()[sys.argv[2]][int(sys.argv[3])]
        for _ in range(int(sys.argv[4])):
            call()
        return
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--json", action="store_true")
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--without-instructions", action="store_true")
    arguments.add_argument("--peer-instructions", action="store_true")
    arguments.add_argument("--program", default=f"{ROOT}/build/release/bench/dispatch_speed")
    options = arguments.parse_args()
    peers = peer_pairs()
    rows = []
    for operator in OPERATORS:
        ours, peer = times(options.program, operator, peers[operator], options.rounds)
        rows.append(row(f"{operator}, added time", "ns", ours, peer, "PyTorch DTensor", MOST_NANOSECONDS))
    lines = subprocess.run([options.program, "random"], check=True, capture_output=True, text=True).stdout.splitlines()
    for work, line in zip(("uniforms", "normals"), lines):
        plain, ours = (statistics.median(json.loads(line)[kind]) / 2**20 for kind in ("plain", "sharded"))
        rows.append({"work": f"{work}, an element of 2^20", "unit": "ns", "ours": round(ours, 3), "peer": round(plain, 3),
                     "peer_name": "ATen", "ratio": round(plain / ours, 2), "bar": 1.0})
    if not options.without_instructions:
        if not shutil.which("valgrind"):
            sys.exit("bench/dispatch: instructions need valgrind (apt-get install valgrind), or say --without-instructions")
        for operator, (ours, plain) in instructions(options.program).items():
            peer, name = MOST_INSTRUCTIONS, "the limit"
            if options.peer_instructions and operator in ("detach", "mul", "mm"):
                peer, name = peer_instructions(operator), "PyTorch DTensor"
            rows.append(row(f"{operator}, added instructions", "1", ours, peer, name, MOST_INSTRUCTIONS) | {"plain": round(plain)})
    if options.json:
        print(json.dumps({"rows": rows}))
        return
    print(f"{'work':40} {'weft':>10} {'peer':>10}  {'peer':16} {'ratio':>8} {'bar':>8}")
    for line in rows:
        print(f"{line['work']:40} {line['ours']:10.1f} {line['peer']:10.1f}  {line['peer_name']:16} {line['ratio']:8.2f} {line['bar']:8.2f}")


if __name__ == "__main__":
    main()
