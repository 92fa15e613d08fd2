"""Webhooks and datasets: a real controller, the example receiver as a process of its own, and the
faults between them. Whatever fails, every decision that was committed arrives, under one id."""

import base64
import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import jsonschema
import pytest

from checks import replay_agrees
from injector import CONFIG, Injector
from system import BIN, SLOW, System, free_ports, until

ROOT = Path(__file__).resolve().parents[2]
RECEIVER = ROOT / "deploy" / "webhook_receiver.py"
KEY = base64.b64encode(b"a secret of 32 bytes, not guessed").decode()
class Receiver:
    def __init__(self, folder, port):
        self.folder, self.port = Path(folder), port
        (self.folder / "secret").write_text("whsec_" + KEY + "\n")
        self.process = None

    def start(self, *more):
        self.process = subprocess.Popen(
            [sys.executable, RECEIVER, "--port", str(self.port), "--secret-file",
             self.folder / "secret", "--output", self.folder / "events", *more])
        until(self.listens, 20, "the receiver listens")
        return self

    def listens(self):
        with socket.socket() as s:
            return s.connect_ex(("127.0.0.1", self.port)) == 0

    def stop(self):
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process = None

    def events(self):
        try:
            lines = (self.folder / "events").read_text().splitlines()
        except OSError:
            return []
        events = [json.loads(line) for line in lines if line.endswith("}")]
        for event in events:
            check("webhook", event)
            if "decision" in event:
                check("decision", event["decision"])
        return events


def check(name, document):
    schema = json.loads((ROOT / "schemas" / f"{name}.schema.json").read_text())
    jsonschema.Draft202012Validator(schema).validate(document)


@pytest.fixture
def place(folder):
    hook, dead = free_ports(2)
    config = CONFIG.replace("database: controller.db}}", "database: controller.db, webhooks: [\n" +
                            "".join(f"    {{{{{item}}}}},\n" for item in (
                                'name: ops, url: "http://127.0.0.1:{hook}/", secret_file: '
                                '{folder}/secret, retry_ms: 50, timeout_ms: 2000, '
                                'events: [hold, resume, finetune]',
                                'name: dead, url: "http://127.0.0.1:{dead}/", retry_ms: 50, '
                                'events: [all]')) + "  ]}}")
    system = System(folder, "/dev/null", config=config, hook=hook, dead=dead)
    receiver = Receiver(folder, hook)
    injector = Injector(folder, system=system)
    yield injector, receiver
    receiver.stop()
    injector.close()


def metric(system, name, webhook):
    text = system.get("controller", "/metrics")[2]
    line = next(x for x in text.splitlines() if x.startswith(f'{name}{{webhook="{webhook}"}}'))
    return float(line.split()[-1])


def wanted(system):
    return {"decision-" + seal[:32] for (seal,) in system.rows(
        "SELECT hash FROM decisions WHERE action IN ('hold', 'resume')")}


def arrived(receiver):
    ids = [e["id"] for e in receiver.events() if e["event"] != "finetune"]
    assert len(ids) == len(set(ids))
    return set(ids)


def turn(injector, number):
    status, answer = injector.post("/api/resume" if number % 2 else "/api/pause", timeout=20)
    assert status == 200, answer


def test_every_decision_arrives_under_one_id(place):
    injector, receiver = place
    system = injector.system
    system.start("controller")
    turn(injector, 0)  # nobody listens
    turn(injector, 1)
    until(lambda: metric(system, "milepost_webhook_retries_total", "ops") >= 2, 20, "it is tried")
    assert metric(system, "milepost_webhook_pending", "ops") == 2
    receiver.start("--refuse", "3")
    until(lambda: arrived(receiver) == wanted(system), 30, "both arrive after three refusals")
    until(lambda: metric(system, "milepost_webhook_pending", "ops") == 0, 20, "none waits")
    assert metric(system, "milepost_webhook_sent_total", "ops") == 2
    event, = [e for e in receiver.events() if e["event"] == "hold"]
    assert event["route"] == "default"
    assert event["decision"] == json.loads(
        system.rows("SELECT json FROM decisions WHERE action='hold'")[0][0])

    for number in range(2, 8):  # killed right after the answer: committed, perhaps not yet sent
        turn(injector, number)
        system.kill("controller", signal.SIGKILL)
        system.start("controller")
    until(lambda: arrived(receiver) == wanted(system), 30, "all arrive over six kills")
    assert len(wanted(system)) == 8
    assert system.rows("SELECT count(*) FROM notices WHERE webhook='dead' AND state=0")[0][0] >= 8
    replay_agrees(system)


def test_a_mark_that_was_lost_is_a_repetition_of_the_same_id(place):
    """The receiver has kept the event, the controller dies before it hears so: sent again."""
    injector, receiver = place
    system = injector.system
    receiver.start("--delay", "1")
    system.start("controller")
    turn(injector, 0)
    until(lambda: arrived(receiver) == wanted(system), 20, "it is kept")
    system.kill("controller", signal.SIGKILL)
    assert system.rows("SELECT state FROM notices WHERE webhook='ops'") == [(0,)]
    system.start("controller")
    until(lambda: system.rows("SELECT state FROM notices WHERE webhook='ops'") == [(1,)], 20,
          "it is marked as sent")
    assert len(receiver.events()) == 1


