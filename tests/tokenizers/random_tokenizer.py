"""Random tokenizers of kind BPE, built with the package `tokenizers`, from every component that weft supports."""

import json

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

BEHAVIORS = ["removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous"]
PATTERNS = [
    r"\s+", r"\w+|[^\w\s]+", r"\d", r"\p{N}{1,3}", r"[\p{Lu}\p{Lt}]?[\p{Ll}\p{M}]*", r"'(?i:s|t|re)|[^\S\r\n]+", r"[^\s\p{P}]+",
    r"(?<=\s)\S", r"\p{Han}+|\p{Hiragana}+|\p{Katakana}", r"\p{Sc}|\p{So}|\p{Cf}|\p{Mn}|\P{L}", r"[\W_]", r"[a-c\-\d]+|[\]x]",
    r"x*", r"$", r"^.", r"\S(?!\S)", r"[\r\n]+|\s+(?!\S)|\s", r"\p{Nl}|\p{No}|\p{Cn}|\p{Lm}|\p{Pd}", r"[^\D]|[\P{L}]",
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
]
STRINGS = [" ", "a", "ll", "\u2581", "\n", "e\u0301", "."]


def pattern(rng):
    return rng.choice(STRINGS) if rng.random() < 0.4 else Regex(rng.choice(PATTERNS))


def normalizer(rng, depth=0):
    kind = rng.randrange(10 if depth == 0 else 9)
    if kind < 4:
        return [normalizers.NFC, normalizers.NFD, normalizers.NFKC, normalizers.NFKD][kind]()
    if kind == 4:
        return normalizers.Lowercase()
    if kind == 5:
        return normalizers.Prepend(rng.choice(["\u2581", "ab", " "]))
    if kind in (6, 7):
        return normalizers.Replace(pattern(rng), rng.choice(["", "\u2581", "x ", "$1"]))
    if kind == 8:
        return normalizers.Strip(left=rng.random() < 0.5, right=rng.random() < 0.5)
    return normalizers.Sequence([normalizer(rng, 1) for _ in range(rng.randrange(4))])


def pre_tokenizer(rng, depth=0):
    kind = rng.randrange(9 if depth == 0 else 7)
    if kind == 0:
        return pre_tokenizers.ByteLevel(add_prefix_space=rng.random() < 0.5, use_regex=rng.random() < 0.5)
    if kind == 1:
        return pre_tokenizers.Split(pattern(rng), rng.choice(BEHAVIORS), invert=rng.random() < 0.3)
    if kind == 2:
        return pre_tokenizers.Digits(individual_digits=rng.random() < 0.5)
    if kind == 3:
        return pre_tokenizers.Punctuation(rng.choice(BEHAVIORS))
    if kind == 4:
        return pre_tokenizers.Whitespace() if rng.random() < 0.5 else pre_tokenizers.WhitespaceSplit()
    if kind in (5, 6):
        return pre_tokenizers.Metaspace(prepend_scheme=rng.choice(["always", "first", "never"]), split=rng.random() < 0.6)
    parts = [pre_tokenizer(rng, 1) for _ in range(rng.randrange(1, 4))]
    if kind == 8:
        parts.append(pre_tokenizers.ByteLevel(add_prefix_space=rng.random() < 0.5, use_regex=rng.random() < 0.5))
    return pre_tokenizers.Sequence(parts)


def decoder(rng, depth=0):
    kind = rng.randrange(8 if depth == 0 else 6)
    if kind == 0:
        return decoders.ByteLevel()
    if kind == 1:
        return decoders.ByteFallback()
    if kind == 2:
        return decoders.Fuse()
    if kind == 3:
        return decoders.Replace(pattern(rng), rng.choice(["", " ", "xy"]))
    if kind == 4:
        return decoders.Strip(rng.choice([" ", "a", "\u2581"]), rng.randrange(3), rng.randrange(3))
    if kind == 5:
        return decoders.Metaspace(prepend_scheme=rng.choice(["always", "first", "never"]))
    return decoders.Sequence([decoder(rng, 1) for _ in range(rng.randrange(1, 5))])


def train(rng, tokenizer, texts):
    byte_level = rng.random() < 0.5
    fallback = rng.random() < 0.5
    options = dict(vocab_size=rng.choice([300, 600, 1000]), show_progress=False)
    options["special_tokens"] = ["<unk>"] + ([f"<0x{b:02X}>" for b in range(256)] if fallback else [])
    if byte_level:
        options["initial_alphabet"] = pre_tokenizers.ByteLevel.alphabet()
    options["limit_alphabet"] = rng.choice([60, 300])
    decoration = rng.random()
    if decoration < 0.15:
        options["continuing_subword_prefix"] = "##"
    elif decoration < 0.3:
        options["end_of_word_suffix"] = "</w>"
    trained = Tokenizer(models.BPE(unk_token="<unk>"))
    trained.normalizer, trained.pre_tokenizer = tokenizer.normalizer, tokenizer.pre_tokenizer
    trained.train_from_iterator(texts, trainers.BpeTrainer(**options))
    document = json.loads(trained.to_str())
    for flag in ("ignore_merges", "fuse_unk", "byte_fallback"):
        document["model"][flag] = rng.random() < 0.5
    if rng.random() < 0.2:
        document["model"]["unk_token"] = None
    return Tokenizer.from_str(json.dumps(document))


def random_tokenizer(rng, texts):
    tokenizer = Tokenizer(models.BPE())
    if rng.random() < 0.6:
        tokenizer.normalizer = normalizer(rng)
    if rng.random() < 0.85:
        tokenizer.pre_tokenizer = pre_tokenizer(rng)
    tokenizer = train(rng, tokenizer, texts)
    if rng.random() < 0.85:
        tokenizer.decoder = decoder(rng)
    written = set()
    for content in rng.sample(["<s>", "</s>", "<sep>", "abc", "ab", "E\u0301", "the", " x", "12", "\u2581q", "caf\u00e9", "<|a|>", "I'm"],
                              rng.randrange(7)):
        flags = {name: rng.random() < 0.3 for name in ("single_word", "lstrip", "rstrip", "normalized")}
        token = AddedToken(content, special=rng.random() < 0.4, **flags)
        form = tokenizer.normalizer.normalize_str(content) if token.normalized and tokenizer.normalizer else content
        if (token.normalized, form) in written:
            continue  # which of two equal forms `tokenizers` finds changes from run to run
        written.add((token.normalized, form))
        tokenizer.add_special_tokens([token]) if token.special else tokenizer.add_tokens([token])
    if rng.random() < 0.4:
        size = tokenizer.get_vocab_size(with_added_tokens=False)
        first, second = rng.randrange(size), rng.randrange(size)
        names = [(tokenizer.id_to_token(first), first), (tokenizer.id_to_token(second), second)]
        if all(name and "$" not in name and ":" not in name and " " not in name for name, _ in names) and first != second:
            template = processors.TemplateProcessing(single=[names[0][0], "$A", names[1][0]], special_tokens=names)
            tokenizer.post_processor = template if rng.random() < 0.5 else processors.Sequence(
                [processors.ByteLevel(), template])
    return tokenizer
