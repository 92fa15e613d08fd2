#!/usr/bin/env python3
"""Golden logits: the same dequantised weights in transformers, float32.

make.py golden MODEL.gguf            writes golden.bin beside this script
make.py full MODEL.gguf DUMP         mean KL over the whole vocabulary of logits that
                                     golden_logits --dump DUMP wrote

Needs torch, transformers, gguf, tokenizers, numpy.
"""

import os
import struct
import sys
from pathlib import Path

import gguf
import numpy
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM

HERE = Path(__file__).resolve().parent
TOP = 96  # logprobs kept per position; the rest is one mass
MAGIC, VERSION = b"MPGL", 1


def metadata(reader, key):
    return reader.fields[key].contents()


def text_tokenizer(reader):
    """The file's own vocabulary with the SmolLM split: digits one by one, then GPT-2."""
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
    return made


def unpermute(weight, heads):
    """GGUF keeps rotated pairs adjacent, transformers half a head apart."""
    rows, columns = weight.shape
    pairs = weight.reshape(heads, rows // heads // 2, 2, columns)
    return numpy.ascontiguousarray(pairs.swapaxes(1, 2)).reshape(rows, columns)


def reference(reader):
    heads = metadata(reader, "llama.attention.head_count")
    kv_heads = metadata(reader, "llama.attention.head_count_kv")
    weights = {
        t.name: gguf.quants.dequantize(t.data, t.tensor_type).astype(numpy.float32)
        for t in reader.tensors
    }
    vocab, width = weights["token_embd.weight"].shape
    config = LlamaConfig(
        vocab_size=vocab,
        hidden_size=width,
        intermediate_size=metadata(reader, "llama.feed_forward_length"),
        num_hidden_layers=metadata(reader, "llama.block_count"),
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        max_position_embeddings=metadata(reader, "llama.context_length"),
        rms_norm_eps=metadata(reader, "llama.attention.layer_norm_rms_epsilon"),
        rope_parameters={
            "rope_type": "default",
            "rope_theta": metadata(reader, "llama.rope.freq_base"),
        },
        tie_word_embeddings="output.weight" not in weights,
    )
    names = {
        "attn_q": "self_attn.q_proj",
        "attn_k": "self_attn.k_proj",
        "attn_v": "self_attn.v_proj",
        "attn_output": "self_attn.o_proj",
        "ffn_gate": "mlp.gate_proj",
        "ffn_up": "mlp.up_proj",
        "ffn_down": "mlp.down_proj",
        "attn_norm": "input_layernorm",
        "ffn_norm": "post_attention_layernorm",
    }
    ends = {
        "token_embd.weight": "model.embed_tokens.weight",
        "output_norm.weight": "model.norm.weight",
        "output.weight": "lm_head.weight",
    }
    state = {}
    for name, value in weights.items():
        if name in ends:
            state[ends[name]] = torch.from_numpy(value)
            continue
        _, layer, kind, _ = name.split(".")
        if kind in ("attn_q", "attn_k"):
            value = unpermute(value, heads if kind == "attn_q" else kv_heads)
        state[f"model.layers.{layer}.{names[kind]}.weight"] = torch.from_numpy(value)
    if config.tie_word_embeddings:
        state["lm_head.weight"] = state["model.embed_tokens.weight"]
    model = LlamaForCausalLM(config)
    model.load_state_dict(state, strict=True)
    return model.float().eval()


def sequences(reader):
    made = text_tokenizer(reader)
    for text in (HERE / "text.txt").read_text(encoding="utf-8").split("\n---\n"):
        yield made.encode(text.strip()).ids


def logprobs(model, ids):
    with torch.no_grad():
        logits = model(torch.tensor([ids])).logits[0]
    return torch.log_softmax(logits.double(), dim=-1)


def golden(path):
    reader = gguf.GGUFReader(path)
    model = reference(reader)
    out = bytearray()
    lists = list(sequences(reader))
    vocab = model.config.vocab_size
    assert vocab <= 65536
    out += MAGIC + struct.pack("<IIIIQ", VERSION, len(lists), TOP, vocab, os.path.getsize(path))
    for ids in lists:
        out += struct.pack("<I", len(ids)) + numpy.array(ids, "<i4").tobytes()
        best = torch.topk(logprobs(model, ids), TOP, dim=-1)
        out += best.indices.numpy().astype("<u2").tobytes()
        out += best.values.numpy().astype("<f4").tobytes()
    (HERE / "golden.bin").write_bytes(out)
    print(f"{sum(map(len, lists))} positions in {len(lists)} sequences, {len(out)} bytes")


def full(path, dump):
    reader = gguf.GGUFReader(path)
    model = reference(reader)
    theirs = numpy.memmap(dump, "<f4", "r").reshape(-1, model.config.vocab_size)
    at, total, same, worst = 0, 0.0, 0, 0.0
    for ids in sequences(reader):
        ours = logprobs(model, ids)
        part = numpy.array(theirs[at : at + len(ids)])
        other = torch.log_softmax(torch.from_numpy(part).double(), dim=-1)
        kl = (ours.exp() * (ours - other)).sum(dim=-1)
        total += kl.sum().item()
        worst = max(worst, kl.max().item())
        same += (ours.argmax(dim=-1) == other.argmax(dim=-1)).sum().item()
        at += len(ids)
    print(
        f"{at} positions, whole vocabulary: mean KL {total / at:.3e}, "
        f"worst {worst:.3e}, top-1 agreement {100 * same / at:.2f}%"
    )


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] == "golden":
        golden(sys.argv[2])
    elif len(sys.argv) == 4 and sys.argv[1] == "full":
        full(sys.argv[2], sys.argv[3])
    else:
        sys.exit(__doc__)
