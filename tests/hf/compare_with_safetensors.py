"""Files of the package `safetensors` read and written again by weft; files broken at random accepted or refused by both.

usage: compare_with_safetensors.py SAFETENSORS_PEER
"""
import json
import pathlib
import random
import struct
import subprocess
import sys
import tempfile

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

TYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8,
         torch.uint8, torch.bool, torch.float8_e4m3fn, torch.float8_e5m2]


def random_tensors(rng):
    tensors = {}
    for i in range(rng.randrange(0, 8)):
        shape = [rng.randrange(0, 5) for _ in range(rng.randrange(0, 4))]
        dtype = rng.choice(TYPES)
        values = torch.randn(shape, generator=torch.Generator().manual_seed(rng.randrange(1 << 30))) * 50
        name = rng.choice(["", "é", "layers.", "\n", "\u0001\"\\"]) + f"t{i}"
        tensors[name] = values.to(dtype) if dtype != torch.bool else values > 0
    return tensors


def broken(rng, data):
    """One change that may or may not make the file invalid."""
    length = struct.unpack("<Q", data[:8])[0]
    header, contents = data[8:8 + length], data[8 + length:]
    kind = rng.randrange(9)
    if kind == 0:
        return data[:rng.randrange(len(data) + 1)]
    if kind == 1:
        return data + bytes(rng.randrange(1, 9))
    if kind == 2:
        place = rng.randrange(len(data))
        return data[:place] + bytes([data[place] ^ (1 << rng.randrange(8))]) + data[place + 1:]
    if kind == 3:
        return struct.pack("<Q", rng.choice([0, 1, length - 8, length + 8, 1 << 40, (1 << 64) - 1])) + data[8:]
    fields = json.loads(header)
    names = [name for name in fields if name != "__metadata__"]
    if not names:
        return data
    entry = fields[rng.choice(names)]
    if kind == 4:
        entry["data_offsets"][rng.randrange(2)] += rng.choice([-8, -1, 1, 8, 1 << 62])
    elif kind == 5:
        entry["shape"].append(rng.choice([1, 2, 0, -1, 1 << 40]))
    elif kind == 6:
        entry["dtype"] = rng.choice(["F32", "BF16", "U8", "F7", "BOOL", ""])
    elif kind == 7:
        fields["__metadata__"] = rng.choice([{"a": "b"}, {"a": 1}, {}, []])
    else:
        entry["data_offsets"] = fields[rng.choice(names)]["data_offsets"]
    text = json.dumps(fields, ensure_ascii=rng.random() < 0.5).encode()
    return struct.pack("<Q", len(text)) + text + contents


def accepted(path):
    try:
        with safe_open(path, "pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}
    except Exception:  # the package raises many types
        return None


def main():
    rng = random.Random(1)
    peer = subprocess.Popen([sys.argv[1]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    refused = agreed = 0
    with tempfile.TemporaryDirectory() as folder:
        source, copy = pathlib.Path(folder) / "source", pathlib.Path(folder) / "copy"

        def ask():
            copy.unlink(missing_ok=True)
            peer.stdin.write(f"{source} {copy}\n")
            peer.stdin.flush()
            return peer.stdout.readline().strip()

        for case in range(200):
            tensors = random_tensors(rng)
            save_file(tensors, source, metadata={"format": "pt", "note": "ünï"} if rng.random() < 0.5 else None)
            assert ask() == "ok"
            back = load_file(copy)
            assert set(back) == set(tensors)
            for name, tensor in tensors.items():
                same = back[name].dtype == tensor.dtype and torch.equal(back[name].view(-1).view(torch.uint8),
                                                                        tensor.reshape(-1).view(torch.uint8))
                assert same and back[name].shape == tensor.shape, name
            with safe_open(source, "pt") as a, safe_open(copy, "pt") as b:
                assert (a.metadata() or {}) == (b.metadata() or {})
            for _ in range(4):
                data = broken(rng, source.read_bytes())
                original = source.read_bytes()
                source.write_bytes(data)
                expected, answer = accepted(source), ask()
                if expected is None:
                    assert answer.startswith("refused: "), f"weft accepts what safetensors refuses: {data[:400]}"
                    refused += 1
                elif answer == "ok":
                    assert set(load_file(copy)) == set(expected)
                    agreed += 1
                else:  # weft may be stricter
                    raise AssertionError(f"safetensors accepts, weft says {answer}: {data[:400]}")
                source.write_bytes(original)
    peer.stdin.close()
    assert peer.wait() == 0
    print(f"200 files came back; of 800 changed ones both refused {refused} and both read {agreed}")


if __name__ == "__main__":
    main()
