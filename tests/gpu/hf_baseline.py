"""hf_baseline.py [--json FILE] [--model NAME,NAME] [--budget SECONDS] - what transformers does on this
card with models of the same shapes and random bfloat16 weights: tokens per second of one sequence,
eager generate, and the same with a static cache and a compiled forward. Exit 77 without a device or
without torch; a way that fails is left out and told."""

import argparse
import json
import sys
import time

SHAPES = {
    "synth-1b": dict(hidden_size=2048, num_hidden_layers=16, num_attention_heads=32, head_dim=64,
                     num_key_value_heads=8, intermediate_size=8192, vocab_size=128256,
                     tie_word_embeddings=True),
    "synth-8b": dict(hidden_size=4096, num_hidden_layers=32, num_attention_heads=32, head_dim=128,
                     num_key_value_heads=8, intermediate_size=14336, vocab_size=128256,
                     tie_word_embeddings=False),
    "synth-tiny": dict(hidden_size=256, num_hidden_layers=2, num_attention_heads=4, head_dim=64,
                       num_key_value_heads=2, intermediate_size=512, vocab_size=384,
                       tie_word_embeddings=True),
}
N_PROMPT, N_NEW = 256, 64


def make_model(torch, name, device):
    from transformers import LlamaConfig, LlamaForCausalLM
    config = LlamaConfig(max_position_embeddings=16384, rope_theta=500000.0, **SHAPES[name])
    config.dtype = torch.bfloat16
    torch.set_default_dtype(torch.bfloat16)
    with torch.device(device):
        return LlamaForCausalLM(config).eval()


def generate(torch, model, device, n_new, **options):
    """Seconds for n_new tokens after the prompt."""
    ids = torch.randint(3, 300, (1, N_PROMPT), device=device)
    mask = torch.ones_like(ids)
    synchronize = torch.cuda.synchronize if device == "cuda" else (lambda: None)
    synchronize()
    start = time.perf_counter()
    with torch.inference_mode():
        model.generate(ids, attention_mask=mask, max_new_tokens=n_new, min_new_tokens=n_new,
                       do_sample=False, pad_token_id=0, eos_token_id=None, **options)
    synchronize()
    return time.perf_counter() - start


def token_rate(torch, model, device, **options):
    """Of decoding alone: the prompt's time is in both runs and falls out."""
    generate(torch, model, device, 8, **options)
    few, many = (min(generate(torch, model, device, n, **options) for _ in range(2))
                 for n in (8, 8 + N_NEW))
    return N_NEW / (many - few)


def measure(torch, name, device, ways, rows, deadline, path):
    model = make_model(torch, name, device)
    for way, options in ways.items():
        if time.monotonic() > deadline:
            print(f"{name} {way}: left out, no time left", flush=True)
            continue
        try:
            rate = token_rate(torch, model, device, **options)
        except Exception as error:  # the next way may work
            print(f"{name} {way}: failed: {error!r:.300}", flush=True)
            continue
        rows.append({"name": f"transformers {way} {name} bf16 batch 1", "us": 1e6 / rate, "bytes": 0,
                     "flops": 0, "tok_s": rate})
        print(f"{name} {way}: {rate:.1f} tok/s", flush=True)
        if path:  # what there is, should the next way take too long
            with open(path, "w") as file:
                json.dump({"kind": "baseline", "rows": rows}, file)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json")
    parser.add_argument("--model", default="synth-1b,synth-8b")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--budget", type=float, default=80)
    arguments = parser.parse_args()
    try:
        import torch
        import transformers
    except ImportError as error:
        print(f"skipped: {error}")
        return 77
    if arguments.device == "cuda" and not torch.cuda.is_available():
        print("skipped: no device")
        return 77
    print(f"torch {torch.__version__}, transformers {transformers.__version__}")
    ways = {"eager": {}, "static": {"cache_implementation": "static"}}
    rows, deadline = [], time.monotonic() + arguments.budget
    for name in arguments.model.split(","):
        measure(torch, name, arguments.device, ways, rows, deadline, arguments.json)
    return 0 if rows else 1


if __name__ == "__main__":
    sys.exit(main())
