"""The verifier process alone, between two pyzmq sockets: an engine that pushes outputs and a
controller that pulls scores. Nothing of ours on the other side of the wire."""

import json
import os
import signal
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
import zmq

from system import BIN, SLOW, free_ports, until

ROOT = Path(__file__).resolve().parents[2]
WAIT_MS = int(10000 * SLOW)

CONFIG = """\
loop:
  outputs: {outputs}
  scores: {scores}
verifier: {{id: v1, port: {port}, threads: 2, max_queue: 64}}
routes:
  - name: default
    checks:
      - {{id: finished, kind: finish_reason, gate: true}}
      - {{id: sum, kind: number, when: {{kind: sum}}}}
      - {{id: form, kind: json, when: {{kind: json}}, mode: embedded, compare: true, partial: true}}
      - {{id: pattern, kind: regex, when: {{kind: regex}}, pattern: '^(a|aa)+$'}}
"""


class Wire:
    """Both ends of one verifier, and the process."""

    def __init__(self, folder, config=CONFIG, **values):
        self.folder = Path(folder)
        self.context = zmq.Context()
        self.engine = self.context.socket(zmq.PUSH)
        self.controller = self.context.socket(zmq.PULL)
        self.addresses = {"outputs": f"ipc://{folder}/o.sock", "scores": f"ipc://{folder}/s.sock"}
        self.engine.bind(self.addresses["outputs"])
        self.controller.bind(self.addresses["scores"])
        self.port = free_ports(1)[0]
        config = config.format(port=self.port, **self.addresses, **values)
        (self.folder / "v.yaml").write_text(config)
        self.process = None
        self.start()

    def start(self):
        log = open(self.folder / "verifier.log", "ab")
        self.process = subprocess.Popen([BIN / "milepost-verifier", "--config",
                                         str(self.folder / "v.yaml")], stderr=log)
        until(self.is_healthy, 20, "the verifier answers /health")

    def is_healthy(self):
        """The port is the last thing that a verifier opens: a score may come before it."""
        assert self.process.poll() is None, (self.folder / "verifier.log").read_text()
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health", timeout=10):
                return True
        except urllib.error.URLError:
            return False

    def send(self, frame, timeout_ms=WAIT_MS):
        """False when nobody takes it in time."""
        data = frame if isinstance(frame, bytes) else json.dumps(frame).encode()
        if not self.engine.poll(timeout_ms, zmq.POLLOUT):
            return False
        self.engine.send(data)
        return True

    def receive(self, timeout_ms=WAIT_MS):
        return json.loads(self.controller.recv()) if self.controller.poll(timeout_ms) else None

    def score(self, frame):
        assert self.send(frame)
        message = self.receive()
        assert message is not None, (self.folder / "verifier.log").read_text()
        return message

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.context.destroy(linger=0)


@pytest.fixture
def wire(folder):
    w = Wire(folder)
    yield w
    w.close()


def output(seq, text, finish="stop", **metadata):
    message = json.loads(next((ROOT / "schemas/examples/valid/output").glob("*.json")).read_text())
    message.update(engine="e1", epoch=7, seq=seq, request_id=f"r{seq}", choice=0, route="default",
                   text=text, finish_reason=finish, metadata=metadata)
    return message


def by_id(score):
    return {c["id"]: c for c in score["checks"]}


def test_scores_are_right_and_carry_the_output(wire):
    sent = output(1, "2 + 3 = 5", kind="sum", reference=5)
    score = wire.score(sent)
    assert (score["schema"], score["verifier"], score["engine"]) == ("milepost.score.v1", "v1", "e1")
    assert (score["epoch"], score["seq"], score["request_id"]) == (7, 1, "r1")
    assert score["reward"] == 1 and set(by_id(score)) == {"finished", "sum"}
    assert score["output"] == sent
    assert wire.score(output(2, "5.1", kind="sum", reference=5))["reward"] == 0
    half = wire.score(output(3, 'So: {"a": 1, "b": 3}', kind="json", reference={"a": 1, "b": 2}))
    assert half["reward"] == 0.5 and by_id(half)["form"]["outcome"] == "value"
    assert wire.score(output(4, "5", "length", kind="sum", reference=5))["reward"] == 0