def test_a_dead_receiver_costs_the_loop_nothing(place):
    injector, receiver = place
    system = injector.system
    hang = Receiver(injector.system.folder, receiver.port).start("--delay", "30")
    try:
        system.start("controller")
        turn(injector, 0)
        turn(injector, 1)
        until(lambda: system.rows("SELECT count(*) FROM notices WHERE attempts>0")[0][0], 20, "")
        began = time.monotonic()
        injector.send_and_wait(injector.frames(2000, None, lambda _: 0.7))
        assert time.monotonic() - began < 10 * SLOW
        slowest = 0.0
        for number in range(2, 12):
            began = time.monotonic()
            turn(injector, number)
            slowest = max(slowest, time.monotonic() - began)
        assert slowest < 1 * SLOW, slowest
    finally:
        hang.stop()


def test_refused_is_given_up_and_a_wrong_secret_is_refused(place):
    injector, receiver = place
    system = injector.system
    receiver.start()
    (receiver.folder / "secret").write_text("another one\n")
    system.start("controller")  # signs with another key than the receiver checks
    turn(injector, 0)
    until(lambda: metric(system, "milepost_webhook_failed_total", "ops") == 1, 20, "given up")
    assert system.rows("SELECT state, attempts, answer FROM notices WHERE webhook='ops'") == [
        (2, 1, "status 401")]
    assert receiver.events() == []
    notices = system.get("controller", "/api/webhooks")[2]["notices"]
    assert [n["state"] for n in notices if n["webhook"] == "ops"] == ["given_up"]


def finetune(system, *more):
    return subprocess.run([BIN / "milepost", "finetune", "--json", "--config", system.config, *more],
                          capture_output=True, text=True, timeout=60 * SLOW)


def test_a_dataset_is_exported_and_told(place):
    injector, receiver = place
    system = injector.system
    receiver.start()
    system.start("controller")
    injector.send_and_wait(injector.frames(300, None, lambda _: 0.7))
    injector.send_and_wait(injector.frames(20, None, lambda _: None))
    done = finetune(system, "--since", "1h", "--scored", "--reason", "weekly")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    raw = Path(told["path"]).read_bytes()
    assert len(raw) == told["bytes"] and hashlib.sha256(raw).hexdigest() == told["sha256"]
    lines = [json.loads(line) for line in raw.splitlines()]
    assert len(lines) == told["outputs"] == 300
    assert (told["first_row"], told["last_row"]) == (lines[0]["row"], lines[-1]["row"])
    assert (told["first_revision"], told["last_revision"]) == (1, 1)
    event, = until(lambda: [e for e in receiver.events() if e["event"] == "finetune"], 20, "told")
    assert event["id"] == "dataset-" + told["id"] and event["route"] == "default"
    for key in ("path", "bytes", "sha256", "outputs", "first_row", "last_revision", "reason"):
        assert event["dataset"][key] == told[key]
    export = subprocess.run([BIN / "milepost", "export", "--scored", "--config", system.config],
                            capture_output=True, timeout=60 * SLOW, check=True)
    assert export.stdout == raw, "what 'milepost export' writes is something else"
    assert finetune(system, "--route", "nobody").returncode == 1


def test_a_dataset_outlives_a_kill(place):
    """Killed at any moment after the answer, a request still becomes one file and one event."""
    injector, receiver = place
    system = injector.system
    receiver.start()
    system.start("controller")
    injector.send_and_wait(injector.frames(500, None, lambda _: 0.7))
    ids = []
    for number in range(5):
        status, answer = injector.post("/api/finetune")
        assert status == 200, answer
        ids.append(answer["dataset"])
        time.sleep(0.01 * number)
        system.kill("controller", signal.SIGKILL)
        system.start("controller")
    until(lambda: {e["id"] for e in receiver.events()} == {"dataset-" + i for i in ids}, 30, "told")
    for e in receiver.events():
        raw = Path(e["dataset"]["path"]).read_bytes()
        assert hashlib.sha256(raw).hexdigest() == e["dataset"]["sha256"]
    assert not [f for f in os.listdir(system.folder / "state" / "datasets") if "part" in f]


def test_a_low_reward_asks_for_a_dataset(place):
    """The policy proposes a change because the reward is under the target: once a day."""
    injector, receiver = place
    system = injector.system
    receiver.start()
    policy = "routes[0].policy."
    extra = [f"--set={x}" for x in ("controller.finetune_when_low=true", policy + "propose=true",
                                    policy + "target=0.9", policy + "cooldown_units=20",
                                    policy + "max_new_tokens_min=1")]
    system.start("controller", extra=extra)
    injector.send_and_wait(injector.frames(400, None, lambda _: 0.3))
    event, = until(lambda: [e for e in receiver.events() if e["event"] == "finetune"], 20, "told")
    canary, = [d for d in injector.decisions() if d["action"] == "canary"][:1]
    assert event["dataset"]["actor"] == canary["actor"] == "policy:canary"
    assert event["dataset"]["reason"] == canary["reason"] and event["dataset"]["outputs"] > 0
    assert injector.post("/api/stop")[0] == 200
    injector.send_and_wait(injector.frames(400, None, lambda _: 0.3))
    until(lambda: len([d for d in injector.decisions() if d["action"] == "canary"]) == 2, 20, "again")
    assert system.rows("SELECT count(*) FROM datasets") == [(1,)], "one a day"
