"""Tokens per second with the whole loop on against an engine alone (loop.enabled: false).

Two systems run side by side, one idle while the other is measured; rounds alternate in ABBA order,
so that a drift of the machine hits both. Prints each round, the median ratio and its 95% interval
(order statistics); exit 1 when the median is below the gate of 0.97. On a machine that others use
the interval says how little the median means.

  MILEPOST_BIN=build/release/bin python3 tests/bench/loop_overhead.py --model FILE [--rounds 20]
"""

import argparse
import json
import os
import platform
import shutil
import statistics
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
from system import CONFIG, System, until  # noqa: E402

GATE = 0.97


def measure(system, clients, per_client, max_tokens, seed):
    """Tokens per second of clients x per_client requests, each of exactly max_tokens tokens."""
    tokens, errors = [], []

    def work(client):
        for i in range(per_client):
            status, _, body = system.chat(
                "Write a long story about a lighthouse keeper.", seed=seed * 1000 + client * 50 + i,
                temperature=0.8, max_tokens=max_tokens, ignore_eos=True, timeout=300)
            if status == 200:
                tokens.append(body["usage"]["completion_tokens"])
            else:
                errors.append((status, body))

    threads = [threading.Thread(target=work, args=(c,)) for c in range(clients)]
    started = time.monotonic()
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors, errors[:2]
    return sum(tokens) / (time.monotonic() - started)


def interval(values):
    """Distribution-free 95% interval of the median."""
    ordered, n = sorted(values), len(values)
    k = max(0, int(n / 2 - 0.98 * n ** 0.5))
    return ordered[k], ordered[n - 1 - k]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", required=True)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--per-client", type=int, default=8)
    parser.add_argument("--max-tokens", type=int, default=48)
    parser.add_argument("--json", action="store_true")
    a = parser.parse_args()
    folders = [tempfile.mkdtemp(prefix="mp") for _ in range(2)]
    systems = [System(folders[0], a.model),
               System(folders[1], a.model, CONFIG.replace("loop:\n", "loop:\n  enabled: false\n"))]
    rates = {"loop": [], "alone": []}
    try:
        systems[0].start()
        systems[1].start("engine")
        for s in systems:
            measure(s, a.clients, 1, a.max_tokens, 0)
        for number in range(a.rounds):
            order = ("loop", "alone") if number % 2 == 0 else ("alone", "loop")
            for name in order:
                s = systems[0] if name == "loop" else systems[1]
                rates[name].append(measure(s, a.clients, a.per_client, a.max_tokens, number + 1))
            print(f"round {number + 1}: loop {rates['loop'][-1]:.1f} tok/s, "
                  f"alone {rates['alone'][-1]:.1f} tok/s", flush=True)
        wanted = a.clients * (1 + a.rounds * a.per_client)
        until(lambda: systems[0].count_outputs() == wanted, 60, f"{wanted} outputs are stored")
    finally:
        for s in systems:
            s.stop()
        for f in folders:
            shutil.rmtree(f, ignore_errors=True)
    ratios = [x / y for x, y in zip(rates["loop"], rates["alone"])]
    ratio = statistics.median(ratios)
    result = {"machine": platform.processor() or platform.machine(), "cores": os.cpu_count(),
              "loop_tok_s": statistics.median(rates["loop"]),
              "alone_tok_s": statistics.median(rates["alone"]), "median_ratio": ratio,
              "interval": interval(ratios), "rounds": a.rounds, "gate": GATE}
    print(json.dumps(result) if a.json else
          f"median ratio {ratio:.3f} (gate {GATE}), 95% {interval(ratios)[0]:.3f} to "
          f"{interval(ratios)[1]:.3f} "
          f"over {a.rounds} rounds on {result['cores']} cores")
    return 0 if ratio >= GATE else 1


if __name__ == "__main__":
    sys.exit(main())
