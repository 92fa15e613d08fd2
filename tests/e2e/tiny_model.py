"""Writes a tiny llama GGUF with random weights: 2 layers of width 64, byte-level vocabulary.

For tests of everything around the model: it starts in milliseconds and answers nonsense fast.
The layout follows the GGUF specification, version 3 (github.com/ggerganov/ggml docs/gguf.md).
"""

import random
import struct

WIDTH, HEADS, KV_HEADS, HIDDEN, LAYERS, CONTEXT = 64, 4, 2, 128, 2, 2048
SPECIALS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TEMPLATE = (
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content']"
    " + '<|im_end|>' + '\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
UINT32, FLOAT32, BOOL, STRING, ARRAY, INT32 = 4, 6, 7, 8, 9, 5
ALIGNMENT = 32


def byte_letters():
    """GPT-2's printable letter for each byte."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters, extra = {}, 0
    for b in range(256):
        if b in printable:
            letters[b] = chr(b)
        else:
            letters[b] = chr(256 + extra)
            extra += 1
    return [letters[b] for b in range(256)]


def text(s):
    raw = s.encode()
    return struct.pack("<Q", len(raw)) + raw


def value(kind, v):
    packed = {UINT32: "<I", FLOAT32: "<f", INT32: "<i", BOOL: "<?"}
    return text(v) if kind == STRING else struct.pack(packed[kind], v)


def field(key, kind, v, item=None):
    head = text(key) + struct.pack("<I", kind)
    if kind != ARRAY:
        return head + value(kind, v)
    return head + struct.pack("<IQ", item, len(v)) + b"".join(value(item, x) for x in v)


def vocabulary():
    letters = byte_letters()
    space = letters[32]
    merges = [f"{space} t", "h e", "i n", f"{space}t he"]
    tokens = SPECIALS + letters + [m.replace(" ", "") for m in merges]
    kinds = [3] * len(SPECIALS) + [1] * (len(tokens) - len(SPECIALS))
    return tokens, kinds, merges


def tensor_shapes(vocab):
    kv = WIDTH // HEADS * KV_HEADS
    yield "token_embd.weight", (WIDTH, vocab)
    for i in range(LAYERS):
        yield f"blk.{i}.attn_norm.weight", (WIDTH,)
        yield f"blk.{i}.attn_q.weight", (WIDTH, WIDTH)
        yield f"blk.{i}.attn_k.weight", (WIDTH, kv)
        yield f"blk.{i}.attn_v.weight", (WIDTH, kv)
        yield f"blk.{i}.attn_output.weight", (WIDTH, WIDTH)
        yield f"blk.{i}.ffn_norm.weight", (WIDTH,)
        yield f"blk.{i}.ffn_gate.weight", (WIDTH, HIDDEN)
        yield f"blk.{i}.ffn_up.weight", (WIDTH, HIDDEN)
        yield f"blk.{i}.ffn_down.weight", (HIDDEN, WIDTH)
    yield "output_norm.weight", (WIDTH,)


def weights(name, shape, rng):
    count = 1
    for d in shape:
        count *= d
    if "norm" in name:
        return struct.pack(f"<{count}f", *([1.0] * count))
    sd = 0.08 if name.startswith("token_embd") else 1.2 / shape[0] ** 0.5
    return struct.pack(f"<{count}f", *(rng.gauss(0, sd) for _ in range(count)))


def write(path, architecture="llama", template=TEMPLATE, seed=1):
    tokens, kinds, merges = vocabulary()
    a = architecture
    fields = [
        field("general.architecture", STRING, a),
        field("general.name", STRING, "tiny"),
        field("general.alignment", UINT32, ALIGNMENT),
        field(f"{a}.block_count", UINT32, LAYERS),
        field(f"{a}.context_length", UINT32, CONTEXT),
        field(f"{a}.embedding_length", UINT32, WIDTH),
        field(f"{a}.feed_forward_length", UINT32, HIDDEN),
        field(f"{a}.attention.head_count", UINT32, HEADS),
        field(f"{a}.attention.head_count_kv", UINT32, KV_HEADS),
        field(f"{a}.rope.freq_base", FLOAT32, 10000.0),
        field(f"{a}.rope.dimension_count", UINT32, WIDTH // HEADS),
        field(f"{a}.attention.layer_norm_rms_epsilon", FLOAT32, 1e-5),
        field(f"{a}.vocab_size", UINT32, len(tokens)),
        field("general.file_type", UINT32, 0),
        field("tokenizer.ggml.model", STRING, "gpt2"),
        field("tokenizer.ggml.pre", STRING, "smollm"),
        field("tokenizer.ggml.tokens", ARRAY, tokens, STRING),
        field("tokenizer.ggml.token_type", ARRAY, kinds, INT32),
        field("tokenizer.ggml.merges", ARRAY, merges, STRING),
        field("tokenizer.ggml.bos_token_id", UINT32, 1),
        field("tokenizer.ggml.eos_token_id", UINT32, 2),
        field("tokenizer.ggml.unknown_token_id", UINT32, 0),
        field("tokenizer.ggml.padding_token_id", UINT32, 2),
        field("tokenizer.ggml.add_bos_token", BOOL, False),
        field("tokenizer.chat_template", STRING, template),
    ]
    rng, infos, data = random.Random(seed), b"", b""
    shapes = list(tensor_shapes(len(tokens)))
    for name, shape in shapes:
        infos += text(name) + struct.pack("<I", len(shape))
        infos += b"".join(struct.pack("<Q", d) for d in shape)
        infos += struct.pack("<IQ", 0, len(data))
        data += weights(name, shape, rng)
        data += b"\0" * (-len(data) % ALIGNMENT)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(shapes), len(fields)) + b"".join(fields) + infos
    with open(path, "wb") as out:
        out.write(head + b"\0" * (-len(head) % ALIGNMENT) + data)


if __name__ == "__main__":
    import sys

    write(sys.argv[1])