def test_unscored_is_not_zero(wire):
    for frame, reason in [
        (output(1, "5", kind="sum"), "no_reference"),
        (output(2, "5", "cancelled", kind="sum", reference=5), "cancelled"),
        ({**output(3, "5"), "route": "gone"}, "unknown_route"),
        ({**output(4, "5"), "text": 5}, "malformed"),
    ]:
        score = wire.score(frame)
        assert "reward" not in score and score["reason"] == reason, score


def test_feedback_passes_unchanged(wire):
    frame = {"schema": "milepost.feedback.v1", "engine": "e1", "epoch": 7, "seq": 5,
             "request_id": "r1", "value": 1.0, "created_us": 3}
    assert wire.score(frame) == frame


def test_health_and_metrics(wire):
    wire.score(output(1, "5", kind="sum", reference=5))
    wire.score(output(2, "6", kind="sum", reference=5))
    wire.score(output(3, "6", kind="sum"))
    assert wire.send(b"junk")
    wire.score(output(4, "5", kind="sum", reference=5))
    with urllib.request.urlopen(f"http://127.0.0.1:{wire.port}/health", timeout=10) as answer:
        assert json.loads(answer.read())["status"] == "ok"
    with urllib.request.urlopen(f"http://127.0.0.1:{wire.port}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    for line in ['milepost_scores_total{outcome="pass"} 2', 'milepost_scores_total{outcome="fail"} 1',
                 'milepost_scores_total{outcome="unscored"} 1', "milepost_verify_received_total 5",
                 'milepost_verify_dropped_total{reason="malformed"} 1',
                 'milepost_checks_total{kind="number",outcome="unscored"} 1',
                 'milepost_verify_unscored_total{reason="no_reference"} 1',
                 'milepost_verify_duration_seconds_count{kind="number"} 4',
                 "milepost_verify_sent_total 4", "milepost_queue_depth 0"]:
        assert line in lines, "\n".join(lines)


def test_hostile_frames_hold_nobody_up(wire):
    junk = [b"", b"{", b"\xff\xfe", b"[" * 100000, b'{"schema":"milepost.output.v9"}', os.urandom(4096)]
    for frame in junk:
        assert wire.send(frame)
    assert wire.send(output(1, "a" * 200000 + "!", kind="regex"))
    assert wire.send(output(2, "[" * 100000, kind="json", reference={}))
    assert wire.send(output(3, "5", kind="sum", reference=5))
    start = time.monotonic()
    rewards = {s["seq"]: s.get("reward") for s in (wire.receive() for _ in range(3))}
    assert rewards == {1: 0, 2: 0, 3: 1}
    assert time.monotonic() - start < 5 * SLOW
    assert wire.receive(100) is None and wire.process.poll() is None


def ask(wire, body, query="", key=None):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{wire.port}/score{query}", data,
                                     {"Content-Type": "application/json",
                                      **({"Authorization": f"Bearer {key}"} if key else {})})
    try:
        with urllib.request.urlopen(request, timeout=30 * SLOW) as answer:
            assert answer.headers["Content-Type"] == "application/json"
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as e:
        return e.code, json.loads(e.read())


def test_reward_server(wire):
    """As remote_rm of Miles and slime calls it: prompt, response, label; the body is the reward. It
    needs nobody at the other sockets."""
    wire.score(output(1, "5", kind="sum", reference=5))
    sum_of = {"prompt": "2+3?", "metadata": {"kind": "sum"}}
    assert ask(wire, {**sum_of, "response": "It is 5", "label": 5}) == (200, 1)
    assert ask(wire, {**sum_of, "response": "It is 6", "label": "5"}) == (200, 0)
    chat = [{"role": "user", "content": "2+3?"}]
    assert ask(wire, {**sum_of, "prompt": chat, "response": "5", "label": 5}) == (200, 1)
    batch = [{**sum_of, "response": r, "label": l} for r, l in (("5", 5), ("6", 5), ("7", None))]
    assert ask(wire, batch) == (200, [1, 0, None])
    assert ask(wire, []) == (200, [])
    many = [{**sum_of, "response": str(i), "label": 5} for i in range(200)]
    assert ask(wire, many)[1] == [1 if i == 5 else 0 for i in range(200)]
    status, body = ask(wire, {**sum_of, "response": "7"})
    assert status == 422 and "no_reference" in body["error"]["message"]
    status, body = ask(wire, {**sum_of, "response": "6", "label": 5}, "?route=default&detail=1")
    assert (status, body["reward"]) == (200, 0) and len(body["version"]) == 64
    assert {c["id"]: c["outcome"] for c in body["checks"]} == {"finished": "pass", "sum": "fail"}
    assert ask(wire, {**sum_of, "response": "5"}, "?route=gone")[0] == 404
    for bad in (b"", b"{", b"7", {"prompt": "x"}, {"response": 5}, [{"response": "x"}, 5],
                {"response": "x", "metadata": []}, {"response": "x", "prompt": [1]}):
        assert ask(wire, bad)[0] == 400, bad
    assert wire.receive(100) is None  # nothing of it reaches the controller


