"""Speed of tokenizing on one thread, in CPU seconds: weft beside tiktoken and `tokenizers`, interleaved, median of the rounds.

Ids must be equal first. A ratio above 1 means that weft is faster.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

os.environ.update(TOKENIZERS_PARALLELISM="false", RAYON_NUM_THREADS="1")

import tiktoken
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
GPT2 = f"{ROOT}/tests/data/tokenizers/gpt2"
GPT2_PATTERN = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"""
BAR = 1.0


def units(text, unit):
    if unit == "whole":
        return [text]
    separator = "\n" if unit == "line" else "\n\n"
    parts = [part + separator for part in text.split(separator)]
    parts[-1] = parts[-1][:-len(separator)]
    return [part for part in parts if part]


def byte_alphabet():
    printable = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + i): byte for i, byte in enumerate(others)}


def tiktoken_gpt2():
    alphabet = byte_alphabet()
    with open(f"{GPT2}/vocab.json", encoding="utf-8") as file:
        vocabulary = json.load(file)
    special = {"<|endoftext|>": vocabulary.pop("<|endoftext|>")}
    ranks = {bytes(alphabet[c] for c in token): rank for token, rank in vocabulary.items()}
    return tiktoken.Encoding("gpt2", pat_str=GPT2_PATTERN, mergeable_ranks=ranks, special_tokens=special)


def tokenizers_gpt2():
    tokenizer = Tokenizer(models.BPE.from_file(f"{GPT2}/vocab.json", f"{GPT2}/vocab.bpe"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<|endoftext|>"])
    return tokenizer


def timed(function):
    start = time.process_time()
    count = function()
    return time.process_time() - start, count


def weft_round(program, tokenizer, path, unit):
    output = subprocess.run([program, tokenizer, path, unit, "3"], check=True, capture_output=True, text=True).stdout
    reply = json.loads(output)
    return statistics.median(reply["seconds"]), reply["tokens"]


def compare(program, name, tokenizer, peer_name, encode, path, text, unit, rounds, repeat):
    parts = units(text, unit)
    size = len(text.encode())
    ours, peers = [], []
    for _ in range(rounds):
        seconds, tokens = weft_round(program, tokenizer, path, unit)
        ours.append(seconds)
        seconds, count = timed(lambda: sum(len(encode(part)) for _ in range(repeat) for part in parts))
        peers.append(seconds / repeat)
        if count != tokens * repeat:
            sys.exit(f"{name}, {unit}: {tokens} tokens, but {peer_name} has {count // repeat}")
    mine, other = size / 1e6 / statistics.median(ours), size / 1e6 / statistics.median(peers)
    return {"work": f"{name}, {unit}", "unit": "MB/s", "ours": round(mine, 2), "peer": round(other, 2), "peer_name": peer_name,
            "ratio": round(mine / other, 2), "bar": BAR, "spread": [round(size / 1e6 / max(ours), 2), round(size / 1e6 / min(ours), 2)]}


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--json", action="store_true")
    arguments.add_argument("--text", default=f"{ROOT}/recipes/data/tiny_shakespeare.txt", help="a UTF-8 file")
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--program", default=f"{ROOT}/build/release/bench/tokenize_speed")
    options = arguments.parse_args()
    with open(options.text, encoding="utf-8", newline="") as file:
        text = file.read()
    encoding = tiktoken_gpt2()
    rows = [compare(options.program, "gpt2", GPT2, "tiktoken", encoding.encode_ordinary, options.text, text, unit, options.rounds, 3)
            for unit in ("whole", "paragraph", "line")]
    places = {"gpt2": (GPT2, tokenizers_gpt2())}
    large = os.environ.get("WEFT_TEST_DATA")
    for name in ("qwen3", "deepseek_v3") if large else ():
        place = f"{large}/tokenizers/{name}"
        places[name] = (place, Tokenizer.from_file(f"{place}/tokenizer.json"))
    for name, (place, tokenizer) in places.items():
        rows.append(compare(options.program, name, place, "tokenizers", lambda part: tokenizer.encode(part, add_special_tokens=False).ids,
                            options.text, text, "paragraph", 3, 1))
    if options.json:
        print(json.dumps({"rows": rows}))
        return
    print(f"{'work':24} {'weft MB/s':>10} {'peer MB/s':>10}  {'peer':12} {'ratio':>6}")
    for row in rows:
        print(f"{row['work']:24} {row['ours']:10.2f} {row['peer']:10.2f}  {row['peer_name']:12} {row['ratio']:6.2f}")


if __name__ == "__main__":
    main()
