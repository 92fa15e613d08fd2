"""Figures 1, 2, 3 and 7: the model without a server. llama-bench and llama-batched-bench for the
rival, bench_engine for ours: no sampling, one warm-up, wall clock. A rival without these programs
is measured through its server, and then ours too, with the same client (`by_server`)."""

import json
import os
import subprocess

from engines import Ours, pinned

BATCHES, CONTEXT, STEPS = (4, 8, 16, 32), 128, 32
SHARED_SEQ, SHARED_CONTEXT = 16, 400


def run(engine, threads, *command):
    env = engine.env(threads) if hasattr(engine, "env") else {}
    words = [*pinned(engine.cores[:threads]), *map(str, command)]
    done = subprocess.run(words, capture_output=True, text=True, check=False,
                          env={**os.environ, **env})
    if done.returncode != 0:
        raise RuntimeError(f"{command[0]}: {done.stderr[-800:]}")
    return done.stdout


def ours_rates(engine, model, threads, cases):
    lines = run(engine, threads, engine.program("bench_engine"), model, threads, *cases.values())
    found = {}
    for line in lines.splitlines():
        row = json.loads(line)
        found[row["case"]] = row.get("tok_s", row.get("weight_bytes"))
    return {key: found[case] for key, case in cases.items()}


def ours(engine, model, figures):
    v = {}
    if 1 in figures:
        v |= ours_rates(engine, model, 2, {"decode_2t": "decode:1:0:128"})
        v |= ours_rates(engine, model, 1, {"decode_1t": "decode:1:0:128"})
    if 2 in figures:
        v |= ours_rates(engine, model, 2, {"prefill_512": "prefill:512", "prefill_64": "prefill:64"})
    if 3 in figures:
        cases = {f"batch_{b}": f"decode:{b}:{CONTEXT}:{STEPS}" for b in BATCHES}
        cases["shared_16"] = f"shared:{SHARED_SEQ}:{SHARED_CONTEXT}:{STEPS}"
        v |= ours_rates(engine, model, 2, cases)
    if 7 in figures:
        v |= ours_rates(engine, model, 2, {"big_decode": "decode:1:0:32",
                                           "big_prefill": "prefill:256"})
    return v


def bench_rates(engine, model, threads, n_prompt, n_gen):
    """Tokens per second by number of prompt tokens and of generated ones."""
    rows = json.loads(run(engine, threads, engine.program("llama-bench"), "-m", model, "-t", threads,
                          "-p", n_prompt, "-n", n_gen, "-r", 1, "-o", "json"))
    return {("p", r["n_prompt"]) if r["n_prompt"] else ("n", r["n_gen"]): r["avg_ts"]
            for r in rows}, rows[0]["model_size"]


def batched_rates(engine, model, context, batches):
    most = max(batches)
    lines = run(engine, 2, engine.program("llama-batched-bench"), "-m", model, "-t", 2,
                "-c", most * (context + STEPS) + 512, "-npp", context, "-ntg", STEPS,
                "-npl", ",".join(map(str, batches)), "-pps", "--output-format", "jsonl")
    rows = [json.loads(x) for x in lines.splitlines() if x.startswith("{")]
    return {r["pl"]: r["speed_tg"] for r in rows}


def rival(engine, model, figures):
    v = {}
    if 1 in figures:
        rates, size = bench_rates(engine, model, 2, 0, 128)
        v["decode_2t"], v["model_bytes"] = rates[("n", 128)], size
        v["decode_1t"] = bench_rates(engine, model, 1, 0, 128)[0][("n", 128)]
    if 2 in figures:
        rates, _ = bench_rates(engine, model, 2, "512,64", 0)
        v["prefill_512"], v["prefill_64"] = rates[("p", 512)], rates[("p", 64)]
    if 3 in figures:
        # One prompt for all sequences saves the rival's prefill; each then has its own cache.
        for n, rate in batched_rates(engine, model, CONTEXT, BATCHES).items():
            v[f"batch_{n}"] = rate
        v["shared_16"] = batched_rates(engine, model, SHARED_CONTEXT, (SHARED_SEQ,))[SHARED_SEQ]
    if 7 in figures:
        rates, _ = bench_rates(engine, model, 2, 256, 32)
        v["big_decode"], v["big_prefill"] = rates[("n", 32)], rates[("p", 256)]
    return v


def decode_rate(client, server, seed):
    r = client.load(server, "-n", 2, "--prompt", 8, "--output", 128, "--seed", seed)
    return 1e3 / r["tpot_ms"]["p50"]


def prefill_rate(client, server, words, seed):
    r = client.load(server, "-n", 2, "--prompt", words, "--output", 1, "--seed", seed)
    return r["tokens"]["prompt"] / 2 / r["ttft_ms"]["p50"] * 1e3


def batch_rate(client, server, n, seed, *more):
    r = client.load(server, "-n", n, "--clients", n, "--output", 64, "--seed", seed, *more)
    return n * 1e3 / r["tpot_ms"]["min"]  # the request that waited for no prompt


def by_server(engine, client, model, figures, seed):
    """The same figures from outside; times of HTTP and streaming are in them."""
    v = {}
    if 1 in figures:
        with engine.serve(model, 1, threads=1) as server:
            v["decode_1t"] = decode_rate(client, server, seed)
    with engine.serve(model, 32) as server:
        if 1 in figures:
            v["decode_2t"] = decode_rate(client, server, seed)
        if 2 in figures:
            v["prefill_512"] = prefill_rate(client, server, 500, seed)
            v["prefill_64"] = prefill_rate(client, server, 52, seed)
        for n in BATCHES if 3 in figures else ():
            v[f"batch_{n}"] = batch_rate(client, server, n, seed + n, "--prompt", CONTEXT)
        if 3 in figures:
            v["shared_16"] = batch_rate(client, server, SHARED_SEQ, seed, "--prompt", 8,
                                        "--shared-prefix", SHARED_CONTEXT, "--warm-up", 16)
        if 7 in figures:
            v["big_decode"] = decode_rate(client, server, seed)
            v["big_prefill"] = prefill_rate(client, server, 250, seed)
    return v


def measure(engine, client, model, figures, method, seed):
    if method == "server":
        return by_server(engine, client, model, figures, seed)
    return ours(engine, model, figures) if isinstance(engine, Ours) else rival(engine, model, figures)
