"""Equality of weft's tokenizers with the package `tokenizers`.

compare_with_tokenizers.py PEER [--seed S] [--random N]   (PEER is the program tokenizer_peer; run from the repository's root)

On a megabyte of mixed text for every known tokenizer, on every code point for every component that looks at one, and on N
tokenizers built at random. Ids in every mode and decoded text must be equal. Prints a line for each part; exit 1 on a difference.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile

os.environ["RUST_BACKTRACE"] = "0"

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

import mixed_text
import random_tokenizer

DATA = "tests/data/tokenizers"


class Peer:
    def __init__(self, program):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, **request):
        self.process.stdin.write(json.dumps(request).encode() + b"\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


def unless_panic(function):
    """None where `tokenizers` panics: its Strip decoder on short tokens, its alignments behind some normalizers."""
    try:
        return function()
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        return None


def encoded(tokenizer, text, plain, special):
    tokenizer.encode_special_tokens = plain
    return unless_panic(lambda: tokenizer.encode(text, add_special_tokens=special).ids)


def decoded(tokenizer, ids, skip):
    return None if ids is None else unless_panic(lambda: tokenizer.decode(ids, skip_special_tokens=skip))


def expected(tokenizer, text):
    ids = encoded(tokenizer, text, False, False)
    wanted = {"ids": ids, "plain": encoded(tokenizer, text, True, False), "special": encoded(tokenizer, text, False, True),
              "decoded": decoded(tokenizer, ids, False), "skipped": decoded(tokenizer, ids, True)}
    return {key: value for key, value in wanted.items() if value is not None}


def first_difference(wanted, found):
    for key in wanted:
        if wanted[key] != found.get(key):
            both = list(zip(wanted[key], found.get(key, [])))
            at = next((i for i, (a, b) in enumerate(both) if a != b), len(both))
            return f"{key} from {at}: expected {wanted[key][at:at + 8]!r}, found {found.get(key, found)[at:at + 8]!r}" \
                if key in found else f"{key}: {found}"
    return None


def shortest(peer, tokenizer, text):
    """A shorter text that still differs."""
    def differs(part):
        return first_difference(expected(tokenizer, part), peer.ask(text=part)) is not None
    tries = 300
    size = len(text) // 2
    while size >= 1 and tries > 0:
        for begin in range(0, len(text), size):
            part = text[:begin] + text[begin + size:]
            tries -= 1
            if tries == 0:
                break
            if part != text and differs(part):
                text = part
                break
        else:
            size //= 2
    return text


def compare(peer, name, tokenizer, path, texts):
    loaded = peer.ask(load=path)
    if "is normalized to nothing" in loaded.get("error", ""):
        return None  # `tokenizers` finds such a token between any two characters; weft refuses it
    if "error" in loaded:
        print(f"{name}: not loaded: {loaded['error']}")
        return False
    for text in texts:
        difference = first_difference(expected(tokenizer, text), peer.ask(text=text))
        if difference:
            text = shortest(peer, tokenizer, text)
            difference = first_difference(expected(tokenizer, text), peer.ask(text=text))
            print(f"{name}: differs on {text!r}: {difference}")
            return False
    return True


def compare_streams(peer, name, tokenizer, rng, count):
    """Random ids, so that characters break anywhere."""
    size = tokenizer.get_vocab_size()
    for _ in range(count):
        ids = [rng.randrange(size + 2) for _ in range(rng.randrange(30))]
        reply = peer.ask(ids=ids)
        for key, skip in (("decoded", False), ("skipped", True)):
            wanted = decoded(tokenizer, [i for i in ids if i < size], skip)
            if wanted is not None and reply.get(key) != wanted:
                print(f"{name}: {ids} decode ({key}) to {wanted!r}, found {reply}")
                return False
    return True


def gpt2():
    tokenizer = Tokenizer(models.BPE.from_file(f"{DATA}/gpt2/vocab.json", f"{DATA}/gpt2/vocab.bpe"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<|endoftext|>"])
    return tokenizer


def known_tokenizers():
    yield "gpt2", gpt2(), f"{DATA}/gpt2"
    places = [f"{DATA}/zoo/bytelevel_bpe_1024", f"{DATA}/zoo/llama2_bpe_1024"]
    large = os.environ.get("WEFT_TEST_DATA")
    if large:
        places += [f"{large}/tokenizers/qwen3", f"{large}/tokenizers/deepseek_v3"]
    else:
        print("qwen3, deepseek_v3: not compared, WEFT_TEST_DATA is not set")
    for place in places:
        yield os.path.basename(place), Tokenizer.from_file(f"{place}/tokenizer.json"), place


def own_tokenizers(peer, folder, texts):
    """Weft's own, beside what `tokenizers` and transformers read of their export."""
    from transformers import AutoTokenizer
    os.makedirs(f"{folder}/characters")
    with open(f"{folder}/characters/weft_tokenizer.json", "w", encoding="utf-8") as file:
        json.dump({"format": 1, "kind": "characters", "characters": "".join(sorted(set("".join(texts))))}, file)
    for name, source in (("bytes", "bytes"), ("characters", f"{folder}/characters")):
        exported = f"{folder}/exported {name}"
        os.makedirs(exported)
        peer.ask(load=source)
        peer.ask(export=exported)
        ids = AutoTokenizer.from_pretrained(exported)(texts[0])["input_ids"]
        assert ids == peer.ask(text=texts[0])["ids"], f"{name}: transformers encodes otherwise"
        yield name, Tokenizer.from_file(f"{exported}/tokenizer.json"), source


