#!/usr/bin/env python3
"""Golden ids of SentencePiece vocabularies.

make_pieces.py model MODEL.gguf NAME OUT.bin   with a model's vocabulary (Gemma 3)
make_pieces.py train OUT_DIR                   trains two small ones and writes them as GGUF files
                                               without tensors, with their ids: pieces (byte
                                               tokens, a space in front), pieces-unknown (no byte
                                               tokens)

Needs sentencepiece, protobuf, gguf, tokenizers.
"""

import io
import random
import re
import struct
import sys
from pathlib import Path

import gguf
import sentencepiece

from make import PARSE_SPECIAL, SPECIAL, mixture, runs, strings
from sentencepieces import field, processor
from sentences import SENTENCES, SNIPPETS

CONTROL, USER_DEFINED, BYTE = 3, 4, 6
SPACE = "\u2581"
TRAINED = ["<think>", "</think>", "  ", "   ", "\n", "\n\n", "\t", "::"]


class Reference:
    def __init__(self, reader):
        self.made = processor(reader)
        tokens, kinds = field(reader, "tokens"), field(reader, "token_type")
        self.ids = {t: i for i, (t, kind) in enumerate(zip(tokens, kinds)) if kind == CONTROL}
        added = [t for t, kind in zip(tokens, kinds) if kind in (CONTROL, USER_DEFINED)]
        longest = sorted(added, key=len, reverse=True)
        self.added = re.compile("|".join(map(re.escape, longest)))
        self.byte = {int(t[3:5], 16): i for i, (t, k) in enumerate(zip(tokens, kinds)) if k == BYTE}

    def cut(self, text):
        """Control tokens and the texts between them."""
        start = 0
        for found in self.added.finditer(text):
            if found.group() in self.ids:
                yield text[start : found.start()], self.ids[found.group()]
                start = found.end()
        yield text[start:], None

    def encode(self, raw, flags):
        out = []
        for is_valid, part in runs(raw):
            if not is_valid:
                out += [self.byte[b] for b in part]
                continue
            text = part.decode()
            for plain, control in self.cut(text) if flags & PARSE_SPECIAL else [(text, None)]:
                out += self.made.encode(plain)
                out += [] if control is None else [control]
        return out


def records_for(reference, has_prefix):
    """Text that is not UTF-8 only where no space goes in front: the reference knows no such text."""
    r = random.Random(11)
    common, letters = strings()
    picked = r.sample([x for x in common if len(x[1]) <= 1000], 2600) + letters[::2]
    specials = [*SPECIAL, "<start_of_turn>", "<end_of_turn>", "<bos>", "<s>", "</s>", *TRAINED, "<b>"]
    for _ in range(300):
        text = "".join(r.choice([mixture(r)[:20], r.choice(specials), SPACE, " "]) for _ in range(6))
        picked += [(0, text.encode()), (PARSE_SPECIAL, text.encode())]
    picked += [(0, text.encode()) for text in SNIPPETS]
    picked += [(0, (" " * n + "a" + " " * m + "\n").encode()) for n in range(8) for m in range(34)]
    picked += [(0, (c * n).encode()) for c in ["a", " ", SPACE, "=", "\n", "漢", "😀"] for n in (2, 31, 997)]
    if has_prefix or not reference.byte:
        picked = [x for x in picked if all(is_valid for is_valid, _ in runs(x[1]))]
    return list(dict.fromkeys(picked))


def write(reader, name, to):
    reference = Reference(reader)
    records = records_for(reference, field(reader, "add_space_prefix", True))
    with open(to, "wb") as f:
        f.write(struct.pack("<8s16sI", b"MPTOKEN2", name.encode(), len(records)))
        for flags, text in records:
            ids = reference.encode(text, flags)
            f.write(struct.pack("<BII", flags, len(text), len(ids)) + text)
            f.write(struct.pack(f"<{len(ids)}I", *ids))
        print(f"{to}: {len(records)} strings, {f.tell()} bytes")


def train(byte_fallback):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([line for text in SENTENCES + SNIPPETS for line in text.split("\n")] * 2),
        model_writer=model, model_type="bpe", vocab_size=2200, character_coverage=0.98,
        byte_fallback=byte_fallback, normalization_rule_name="identity", num_threads=1,
        remove_extra_whitespaces=False, user_defined_symbols=TRAINED, hard_vocab_limit=False,
        pad_id=3, minloglevel=2,
    )
    return sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())


def write_vocabulary(made, to):
    """As the converters write it."""
    def kind(i):
        for value, has in ((2, made.is_unknown), (3, made.is_control), (6, made.is_byte)):
            if has(i):
                return value
        return USER_DEFINED if made.id_to_piece(i).replace(SPACE, " ") in TRAINED else 1

    n = made.vocab_size()
    kinds = [kind(i) for i in range(n)]
    pieces = [made.id_to_piece(i) for i in range(n)]
    writer = gguf.GGUFWriter(to, "llama")
    writer.add_tokenizer_model("llama")
    writer.add_token_list([p.replace(SPACE, " ") if k == USER_DEFINED else p for p, k in zip(pieces, kinds)])
    writer.add_token_scores([made.get_score(i) for i in range(n)])
    writer.add_token_types(kinds)
    writer.add_bos_token_id(made.bos_id())
    writer.add_eos_token_id(made.eos_id())
    writer.add_unk_token_id(made.unk_id())
    writer.add_pad_token_id(made.pad_id())
    writer.add_add_space_prefix(True)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()


def main():
    print("sentencepiece", sentencepiece.__version__, "python", sys.version.split()[0])
    if len(sys.argv) == 5 and sys.argv[1] == "model":
        write(gguf.GGUFReader(sys.argv[2]), sys.argv[3], sys.argv[4])
    elif len(sys.argv) == 3 and sys.argv[1] == "train":
        for name, byte_fallback in (("pieces", True), ("pieces-unknown", False)):
            path = Path(sys.argv[2]) / (name + ".gguf")
            write_vocabulary(train(byte_fallback), path)
            write(gguf.GGUFReader(path), name, path.with_suffix(".bin"))
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
