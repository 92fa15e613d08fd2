"""Figures 4, 5 and 6: through the servers' own HTTP, with `milepost bench serve` as the client of
both. Client and server share the two cores, as on a small machine."""

import subprocess
import sys
import time

CLIENTS, PREFIX, OUTPUT = 16, 400, 64
IDLE_S, LOGPROBS = 4, '{"logprobs":true,"top_logprobs":5}'


def cold_and_warm(client, server, seed):
    """16 clients at once ask with a system prompt nobody has seen, then again and again."""
    load = ("--clients", CLIENTS, "--shared-prefix", PREFIX, "--prefix-seed", seed, "--prompt", 30,
            "--output", OUTPUT)
    cold = client.load(server, "-n", CLIENTS, "--seed", seed, *load)
    warm = client.load(server, "-n", 2 * CLIENTS, "--seed", seed + 1, *load)
    return {"cold_ttft_p95_ms": cold["ttft_ms"]["p95"], "cold_ttft_p50_ms": cold["ttft_ms"]["p50"],
            "warm_ttft_p95_ms": warm["ttft_ms"]["p95"],
            "warm_tok_s": warm["throughput"]["output_tok_s"],
            "shared_prompt_tokens": cold["tokens"]["prompt"] / CLIENTS}


def worst_gap(client, server, seed):
    """Four running streams; long prompts arrive beside them."""
    streams = client.load(server, "-n", 4, "--clients", 4, "--prompt", 10, "--output", 400,
                          "--seed", seed, start_only=True)
    time.sleep(0.5)
    client.load(server, "-n", 6, "--rate", 4, "--prompt", 500, "--output", 4, "--seed", seed + 1)
    r = client.result(streams)
    return {"worst_gap_ms": r["itl_ms"]["max"], "gap_p99_ms": r["itl_ms"]["p99"]}


def token_ms(client, server, seed, *more):
    r = client.load(server, "-n", 3, "--prompt", 8, "--output", 128, "--seed", seed, *more)
    return r["tpot_ms"]["p50"]


def logprobs_cost(client, server, seed):
    plain, asked = [], []
    for i in range(2):
        plain.append(token_ms(client, server, seed + i))
        asked.append(token_ms(client, server, seed + i, "--extra", LOGPROBS))
    return {"logprobs_ms": min(asked) - min(plain), "served_decode_tok_s": 1e3 / min(plain)}


def neighbour(client, server, cores, seed):
    """Share of the decode rate that is left beside a process that never sleeps."""
    alone = token_ms(client, server, seed)
    spin = subprocess.Popen(["taskset", "-c", ",".join(map(str, cores)), sys.executable, "-c",
                             "while True: pass"])
    try:
        time.sleep(0.2)
        beside = token_ms(client, server, seed)
    finally:
        spin.kill()
        spin.wait()
    return {"neighbour_kept": alone / beside}


def idle(server):
    before = server.cpu_s()
    time.sleep(IDLE_S)
    return {"idle_cpu_ms_s": (server.cpu_s() - before) / IDLE_S * 1e3}


def many_slots(engine, client, model, figures, seed):
    with engine.serve(model, CLIENTS) as server:
        v = {}
        if 4 in figures or 6 in figures:
            v |= cold_and_warm(client, server, seed)
            v["memory_16_mb"] = server.peak_mb()
        if 5 in figures:
            v |= worst_gap(client, server, seed + 2)
        return v


def one_slot(engine, client, model, seed, with_limits):
    with engine.serve(model, 1) as server:
        v = {"start_s": server.start_s}
        if with_limits:
            v |= logprobs_cost(client, server, seed)
            v |= neighbour(client, server, engine.cores, seed)
            v |= idle(server)
        else:
            token_ms(client, server, seed)
        v["memory_1_mb"] = server.peak_mb()
        return v


def measure(engine, client, model, figures, seed, with_limits):
    """with_limits: also what is judged for ours alone, not as a ratio (figure 5, parts of 6)."""
    v = {}
    if not with_limits:
        figures = figures - {5}
    if figures & {4, 5, 6}:
        v |= many_slots(engine, client, model, figures, seed)
    if 6 in figures:
        v |= one_slot(engine, client, model, seed, with_limits)
    return v
