"""Tokens per second of one stream, and of several, with tokens guessed ahead and without
(engine.draft_tokens), by what is asked for.

Two engines run side by side, one idle while the other is measured; rounds alternate in ABBA order.
Prints for each kind of request the median and range of the ratios. Exit 1 when an answer differs,
or when a kind that repeats nothing loses more than a tenth: a guess must cost little.

  MILEPOST_BIN=build/release/bin python3 tests/bench/drafts.py --model FILE [--rounds 6] [--json]

--set KEY=VALUE reaches both engines.
"""

import argparse
import concurrent.futures
import json
import os
import platform
import shutil
import statistics
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
from system import CONFIG, System  # noqa: E402

TEXT = """The harbour of Lindau lies on an island in the eastern part of Lake Constance. A lion made \
of Bavarian marble and a lighthouse of thirty-six metres guard its entrance. In summer the white \
ships of the lake leave every hour for Bregenz, Rorschach and Friedrichshafen. Fishermen sell \
whitefish in the morning, and in the afternoon children jump from the pier into the water."""
CODE = """def area(shape):
    if shape.kind == 'circle':
        return 3.14159 * shape.radius * shape.radius
    if shape.kind == 'square':
        return shape.side * shape.side
    if shape.kind == 'rectangle':
        return shape.width * shape.height
    raise ValueError('unknown shape ' + shape.kind)
"""
KINDS = {
    "repeat a text": ["Repeat the following text exactly, word for word:\n\n" + TEXT],
    "edit code": ["Add a docstring to this Python function and print it again:\n\n" + CODE,
                  "Rewrite this function in a shorter way:\n\n" + CODE],
    "summarise": ["Summarise this text in three sentences:\n\n" + TEXT],
    "answer": ["What can a tourist see in Paris in two days?", "Explain how a bicycle stays upright.",
               "Write a short story about a dragon who is afraid of the dark.",
               "How do I bake bread? Give me numbered steps."],
}
REPEATS_NOTHING = "answer"
LEAST = 0.9


def run(system, prompts, clients, seed, max_tokens):
    """Texts, and tokens per second, of 2 requests a client."""
    def one(i):
        status, _, body = system.chat(prompts[i % len(prompts)], seed=seed * 100 + i, timeout=300,
                                      temperature=0.7 * (i % 2), max_tokens=max_tokens)
        assert status == 200, body
        return body["choices"][0]["message"]["content"], body["usage"]["completion_tokens"]

    started = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(clients) as pool:
        done = list(pool.map(one, range(2 * max(clients, len(prompts)))))
    return [d[0] for d in done], sum(d[1] for d in done) / (time.monotonic() - started)


def round_of(systems, number, cases, max_tokens, rates):
    for kind, clients in cases:
        texts = {}
        for name in ("off", "on") if number % 2 else ("on", "off"):
            texts[name], rate = run(systems[name], KINDS[kind], clients, number, max_tokens)
            rates[kind, clients, name].append(rate)
        if texts["on"] != texts["off"]:
            sys.exit(f"drafts: {kind}, {clients} streams: an answer differs")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", required=True)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--max-tokens", type=int, default=200)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    a = parser.parse_args()
    cases = [(kind, clients) for clients in (1, 4) for kind in KINDS]
    rates = {(*case, name): [] for case in cases for name in ("on", "off")}
    folders = [tempfile.mkdtemp(prefix="mp") for _ in range(2)]
    config = CONFIG.replace("loop:\n", "loop:\n  enabled: false\n")
    systems = dict(zip(("on", "off"), (System(f, a.model, config) for f in folders)))
    try:
        extra = [word for value in a.set for word in ("--set", value)]
        systems["on"].start("engine", extra=extra)
        systems["off"].start("engine", extra=[*extra, "--set", "engine.draft_tokens=0"])
        for number in range(a.rounds + 1):
            round_of(systems, number, cases, a.max_tokens, rates)
            print(f"round {number} of {a.rounds}", file=sys.stderr, flush=True)
    finally:
        for s, f in zip(systems.values(), folders):
            s.stop()
            shutil.rmtree(f, ignore_errors=True)
    rows = []
    for kind, clients in cases:
        on, off = (rates[kind, clients, n][1:] for n in ("on", "off"))  # the first one warms up
        ratios = sorted(x / y for x, y in zip(on, off))
        rows.append({"kind": kind, "streams": clients, "ratio": statistics.median(ratios),
                     "range": [ratios[0], ratios[-1]], "tok_s": statistics.median(on)})
    if a.json:
        print(json.dumps({"machine": platform.processor() or platform.machine(),
                          "cores": os.cpu_count(), "rounds": a.rounds, "rows": rows}))
    for r in [] if a.json else rows:
        print(f"{r['kind']:14} streams {r['streams']}: {r['ratio']:.2f} times ({r['range'][0]:.2f} "
              f"to {r['range'][1]:.2f}), {r['tok_s']:.0f} tokens/s")
    return 0 if all(r["ratio"] > LEAST for r in rows if r["kind"] == REPEATS_NOTHING) else 1


if __name__ == "__main__":
    sys.exit(main())
