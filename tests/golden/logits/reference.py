"""A GGUF's dequantised weights in transformers, float32: llama (with experts:
Mixtral), qwen2, qwen3, qwen3moe, gemma3."""

import gguf
import numpy
import torch
import transformers

LAYER = {
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate_inp": "mlp.gate",
}
# Gemma 3 has a norm before and after each block.
GEMMA_LAYER = LAYER | {
    "ffn_norm": "pre_feedforward_layernorm",
    "post_attention_norm": "post_attention_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}
ENDS = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}


def metadata(reader, key, default=None):
    """Of the file, or of its architecture when key starts with a dot."""
    if key.startswith("."):
        key = metadata(reader, "general.architecture") + key
    return reader.fields[key].contents() if key in reader.fields else default


def unpermute(weight, heads):
    """Llama's files keep rotated pairs adjacent, transformers half a head apart."""
    rows, columns = weight.shape
    pairs = weight.reshape(heads, rows // heads // 2, 2, columns)
    return numpy.ascontiguousarray(pairs.swapaxes(1, 2)).reshape(rows, columns)


def common_settings(reader, weights):
    vocab, width = weights["token_embd.weight"].shape
    heads = metadata(reader, ".attention.head_count")
    return {
        "vocab_size": vocab,
        "hidden_size": width,
        "intermediate_size": metadata(reader, ".feed_forward_length"),
        "num_hidden_layers": metadata(reader, ".block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": metadata(reader, ".attention.head_count_kv"),
        "head_dim": metadata(reader, ".attention.key_length", width // heads),
        "max_position_embeddings": metadata(reader, ".context_length"),
        "rms_norm_eps": metadata(reader, ".attention.layer_norm_rms_epsilon"),
        "rope_parameters": rope(metadata(reader, ".rope.freq_base")),
        "tie_word_embeddings": "output.weight" not in weights,
    }


def rope(base):
    return {"rope_type": "default", "rope_theta": base}


def gemma_settings(reader, common):
    period = metadata(reader, ".attention.sliding_window_pattern", 6)
    layers = range(1, common["num_hidden_layers"] + 1)
    return common | {
        "sliding_window": metadata(reader, ".attention.sliding_window"),
        "layer_types": [
            "sliding_attention" if i % period else "full_attention" for i in layers
        ],
        "query_pre_attn_scalar": common["head_dim"],
        "rope_parameters": {
            "full_attention": common["rope_parameters"],
            "sliding_attention": rope(10000.0),
        },
    }


def expert_settings(reader):
    return {
        "num_experts_per_tok": metadata(reader, ".expert_used_count"),
        "moe_intermediate_size": metadata(reader, ".expert_feed_forward_length"),
        "norm_topk_prob": True,
    }


def build(reader, weights):
    common = common_settings(reader, weights)
    experts = metadata(reader, ".expert_count", 0)
    match metadata(reader, "general.architecture"):
        case "llama" if experts:
            settings = common | expert_settings(reader) | {"num_local_experts": experts}
            return transformers.MixtralForCausalLM(transformers.MixtralConfig(**settings))
        case "qwen3moe":
            settings = common | expert_settings(reader) | {"num_experts": experts}
            return transformers.Qwen3MoeForCausalLM(transformers.Qwen3MoeConfig(**settings))
        case "llama":
            return transformers.LlamaForCausalLM(transformers.LlamaConfig(**common))
        case "qwen2":
            return transformers.Qwen2ForCausalLM(transformers.Qwen2Config(**common))
        case "qwen3":
            return transformers.Qwen3ForCausalLM(transformers.Qwen3Config(**common))
        case "gemma3":
            config = transformers.Gemma3TextConfig(**gemma_settings(reader, common))
            return transformers.Gemma3ForCausalLM(config)
        case other:
            raise SystemExit(f"architecture {other}")


def reference(reader):
    architecture = metadata(reader, "general.architecture")
    weights = {
        t.name: gguf.quants.dequantize(t.data, t.tensor_type).astype(numpy.float32)
        for t in reader.tensors
    }
    model = build(reader, weights)
    names = GEMMA_LAYER if architecture == "gemma3" else LAYER
    heads = {
        "attn_q": model.config.num_attention_heads,
        "attn_k": model.config.num_key_value_heads,
    }
    state, experts = {}, {}
    for name, value in weights.items():
        if architecture == "gemma3" and name.endswith("norm.weight"):
            value = value - 1  # transformers has 1 + weight
        if name in ENDS:
            state[ENDS[name]] = torch.from_numpy(value)
            continue
        _, layer, kind, what = name.split(".")
        if kind in ("ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"):
            experts.setdefault(layer, {})[kind] = torch.from_numpy(value)
            continue
        if architecture == "llama" and kind in heads:
            value = unpermute(value, heads[kind])
        state[f"model.layers.{layer}.{names[kind]}.{what}"] = torch.from_numpy(value)
    for layer, parts in experts.items():
        both = torch.cat((parts["ffn_gate_exps"], parts["ffn_up_exps"]), dim=1)
        state[f"model.layers.{layer}.mlp.experts.gate_up_proj"] = both
        state[f"model.layers.{layer}.mlp.experts.down_proj"] = parts["ffn_down_exps"]
    if model.config.tie_word_embeddings:
        state["lm_head.weight"] = state["model.embed_tokens.weight"]
    model.load_state_dict(state, strict=True)
    return model.float().eval()
