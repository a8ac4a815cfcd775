"""Text of everything that tokenizers stumble over, the same for the same seed."""

import random

SAMPLES = [
    "The quick brown fox doesn't jump over the lazy dog's back; they'll say it's 3.14159 or 1,000,000. ",
    "I'VE SEEN IT'S WE'LL, they\u2019re don\u2019t 'S 's 't 'Re 'vE 'LL 'd '\u017f 'x ",
    "for (int i = 0; i < n; ++i) {\r\n\tsum += x[i] * 0x1F; // comment\r\n}\r\n\r\n",
    "def f(x):\n    return {'a': [1, 2.5e-3], \"b\": None}  # na\u00efve caf\u00e9\n\n\n",
    "\u0421\u044a\u0435\u0448\u044c \u0435\u0449\u0451 \u044d\u0442\u0438\u0445 \u043c\u044f\u0433\u043a\u0438\u0445 \u0431\u0443\u043b\u043e\u043a 2024\u0433. ",
    "\u6df1\u5ea6\u5b66\u4e60\u6a21\u578b\uff0c\u4f60\u597d\uff01\u4e00\u4e8c\u4e09\u3002\u65e5\u672c\u8a9e\u306e\u30c6\u30ad\u30b9\u30c8\u3067\u3059\u3002 \ud55c\uad6d\uc5b4 \ubb38\uc7a5 ",
    "\u0627\u0644\u0633\u0644\u0627\u0645 \u0639\u0644\u064a\u0643\u0645 \u0661\u0662\u0663 \u05e9\u05dc\u05d5\u05dd \u05e2\u05d5\u05dc\u05dd \u0928\u092e\u0938\u094d\u0924\u0947 \u0967\u0968\u0969 \u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35 ",
    "e\u0301 o\u0308\u0304 \u1e9b\u0323 \u212b \ufb01 \u00bd \u2460 \u33a2 \u0130stanbul \u03a3\u03c2 \u00df \u1fb3 a\u0315\u0300\u05ae b ",
    "\U0001f600\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466\U0001f1e9\U0001f1ea\U0001f44d\U0001f3fd \u2764\ufe0f \u2603 ",
    "   leading\t\ttabs \u00a0\u2003\u3000wide  spaces   \n \n\r\n  \t\n x\u2028y\u2029z\u0085w ",
    "\x00\x01\x1f\x7f\u200b\u200e\ufeff\u00ad\ue000 \ufffd \U0010ffff ",
    "$100 \u20ac50 a+b=c <b>&amp;</b> http://x.org/?q=1#top @user #tag ^_^ \\n {}[]()!!! ... --- ___ ",
    "<|endoftext|> <s> </s> <unk> <|im_start|>user\n<think> </think> <\uff5cbegin\u2581of\u2581sentence\uff5c> \u2581low\u2581 ",
]


def random_character(rng):
    while True:
        kind = rng.random()
        top = 0x80 if kind < 0.3 else 0x800 if kind < 0.5 else 0x10000 if kind < 0.8 else 0x110000
        code_point = rng.randrange(top)
        if not 0xD800 <= code_point <= 0xDFFF:
            return chr(code_point)


def piece(rng):
    kind = rng.random()
    if kind < 0.45:
        sample = rng.choice(SAMPLES)
        begin = rng.randrange(len(sample))
        return sample[begin:begin + rng.randrange(1, 60)]
    if kind < 0.65:
        return rng.choice(SAMPLES)
    if kind < 0.8:
        return "".join(random_character(rng) for _ in range(rng.randrange(1, 20)))
    if kind < 0.9:
        return rng.choice(" \n\r\t\u00a0ab1.'") * rng.randrange(1, 40)
    return "".join(rng.choice("abcdeghilnorst'ABZ 019.,-\n\u0301\u2581") for _ in range(rng.randrange(1, 30)))


def document(rng, length):
    parts = []
    while length > 0:
        parts.append(piece(rng))
        length -= len(parts[-1])
    return "".join(parts)


def documents(seed, count, length):
    rng = random.Random(seed)
    return [document(rng, rng.randrange(1, 2 * length)) for _ in range(count)]
