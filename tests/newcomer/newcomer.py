"""A newcomer's text, from a Windows editor: trained, exported, and continued alike by transformers.
usage: newcomer.py WEFT

CRLF line ends, UTF-8 beyond ASCII, no line break at the end. The trained model must know more than pairs of characters do (the
entropy of the text's bigrams), weft must continue a prompt greedily as transformers continues it from the exported files, and a
character that the text does not have must be answered clearly.
"""
import collections
import json
import math
import os
import subprocess
import sys
import tempfile

os.environ["HF_HUB_OFFLINE"] = "1"
WEFT = sys.argv[1]
VERSES = [
    "Über den Wipfeln der Bäume zog leise der Wind,",
    "und höher als Türme stand still die Nacht;",
    "die Mühle am Flüßchen, das singende Kind,",
    "sie haben den Wanderer schläfrig gemacht.",
    "Café, naïve, Ærø, Žižek — „so klingt es“, sagte sie: 5 €.",
]


def text():
    lines = []
    for number in range(700):
        lines.append(f"{number % 97}. {VERSES[number * number % 5]}")
        if number % 4 == 3:
            lines.append("")
    return "\r\n".join(lines)


def weft(*arguments, code=0):
    done = subprocess.run([WEFT, *arguments], capture_output=True, text=True)
    assert done.returncode == code, f"weft {arguments} ended with {done.returncode}, not {code}:\n{done.stderr}"
    return done


def bigram_entropy(characters):
    """Nats a character, of a character given the one before, in this very text."""
    pairs = collections.Counter(zip(characters, characters[1:]))
    first = collections.Counter(characters[:-1])
    total = sum(pairs.values())
    return -sum(count / total * math.log(count / first[a]) for (a, b), count in pairs.items())


def main():
    with tempfile.TemporaryDirectory() as folder:
        path, run, exported = (os.path.join(folder, name) for name in ("my text.txt", "run", "exported"))
        with open(path, "w", encoding="utf-8", newline="") as file:
            file.write(text())
        trained = json.loads(weft("train", "recipes/shakespeare.toml", "--set", f"data.sources={json.dumps([path])}",
                                  "--set", "model.layers=2", "--set", "phases.1.steps=300", "--steps", "400",
                                  "--out", run, "--json").stdout)
        entropy = bigram_entropy(text())
        print(f"validation loss {trained['validation_loss']:.4f}, entropy of bigrams {entropy:.4f}")
        assert trained["validation_loss"] < entropy

        weft("convert", run, exported, "--to", "hf")
        prompt = "12. Über den"
        ours = json.loads(weft("generate", run, "--prompt", prompt, "--max-tokens", "40", "--temperature", "0",
                               "--ignore-eos", "--json").stdout)
        tokenized = subprocess.run([WEFT, "tokenize", "--tokenizer", run], input=json.dumps({"text": prompt}) + "\n",
                                   capture_output=True, text=True, check=True).stdout
        ids = json.loads(tokenized)["ids"]

        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer
        tokenizer = AutoTokenizer.from_pretrained(exported)
        assert tokenizer(prompt)["input_ids"] == ids and tokenizer.decode(ids) == prompt, "its exported tokenizer differs"
        model = AutoModelForCausalLM.from_pretrained(exported, dtype=torch.float32).eval()
        tokens = torch.tensor([ids])
        theirs = model.generate(tokens, attention_mask=torch.ones_like(tokens), do_sample=False, max_new_tokens=40,
                                eos_token_id=None, pad_token_id=0)[0, len(ids):].tolist()
        assert ours["token_ids"] == theirs, f"weft continues with {ours['token_ids']}, transformers with {theirs}"
        print(f"continued alike: {ours['text']!r}")

        refused = weft("generate", run, "--prompt", "日本", "--max-tokens", "1", code=2)
        assert "日" in refused.stderr, refused.stderr


main()
