#!/usr/bin/env python3
"""Writes the golden token ids: make.py MODEL.gguf OUT_DIR

The vocabulary and merges come from the GGUF; the ids from Hugging Face `tokenizers` with the
pre-tokenizers of the models' own tokenizer.json files. Strings are made from SENTENCES and a
seeded generator: the same file comes out every time. See README.md for the format.
"""
import random
import struct
import sys

import gguf
import tokenizers
from tokenizers import AddedToken, Regex, Tokenizer, models, pre_tokenizers

from sentences import SENTENCES, SNIPPETS

PARSE_SPECIAL = 1
SPLIT_LINES = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def isolated(regex):
    return pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(regex), "isolated", invert=False),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ])


def splits():
    """Name -> (pre-tokenizer, ignore_merges)."""
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    digits = pre_tokenizers.Digits(individual_digits=True)
    return {
        "smollm": (pre_tokenizers.Sequence([digits, byte_level]), False),
        "gpt-2": (byte_level, False),
        "llama-bpe": (isolated(SPLIT_LINES % "{1,3}"), True),
        "qwen2": (isolated(SPLIT_LINES % ""), False),
    }


def byte_to_visible():
    printable = [*range(33, 127), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    table = {b: chr(b) for b in printable}
    for b in range(256):
        if b not in table:
            table[b] = chr(256 + len(table) - len(printable))
    return table


def read_vocabulary(path):
    fields = gguf.GGUFReader(path).fields
    tokens = fields["tokenizer.ggml.tokens"].contents()
    kinds = fields["tokenizer.ggml.token_type"].contents()
    merges = [tuple(m.split(" ")) for m in fields["tokenizer.ggml.merges"].contents()]
    return tokens, [t for t, kind in zip(tokens, kinds) if kind == 3], merges


def build(vocabulary, pre_tokenizer, ignore_merges):
    tokens, special, merges = vocabulary
    ids = {token: i for i, token in enumerate(tokens)}
    tok = Tokenizer(models.BPE(vocab=ids, merges=merges, ignore_merges=ignore_merges))
    tok.pre_tokenizer = pre_tokenizer
    tok.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in special])
    return tok


VISIBLE = byte_to_visible()


def runs(text):
    """(is_valid, bytes) runs; an invalid run joins adjacent maximal subparts."""
    at, out = 0, []

    def put(is_valid, part):
        if not part:
            return
        if out and out[-1][0] == is_valid:
            out[-1] = (is_valid, out[-1][1] + part)
        else:
            out.append((is_valid, part))

    while at < len(text):
        try:
            text[at:].decode()
            put(True, text[at:])
            break
        except UnicodeDecodeError as error:
            put(True, text[at:at + error.start])
            put(False, text[at + error.start:at + error.end])
            at += error.end
    return out


def encode(tok, text, flags):
    tok.encode_special_tokens = not flags & PARSE_SPECIAL
    ids = []
    for is_valid, part in runs(text):
        if is_valid:
            ids += tok.encode(part.decode(), add_special_tokens=False).ids
        else:
            ids += [t.id for t in tok.model.tokenize("".join(VISIBLE[b] for b in part))]
    return ids


WHITE = [" ", "  ", "    ", "\t", "\n", "\r\n", "\r", "\n\n", "\u00a0", "\u2003", "\u3000", "\u2028",
         "\u0085", "\u180e", "\u200b", "\x0b", "\x0c", "\x1c", " \n ", "\t\t", "\ufeff"]
SUFFIXES = ["'s", "'S", "'t", "'T", "'re", "'RE", "'Re", "'ve", "'m", "'M", "'ll", "'LL", "'lL",
            "'d", "'D", "\u2019s", "'\u017f", "'x", "''", "'llama", "'STAR"]
NUMBERS = ["0", "7", "42", "1234", "3.14159", "1,000,000", "-5", "1e-9", "0x1F", "2026-01-31", "٣٤٥",
           "१२३", "Ⅷ", "½", "①②③", "𝟘𝟙𝟚", "1st", "100%", "12:30", "x²", "10⁻³", "\U00016ff4\U00011de0"]
EMOJI = ["😀", "👍🏽", "👩‍👩‍👧‍👦", "🏳️‍🌈", "🇫🇷🇯🇵", "❤️", "👨🏿‍🚀", "☕", "🧑‍💻", "1️⃣", "🫠", "🪿", "©️"]
MARKS = ["\u0301", "\u0308", "\u0323", "\u20dd", "\u093f", "\u0e34", "\u05b8", "\u064e", "\u302a"]
SPECIAL = ["<|im_start|>", "<|im_end|>", "<|endoftext|>", "<file_sep>", "<jupyter_code>", "<|im_start",
           "<|im_end|", "<repo_name>", "<|", "|>", "<", "<<|im_end|>>"]


def word(r):
    return r.choice(r.choice(SENTENCES).split(" "))


def mixture(r):
    """Pieces of every kind in random order: what splits must tell apart."""
    kinds = [
        lambda: word(r), lambda: word(r) + r.choice(SUFFIXES), lambda: r.choice(WHITE),
        lambda: r.choice(WHITE) * r.randint(1, 9), lambda: r.choice(NUMBERS), lambda: r.choice(EMOJI),
        lambda: word(r)[:3] + r.choice(MARKS) + word(r)[:2],
        lambda: "".join(r.choice("!?.,;:()[]{}<>/\\|@#$%^&*-_=+~`'\"") for _ in range(r.randint(1, 6))),
        lambda: r.choice(SNIPPETS)[:r.randint(1, 60)], lambda: chr(r.randint(0, 0x1F)),
    ]
    return "".join(r.choice(kinds)() + r.choice(["", " ", " ", "\n"]) for _ in range(r.randint(1, 14)))


