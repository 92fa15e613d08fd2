"""Hostile outputs beside normal ones through the real verifier: each gets an answer in bounded time,
and the normal ones do not wait for it. Two engines send, each a process with its own connection.
Latency is what the other side of the sockets sees, so it holds what moving megabytes costs two
cores: "bytes" is that alone, the same frames for a route that has no checks."""

import json
import multiprocessing
import os
import threading
import time

import zmq

from system import SLOW, until
from test_verifier import Wire, output

RULES = """\
loop: {{outputs: '{outputs},{hostile}', scores: '{scores}'}}
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
PACE_S, N_NORMAL, HOSTILE_EVERY, HEAD_MAX_BYTES = 0.01, 200, 8, 1 << 16
N_HOSTILE = N_NORMAL // HOSTILE_EVERY
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
N_KINDS = len(HOSTILE) + 1  # and one that is no UTF-8


def frames():
    """Encoded beforehand; the bytes of the last are no UTF-8."""
    made = [output(0, make(), reference=77) for make in HOSTILE.values()]
    made = [json.dumps({**m, "token_ids": [], "logprobs": []}) for m in made]
    broken = json.dumps({**output(0, "broken @", reference=77), "token_ids": [], "logprobs": []})
    return [m.encode() for m in made] + [broken.encode().replace(b"@", b"\xff\xc3\xed\xa0\x80" * 1000)]


def numbered(frame, seq):
    return frame.replace(b'"seq": 0', b'"seq": %d' % seq, 1)


def feed(address, pipe):
    """A process of its own, as an engine is, and as if on another machine: it takes only what the
    cores have left. Sends its outputs at the given times until told to end; answers with
    {seq: when}. What it sends delays nobody but by the way it is treated."""
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    socket = zmq.Context().socket(zmq.PUSH)
    socket.bind(address)
    made = {True: frames()}
    made[False] = [f.replace(b'"default"', b'"nothing"') for f in made[True]]
    pipe.send("ready")
    for is_checked, start in iter(pipe.recv, None):
        sent = {}
        for k in range(N_HOSTILE):
            time.sleep(max(0, start + k * HOSTILE_EVERY * PACE_S - time.monotonic()))
            socket.send(numbered(made[is_checked][k % len(made[is_checked])], 100000 + k))
            sent[100000 + k] = time.monotonic()
        pipe.send(sent)
    socket.close(linger=0)


class Feeder:
    def __init__(self, address):
        spawn = multiprocessing.get_context("spawn")
        self.pipe, other = spawn.Pipe()
        self.process = spawn.Process(target=feed, args=(address, other), daemon=True)
        self.process.start()
        assert self.pipe.poll(60 * SLOW) and self.pipe.recv() == "ready"

    def start(self, is_checked):
        self.pipe.send((is_checked, time.monotonic() + PACE_S / 2))

    def close(self):
        self.pipe.send(None)
        self.process.join(10 * SLOW)
        self.process.kill()


def pull(controller, got, done):
    """The head of each score and when it came, into `got`."""
    while not done.is_set():
        if controller.poll(50):
            now = time.monotonic()
            score = controller.recv(copy=False).buffer
            head = bytes(score[:HEAD_MAX_BYTES])
            head = json.loads(head[:head.index(b',"output":')] + b"}")
            got[head["seq"]] = (now, head)


def drive(wire, feeder=None, is_checked=True):
    """Latencies of the normal outputs, sorted; {hostile seq: seconds}."""
    sent, got = {}, {}
    normal = json.dumps(output(0, NORMAL, reference=42)).encode()
    done = threading.Event()
    reader = threading.Thread(target=pull, args=(wire.controller, got, done))
    reader.start()
    if feeder:
        feeder.start(is_checked)
    for i in range(N_NORMAL):
        wire.engine.send(numbered(normal, i + 1))
        sent[i + 1] = time.monotonic()
        time.sleep(PACE_S)
    if feeder:
        sent.update(feeder.pipe.recv())
    # No engine sends these two, so they are dropped and counted: no key can be read.
    answered = {seq for seq in sent if seq <= N_NORMAL or (seq - 100000) % N_KINDS not in (0, N_KINDS - 1)}
    try:
        until(lambda: got.keys() >= answered, 60, "every output has a score")
    finally:
        print("no score:", answered - got.keys() or "none")
        done.set()
        reader.join()
    times = {seq: got[seq][0] - sent[seq] for seq in answered}
    for seq in times:
        assert seq > N_NORMAL or got[seq][1]["reward"] > 0.5, got[seq][1]
    return sorted(times[i + 1] for i in range(N_NORMAL)), {s: t for s, t in times.items()
                                                           if s > N_NORMAL}


def quantile(values, q):
    return values[int(q * (len(values) - 1))]


def test_normal_outputs_do_not_wait(folder):
    wire = Wire(folder, RULES, hostile=f"ipc://{folder}/hostile.sock")
    feeder = Feeder(f"ipc://{folder}/hostile.sock")
    try:
        drive(wire)  # connections, caches
        alone, carried, among, slowest = [], [], [], {}
        for _ in range(ROUNDS):
            alone += drive(wire)[0]
            carried += drive(wire, feeder, is_checked=False)[0]
            times, of_hostile = drive(wire, feeder)
            among += times
            slowest = {s: max(t, slowest.get(s, 0)) for s, t in of_hostile.items()}
        for name, times in (("alone", alone), ("bytes", carried), ("hostile", among)):
            times.sort()
            print("normal outputs, %-7s p50 %5.2f p90 %5.2f p99 %5.2f max %5.2f ms" % (
                name, *(1000 * quantile(times, q) for q in (.5, .9, .99, 1))))
        print("slowest hostile %.0f ms of %d answered" % (1000 * max(slowest.values()), len(slowest)))
        assert quantile(among, .5) < 2 * quantile(alone, .5) + 0.02 * SLOW
        assert quantile(among, .9) < 2 * quantile(carried, .9) + 0.1 * SLOW
        kinds = {(seq - 100000) % N_KINDS for seq in slowest}
        assert len(kinds) == N_KINDS - 2 and max(slowest.values()) < 30 * SLOW
        assert wire.process.poll() is None
    finally:
        feeder.close()
        wire.close()
