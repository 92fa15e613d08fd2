"""Files the comparison needs besides the model given: a 1.1B-shape Q4_1 file with random weights
(figure 7) and the model as Q4_0 (figure 8). Kept in the cache folder.

The GGUF layout and the Q4_1 block (f16 scale, f16 minimum, 32 nibbles) follow the GGUF
specification (docs/gguf.md of the ggml repository) and tests/e2e/tiny_model.py."""

import random
import struct
import subprocess
import sys
from pathlib import Path

from install import cache_base

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "e2e"))
from tiny_model import (ALIGNMENT, ARRAY, BOOL, FLOAT32, INT32, SPECIALS,  # noqa: E402
                        STRING, TEMPLATE, UINT32, byte_letters, field, text)

F32, Q4_1, BLOCK, BLOCK_BYTES = 0, 3, 32, 20
# TinyLlama 1.1B's shape (arXiv 2401.02385, table 1).
LAYERS, WIDTH, HEADS, KV_HEADS, HIDDEN, VOCAB, CONTEXT = 22, 2048, 32, 4, 5632, 32000, 2048
CHUNK_BLOCKS = 1 << 16


def cache_folder():
    folder = cache_base() / "bench-models"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def tensors():
    kv = WIDTH // HEADS * KV_HEADS
    yield "token_embd.weight", (WIDTH, VOCAB)
    for i in range(LAYERS):
        for name, rows, cols in (("attn_q", WIDTH, WIDTH), ("attn_k", kv, WIDTH),
                                 ("attn_v", kv, WIDTH), ("attn_output", WIDTH, WIDTH),
                                 ("ffn_gate", HIDDEN, WIDTH), ("ffn_up", HIDDEN, WIDTH),
                                 ("ffn_down", WIDTH, HIDDEN)):
            yield f"blk.{i}.{name}.weight", (cols, rows)
        yield f"blk.{i}.attn_norm.weight", (WIDTH,)
        yield f"blk.{i}.ffn_norm.weight", (WIDTH,)
    yield "output_norm.weight", (WIDTH,)
    yield "output.weight", (WIDTH, VOCAB)


def metadata():
    letters = byte_letters()
    tokens = SPECIALS + letters
    merges = []
    for a in letters[:200]:
        for b in letters[:200]:
            if len(tokens) < VOCAB:
                tokens.append(a + b)
                merges.append(f"{a} {b}")
    kinds = [3] * len(SPECIALS) + [1] * (VOCAB - len(SPECIALS))
    return [
        field("general.architecture", STRING, "llama"), field("general.name", STRING, "random-1b"),
        field("llama.block_count", UINT32, LAYERS), field("llama.context_length", UINT32, CONTEXT),
        field("llama.embedding_length", UINT32, WIDTH),
        field("llama.feed_forward_length", UINT32, HIDDEN),
        field("llama.attention.head_count", UINT32, HEADS),
        field("llama.attention.head_count_kv", UINT32, KV_HEADS),
        field("llama.attention.layer_norm_rms_epsilon", FLOAT32, 1e-5),
        field("llama.rope.freq_base", FLOAT32, 10000.0),
        field("llama.rope.dimension_count", UINT32, WIDTH // HEADS),
        field("llama.vocab_size", UINT32, VOCAB),
        field("tokenizer.ggml.model", STRING, "gpt2"), field("tokenizer.ggml.pre", STRING, "gpt-2"),
        field("tokenizer.ggml.tokens", ARRAY, tokens, STRING),
        field("tokenizer.ggml.token_type", ARRAY, kinds, INT32),
        field("tokenizer.ggml.merges", ARRAY, merges, STRING),
        field("tokenizer.ggml.bos_token_id", UINT32, 1),
        field("tokenizer.ggml.eos_token_id", UINT32, 2),
        field("tokenizer.ggml.add_bos_token", BOOL, False),
        field("tokenizer.chat_template", STRING, TEMPLATE),
    ]


def count(shape):
    return shape[0] * (shape[1] if len(shape) > 1 else 1)


def size(shape):
    return count(shape) // BLOCK * BLOCK_BYTES if len(shape) > 1 else count(shape) * 4


def random_blocks(rng, width):
    """Q4_1 blocks of values around zero that keep a layer's output near its input's size."""
    scale = 0.25 / width ** 0.5
    head = [struct.pack("<2e", scale * f, -7.5 * scale * f) for f in (0.8, 0.9, 1.0, 1.1)]
    nibbles = rng.randbytes(16 * CHUNK_BLOCKS)
    return b"".join(head[i & 3] + nibbles[16 * i:16 * i + 16] for i in range(CHUNK_BLOCKS))


def write_big(path):
    rng = random.Random(7)
    listed, offset, head = list(tensors()), 0, b""
    for name, shape in listed:
        dims = struct.pack(f"<I{len(shape)}Q", len(shape), *shape)
        head += text(name) + dims + struct.pack("<IQ", Q4_1 if len(shape) > 1 else F32, offset)
        offset += (size(shape) + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT
    fields = metadata()
    partial = path.with_suffix(".partial")
    with open(partial, "wb") as f:
        f.write(b"GGUF" + struct.pack("<IQQ", 3, len(listed), len(fields)) + b"".join(fields) + head)
        f.write(b"\0" * (-f.tell() % ALIGNMENT))
        chunk = random_blocks(rng, WIDTH)
        for _, shape in listed:
            left = size(shape)
            if len(shape) == 1:
                f.write(struct.pack("<f", 1.0) * shape[0])
            while len(shape) > 1 and left > 0:
                f.write(chunk[:left])
                left -= min(left, len(chunk))
            f.write(b"\0" * (-f.tell() % ALIGNMENT))
    partial.rename(path)


def big_model():
    path = cache_folder() / "random-1.1b-q4_1.gguf"
    if not path.exists():
        print(f"writing {path}", file=sys.stderr, flush=True)
        write_big(path)
    return str(path)


def as_q4_0(rival, model):
    """The rival's best format of the same model, by its own quantiser."""
    path = cache_folder() / (Path(model).stem + f"-{Path(model).stat().st_size}-as-Q4_0.gguf")
    tool = rival.program("llama-quantize")
    if not path.exists():
        if not tool.exists():
            sys.exit(f"figure 8 needs {tool} once, to make the Q4_0 file; or leave it out with --only")
        print(f"writing {path}", file=sys.stderr, flush=True)
        partial = path.with_suffix(".partial")
        subprocess.run(["nice", "-n", "19", tool, "--allow-requantize", model, partial, "Q4_0"],
                       check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        partial.rename(path)
    return str(path)