def probe():
    """Its ids are the bytes of the pieces, each piece followed by a byte 1: they show what normalizers and pre-tokenizers do."""
    vocabulary = {f"<0x{byte:02X}>": byte for byte in range(256)}
    return Tokenizer(models.BPE(vocabulary, [], byte_fallback=True, end_of_word_suffix="\x01"))


def probes():
    for form in (normalizers.NFC, normalizers.NFD, normalizers.NFKC, normalizers.NFKD, normalizers.Lowercase):
        tokenizer = probe()
        tokenizer.normalizer = form()
        yield form.__name__, tokenizer
    splitters = [pre_tokenizers.Digits(), pre_tokenizers.Punctuation(), pre_tokenizers.Whitespace(),
                 pre_tokenizers.WhitespaceSplit(), pre_tokenizers.ByteLevel()]
    sets = [r"\s", r"\w", r"\d", r"\S", r"\W", r"\D", r"[^\w]", r"[\W]", r"\p{Han}", r"\p{Hiragana}", r"\p{Katakana}", r"\p{Hangul}",
            r"\p{Thai}", r"\p{Hebrew}", r"\p{Greek}", r"\P{L}", r"[\P{N}]", r"\p{^S}"]
    sets += [r"\p{%s}" % name for name in (
        "L N P S M Z C Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Co Cn").split()]
    splitters += [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in sets]
    for splitter in splitters:
        tokenizer = probe()
        tokenizer.pre_tokenizer = splitter
        yield str(splitter)[:60], tokenizer


def code_points():
    """All of the first two planes without most Chinese and Korean, and of the others what lies around their borders."""
    ranges = [(0, 0x3500), (0x4D00, 0x4F00), (0x9F00, 0xAD00), (0xD700, 0xD800), (0xE000, 0xE010), (0xF8F0, 0x17010), (0x18700, 0x20010),
              (0x2A6D0, 0x2A710), (0x2B720, 0x2B830), (0x2CE90, 0x2CEC0), (0x2EBD0, 0x2FA30), (0x31340, 0x31360), (0x323A0, 0x323C0),
              (0xE0000, 0xE0210), (0x10FFF0, 0x110000)]
    letters = [chr(c) for begin, end in ranges for c in range(begin, end)]
    return ["a" + "a".join(letters[i:i + 5000]) + "a" for i in range(0, len(letters), 5000)]


def compare_probe(peer, name, tokenizer, path, texts):
    tokenizer.save(path)
    loaded = peer.ask(load=path)
    if "error" in loaded:
        print(f"{name}: not loaded: {loaded['error']}")
        return False
    for text in texts:
        wanted = tokenizer.encode(text, add_special_tokens=False).ids
        found = peer.ask(text=text)["ids"]
        if wanted != found:
            at = next(i for i in range(len(wanted)) if wanted[i:i + 1] != found[i:i + 1])
            around = bytes(wanted[max(0, at - 12):at + 12]).decode("utf-8", "backslashreplace")
            print(f"{name}: differs around {around!r}: expected {wanted[at:at + 6]}, found {found[at:at + 6]}")
            return False
    return True


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("peer")
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--random", type=int, default=300)
    arguments.add_argument("--skip-code-points", action="store_true")
    options = arguments.parse_args()
    peer = Peer(options.peer)
    rng = random.Random(options.seed)
    good = True

    texts = mixed_text.documents(options.seed, 500, 1400)
    size = sum(len(text.encode()) for text in texts)
    with tempfile.TemporaryDirectory() as folder:
        for name, tokenizer, path in [*known_tokenizers(), *own_tokenizers(peer, folder, texts)]:
            equal = compare(peer, name, tokenizer, path, texts) and compare_streams(peer, name, tokenizer, rng, 300)
            good &= equal
            print(f"{name}: {'equal' if equal else 'NOT equal'} on {size} bytes of mixed text", flush=True)

    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/tokenizer.json"
        if not options.skip_code_points:
            texts = code_points()
            equal = [compare_probe(peer, name, tokenizer, path, texts) for name, tokenizer in probes()]
            good &= all(equal)
            print(f"{len(equal)} components: {equal.count(False)} differ on {sum(map(len, texts)) // 2} code points", flush=True)

        training = mixed_text.documents(7, 40, 300)
        texts = mixed_text.documents(options.seed + 1, 60, 60) + ["", " ", "a", "\u2581", "<s>", "  a"]
        failed = refused = 0
        for number in range(options.random):
            rng = random.Random(options.seed * 1000000 + number)
            tokenizer = unless_panic(lambda: random_tokenizer.random_tokenizer(rng, training))
            if tokenizer is None:
                refused += 1
                continue
            tokenizer.save(path)
            equal = compare(peer, f"random {number}", tokenizer, path, texts)
            if equal is None:
                refused += 1
            elif not equal or not compare_streams(peer, f"random {number}", tokenizer, rng, 20):
                described = json.loads(tokenizer.to_str())
                del described["model"]["vocab"], described["model"]["merges"]
                described["added_tokens"] = [token for token in described["added_tokens"] if len(token["content"]) != 6]
                print("   ", json.dumps(described))
                failed += 1
        good &= failed == 0 and refused < 0.05 * options.random
        print(f"{options.random} random tokenizers: {failed} differ, {refused} are refused by one of the two")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
