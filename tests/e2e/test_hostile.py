"""Hostile outputs among normal ones through the real verifier: each gets an answer in bounded time,
and the normal ones do not wait for it. Latency is what the other side of the sockets sees, so it
holds what megabytes on the same connection cost: "bytes" is that alone, the same frames for a route
that has no checks."""

import json
import os
import threading
import time

from system import SLOW
from test_verifier import Wire, output

RULES = """\
loop: {{outputs: '{outputs}', scores: '{scores}'}}
verifier: {{id: v1, port: {port}, threads: 2, max_queue: 1024}}
routes:
  - name: default
    checks:
      - {{id: words, kind: length, unit: words, min: 1}}
      - {{id: catastrophe, kind: regex, pattern: '^(a+)+$'}}
      - {{id: backtracks, kind: regex, pattern: '(a+)\\1b'}}
      - {{id: json, kind: json, mode: embedded}}
      - {{id: schema, kind: json_schema, mode: embedded,
          schema: {{type: array, items: {{type: string, pattern: '^(a|aa)+$'}}}}}}
      - {{id: loops, kind: repetition}}
      - {{id: number, kind: number}}
      - {{id: math, kind: math}}
      - {{id: refusal, kind: refusal}}
      - {{id: language, kind: language, allow: [en]}}
"""
MIB = 1 << 20
NORMAL = "We add 12 apples and 30 pears, which makes [\"a\"] and so 42.\nThe answer is 42."
PACE_S, N_NORMAL, HOSTILE_EVERY = 0.01, 200, 8
ROUNDS = int(os.environ.get("MILEPOST_TEST_ROUNDS", "1"))

HOSTILE = {
    "ten megabytes": lambda: "The quick brown fox said: no. " * (10 * MIB // 30),
    "four megabytes": lambda: "The quick brown fox, 12 of them. " * (3900000 // 33),
    "one letter": lambda: "a" * (3 * MIB) + "!",
    "short catastrophe": lambda: "a" * 60000 + "!",
    "strings": lambda: json.dumps(["a" * 500 + "!"] * 400),
    "brackets": lambda: "[" * 100000,
    "objects": lambda: '{"a":' * 100000,
    "boxes": lambda: "\\boxed{" * 100000,
    "fractions": lambda: "\\frac{1}{" * 50000,
    "digits": lambda: "9" * MIB,
    "zeros": lambda: "\0" * (MIB // 2),
}


def frames():
    """Encoded beforehand; the bytes of the last are no UTF-8."""
    made = [output(0, make(), reference=77) for make in HOSTILE.values()]
    made = [json.dumps({**m, "token_ids": [], "logprobs": []}) for m in made]
    broken = json.dumps({**output(0, "broken @", reference=77), "token_ids": [], "logprobs": []})
    return [m.encode() for m in made] + [broken.encode().replace(b"@", b"\xff\xc3\xed\xa0\x80" * 1000)]


def numbered(frame, seq):
    return frame.replace(b'"seq": 0', b'"seq": %d' % seq, 1)


def drive(wire, hostile):
    """Latencies of the normal outputs, sorted; {hostile seq: seconds}."""
    sent, got = {}, {}
    normal = json.dumps(output(0, NORMAL, reference=42)).encode()
    n_hostile = N_NORMAL // HOSTILE_EVERY if hostile else 0
    done = threading.Event()

    def pull():
        while not done.is_set():
            if wire.controller.poll(50):
                now = time.monotonic()  # before the reading of what may be megabytes
                score = wire.controller.recv()
                head = json.loads(score[:score.index(b',"output":')] + b"}")
                got[head["seq"]] = (now, head)

    reader = threading.Thread(target=pull)
    reader.start()
    for i in range(N_NORMAL):
        if hostile and i % HOSTILE_EVERY == 0:
            k = i // HOSTILE_EVERY
            frame = numbered(hostile[k % len(hostile)], 100000 + k)
            wire.engine.send(frame)
            sent[100000 + k] = time.monotonic()
        wire.engine.send(numbered(normal, i + 1))
        sent[i + 1] = time.monotonic()
        time.sleep(PACE_S)
    # No engine sends these two, so they are dropped and counted: no key can be read.
    dropped = sum(1 for k in range(n_hostile) if k % len(hostile) in (0, len(hostile) - 1))
    deadline = time.monotonic() + 60 * SLOW
    while len(got) < len(sent) - dropped and time.monotonic() < deadline:
        time.sleep(0.02)
    done.set()
    reader.join()
    times = {seq: got[seq][0] - at for seq, at in sent.items() if seq in got}
    assert all(i + 1 in times for i in range(N_NORMAL)), "a normal output has no score"
    for seq in times:
        assert seq > N_NORMAL or got[seq][1]["reward"] > 0.5, got[seq][1]
    return sorted(times[i + 1] for i in range(N_NORMAL)), {s: t for s, t in times.items()
                                                           if s > N_NORMAL}


def quantile(values, q):
    return values[int(q * (len(values) - 1))]


def test_normal_outputs_do_not_wait(folder):
    wire = Wire(folder, RULES)
    try:
        hostile = frames()
        unchecked = [f.replace(b'"default"', b'"nothing"') for f in hostile]
        drive(wire, None)  # connections, caches
        alone, carried, among, slowest = [], [], [], {}
        for _ in range(ROUNDS):
            alone += drive(wire, None)[0]
            carried += drive(wire, unchecked)[0]
            times, of_hostile = drive(wire, hostile)
            among += times
            slowest = {s: max(t, slowest.get(s, 0)) for s, t in of_hostile.items()}
        for name, times in (("alone", alone), ("bytes", carried), ("hostile", among)):
            times.sort()
            print("normal outputs, %-7s p50 %5.2f p90 %5.2f p99 %5.2f max %5.2f ms" % (
                name, *(1000 * quantile(times, q) for q in (.5, .9, .99, 1))))
        print("slowest hostile %.0f ms of %d answered" % (1000 * max(slowest.values()), len(slowest)))
        assert quantile(among, .5) < 2 * quantile(alone, .5) + 0.02 * SLOW
        assert quantile(among, .9) < 2 * quantile(carried, .9) + 0.1 * SLOW
        kinds = {(seq - 100000) % (len(HOSTILE) + 1) for seq in slowest}
        assert len(kinds) == len(HOSTILE) - 1 and max(slowest.values()) < 30 * SLOW
        assert wire.process.poll() is None
    finally:
        wire.close()