def test_reward_server_with_a_key(folder):
    (Path(folder) / "key").write_text("secret\n")
    config = CONFIG.replace("max_queue: 64", "max_queue: 64, api_key_file: " + folder + "/key")
    wire = Wire(folder, config)
    try:
        body = {"prompt": "2+3?", "response": "5", "label": 5, "metadata": {"kind": "sum"}}
        wire.score(output(1, "5", kind="sum", reference=5))
        assert ask(wire, body)[0] == 401
        assert ask(wire, body, key="wrong")[0] == 401
        assert ask(wire, body, key="secret") == (200, 1)
        with urllib.request.urlopen(f"http://127.0.0.1:{wire.port}/health", timeout=10) as answer:
            assert answer.status == 200
    finally:
        wire.close()


def test_sigterm_sends_what_is_held_and_exits_cleanly(wire):
    wire.score(output(1, "1", kind="sum", reference=1))
    for seq in range(2, 32):
        assert wire.send(output(seq, "1", kind="sum", reference=1))
    time.sleep(0.3)
    wire.process.send_signal(signal.SIGTERM)
    assert wire.process.wait(timeout=10 * SLOW) == 0
    assert {wire.receive()["seq"] for _ in range(2, 32)} == set(range(2, 32))


def test_killed_and_started_again(wire):
    """What the dead one held is lost here, so send again until it is answered, as the outbox does."""
    for round_number in range(1, 7):
        seqs = set(range(10 * round_number, 10 * round_number + 10))
        for seq in seqs:
            assert wire.send(output(seq, "1", kind="sum", reference=1))
        wire.process.kill()
        wire.process.wait()
        wire.start()
        deadline = time.monotonic() + 20 * SLOW
        while seqs and time.monotonic() < deadline:
            for seq in seqs:
                assert wire.send(output(seq, "1", kind="sum", reference=1))
            while (score := wire.receive(300)) is not None:
                assert score["reward"] == 1
                seqs.discard(score["seq"])
        assert not seqs


def test_back_pressure_without_a_controller(wire):
    wire.score(output(1, "1", kind="sum", reference=1))
    address = wire.addresses["scores"]
    wire.controller.close(linger=0)
    sent, text = 0, "1" + " " * 100000
    while sent < 20000 and wire.send(output(sent + 2, text, kind="sum", reference=1), 1000):
        sent += 1
    assert 0 < sent < 20000
    wire.controller = wire.context.socket(zmq.PULL)
    wire.controller.bind(address)
    seen = {wire.receive()["seq"] for _ in range(100)}
    assert len(seen) == 100


@pytest.mark.parametrize("line, words", [
    ("kind: lenght", "kind: found 'lenght', allowed: length"),
    ("kind: regex, pattern: '('", "missing closing parenthesis"),
    ("kind: json, mod: strict", "unknown key 'mod'; known here: mode, keys"),
    ("kind: length, max: -1", "max"),
    ("kind: finish_reason, allow: [done]", "allowed: stop, length"),
])
def test_check_config_names_the_place(folder, line, words):
    path = Path(folder) / "v.yaml"
    path.write_text("routes:\n  - name: r\n    checks:\n      - {id: c, " + line + "}\n")
    done = subprocess.run([BIN / "milepost-verifier", "--config", str(path), "--check-config"],
                          capture_output=True, text=True, timeout=30)
    assert done.returncode == 2
    assert "routes[r].checks[0] (c)" in done.stderr and words in done.stderr, done.stderr