def code_points(r):
    """Random code points: one block, or all planes."""
    n = r.randint(1, 40)
    if r.random() < 0.5:
        base = r.randrange(0, 0x32400, 0x80)
        chars = [r.randrange(base, base + 0x80) for _ in range(n)]
    else:
        chars = [r.choice([r.randrange(0x110000), r.randrange(0x3000), r.randrange(0x80)]) for _ in range(n)]
    return "".join(chr(c) for c in chars if not 0xD800 <= c < 0xE000)


def broken(r):
    """Random bytes, valid text with bytes changed, and text cut inside a code point."""
    kind = r.randrange(3)
    if kind == 0:
        return bytes(r.randrange(256) for _ in range(r.randint(1, 60)))
    text = bytearray(mixture(r).encode())
    if kind == 1:
        for _ in range(r.randint(1, 6)):
            text[r.randrange(len(text))] = r.randrange(256)
        return bytes(text)
    return bytes(text[r.randint(0, 3):len(text) - r.randint(0, 3)])


def long_words(r):
    yield from (c * n for c in ["a", " ", "=", "\n", "é", "漢", "😀", "ab", "\t"] for n in (39, 40, 41, 997))
    letters = "etaoinshrdlucmfwypvbgk"
    for n in (35, 64, 300, 5000, 20000):
        yield "".join(r.choice(letters) for _ in range(n))
        yield "".join(r.choice("=-_#*/") for _ in range(n))
    for sentence in SENTENCES[:40]:
        yield sentence.replace(" ", "")


SAMPLED = [(0x3400, 0x4DC0), (0x4E00, 0xA000), (0xAC00, 0xD7A4), (0xD800, 0xFB00), (0x12000, 0x16000),
           (0x17000, 0x1AFF0), (0x1B200, 0x1BC00), (0x20000, 0x110000)]  # large and alike, or empty


def every_letter(r):
    """All code points but those of SAMPLED, of which some: with letters, digits, spaces around."""
    points = [c for c in range(0x20000) if not any(a <= c < b for a, b in SAMPLED)]
    for a, b in SAMPLED:
        points += range(a, min(b, 0x32400), 89)
    edges = [0x13460, 0x143FA, 0x16100, 0x1611D, 0x16D40, 0x16D79, 0x18CFF, 0x2B739, 0x2EBF0, 0x2EE5D,
             0x31350, 0x323AF, 0x16FF4, 0x16FF6, 0x1342F, 0x13441, 0x13446, 0x16130, 0x16139]
    points += [c + d for c in edges for d in (-1, 0, 1)]
    points = [c for c in points if not 0xD800 <= c < 0xE000]
    for at in range(0, len(points), 256):
        joints = r.choice([("a", "1"), (" ", "b"), ("7", " "), ("!", "x")])
        yield "".join(joints[i % 2] + chr(c) for i, c in enumerate(points[at:at + 256]))


def strings():
    """(flags, bytes), each once, in a fixed order."""
    r = random.Random(20260131)
    texts = ["", *SENTENCES, *SNIPPETS, *WHITE, *NUMBERS, *EMOJI, *SUFFIXES, *SPECIAL]
    texts += [chr(c) for c in range(0x180)]
    texts += [word(r) + s for s in SUFFIXES for _ in range(3)]
    texts += [a + w + b for w in WHITE for a, b in (("a", "b"), ("", "7"), ("7", ""), ("!", "?"), ("\n", " x"))]
    texts += [f"{a}{' ' * n}{b}" for n in range(1, 6) for a in "a1!\n" for b in "b2?\r"]
    texts += long_words(r)
    texts += [mixture(r) for _ in range(3200)]
    texts += [code_points(r) for _ in range(700)]
    out = [(0, t.encode()) for t in texts]
    out += [(0, broken(r)) for _ in range(700)]
    out += [(0, bytes([b])) for b in range(128, 256)]
    for _ in range(300):
        text = "".join(r.choice([mixture(r)[:20], r.choice(SPECIAL), r.choice(SPECIAL)]) for _ in range(6))
        out += [(0, text.encode()), (PARSE_SPECIAL, text.encode())]
    return list(dict.fromkeys(out)), [(0, t.encode()) for t in every_letter(r)]


def write(path, name, tok, records):
    with open(path, "wb") as f:
        f.write(struct.pack("<8s16sI", b"MPTOKEN1", name.encode(), len(records)))
        for flags, text in records:
            ids = encode(tok, text, flags)
            f.write(struct.pack("<BII", flags, len(text), len(ids)) + text)
            f.write(struct.pack(f"<{len(ids)}H", *ids))
        print(f"{path}: {len(records)} strings, {f.tell()} bytes")


def main():
    model, out = sys.argv[1:]
    print("tokenizers", tokenizers.__version__, "python", sys.version.split()[0])
    vocabulary = read_vocabulary(model)
    common, letters = strings()
    r = random.Random(7)
    few = [record for record in common if len(record[1]) <= 1000]
    for at, (name, (pre_tokenizer, ignore_merges)) in enumerate(splits().items()):
        tok = build(vocabulary, pre_tokenizer, ignore_merges)
        records = common + letters if name == "smollm" else r.sample(few, 1600) + letters[at - 1::3]
        write(f"{out}/{name}.bin", name, tok, records)


if __name__ == "__main__":
    main()
