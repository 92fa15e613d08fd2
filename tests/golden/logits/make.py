#!/usr/bin/env python3
"""Golden logits: the same dequantised weights in transformers, float32.

make.py texts MODEL.gguf OUT         every position of text.txt (SmolLM2)
make.py windows MODEL.gguf OUT       short texts, and the end of one longer than a window (Gemma 3)
make.py random MODEL.gguf OUT        random tokens (tiny models)
make.py full MODEL.gguf GOLDEN DUMP  mean KL over the whole vocabulary of logits that
                                     golden_logits --dump DUMP wrote

Needs torch, transformers, gguf, tokenizers, numpy; windows also sentencepiece and protobuf.
"""

import os
import random
import struct
import sys
from pathlib import Path

import gguf
import numpy
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from reference import metadata, reference

HERE = Path(__file__).resolve().parent
MAGIC, VERSION = b"MPGL", 2


def bpe_ids(reader, text):
    """With the file's own vocabulary and the SmolLM split: digits one by one, then GPT-2."""
    tokens = metadata(reader, "tokenizer.ggml.tokens")
    merges = [tuple(m.split(" ")) for m in metadata(reader, "tokenizer.ggml.merges")]
    kinds = metadata(reader, "tokenizer.ggml.token_type")
    made = Tokenizer(models.BPE({t: i for i, t in enumerate(tokens)}, merges))
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens([t for t, kind in zip(tokens, kinds) if kind == 3])
    return made.encode(text).ids


def texts():
    return [t.strip() for t in (HERE / "text.txt").read_text(encoding="utf-8").split("\n---\n")]


def all_texts(reader):
    """(ids, first position that is kept)"""
    return 96, [(bpe_ids(reader, text), 0) for text in texts()]


def windows(reader):
    """Four texts from their beginning, then all of them in one, 700 tokens, its last 120 kept."""
    sys.path.insert(0, str(HERE.parent / "tokenizer"))
    from sentencepieces import processor

    made = processor(reader)
    bos = [metadata(reader, "tokenizer.ggml.bos_token_id")]
    short = [(bos + made.encode(text)[:63], 0) for text in texts()[::3]]
    return 64, [*short, (bos + made.encode("\n".join(texts()))[:699], 580)]


def random_ids(reader):
    r = random.Random(5)
    vocab = len(metadata(reader, "tokenizer.ggml.tokens"))
    return 24, [([r.randrange(vocab) for _ in range(n)], 0) for n in (1, 40, 90)]


def logprobs(model, ids):
    with torch.no_grad():
        logits = model(torch.tensor([ids])).logits[0]
    return torch.log_softmax(logits.double(), dim=-1)


def golden(kind, path, to):
    reader = gguf.GGUFReader(path)
    model = reference(reader)
    top, sequences = kind(reader)
    vocab = model.config.vocab_size
    id_type = "<u2" if vocab <= 65536 else "<u4"
    out = bytearray(MAGIC + struct.pack("<IIII", VERSION, len(sequences), top, vocab))
    for ids, first in sequences:
        out += struct.pack("<II", len(ids), first) + numpy.array(ids, "<i4").tobytes()
        best = torch.topk(logprobs(model, ids)[first:], top, dim=-1)
        out += best.indices.numpy().astype(id_type).tobytes()
        out += best.values.numpy().astype("<f4").tobytes()
    Path(to).write_bytes(out)
    kept = sum(len(ids) - first for ids, first in sequences)
    print(f"{os.path.basename(path)}: {kept} positions in {len(sequences)} sequences, {len(out)} bytes")


def read_sequences(path):
    data = Path(path).read_bytes()
    _, _, count, top, vocab = struct.unpack_from("<4sIIII", data)
    at, width = 20, 2 if vocab <= 65536 else 4
    for _ in range(count):
        n, first = struct.unpack_from("<II", data, at)
        yield list(numpy.frombuffer(data, "<i4", n, at + 8)), first
        at += 8 + 4 * n + (n - first) * top * (width + 4)


def full(path, golden_path, dump):
    model = reference(gguf.GGUFReader(path))
    theirs = numpy.memmap(dump, "<f4", "r").reshape(-1, model.config.vocab_size)
    at, total, same, worst = 0, 0.0, 0, 0.0
    for ids, first in read_sequences(golden_path):
        ours = logprobs(model, ids)[first:]
        other = torch.from_numpy(numpy.array(theirs[at : at + len(ours)]))
        other = torch.log_softmax(other.double(), dim=-1)
        kl = (ours.exp() * (ours - other)).sum(dim=-1)
        total += kl.sum().item()
        worst = max(worst, kl.max().item())
        same += (ours.argmax(dim=-1) == other.argmax(dim=-1)).sum().item()
        at += len(ours)
    print(
        f"{at} positions, whole vocabulary: mean KL {total / at:.3e}, "
        f"worst {worst:.3e}, top-1 agreement {100 * same / at:.2f}%"
    )


if __name__ == "__main__":
    kinds = {"texts": all_texts, "windows": windows, "random": random_ids}
    if len(sys.argv) == 4 and sys.argv[1] in kinds:
        golden(kinds[sys.argv[1]], *sys.argv[2:])
    elif len(sys.argv) == 5 and sys.argv[1] == "full":
        full(*sys.argv[2:])
    else:
        sys.exit(__doc__)
