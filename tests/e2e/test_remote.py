"""Checks that ask others: a reward model that is slow, flapping, wrong-typed or dead costs its own
route its scores (unscored, never zero) and the other routes nothing; it comes back by itself."""

import json
import time
import urllib.request

import pytest
import zmq

import injector
from services import Service
from system import SLOW, System, until
from test_verifier import Wire, output

CONFIG = """\
loop: {{outputs: "{outputs}", scores: "{scores}"}}
verifier: {{id: v1, port: {port}, threads: 2, max_queue: 64}}
routes:
  - name: rules
    checks: [{{id: size, kind: length, unit: words, max: 50}}]
  - name: model
    checks:
      - {{id: finished, kind: finish_reason, gate: true}}
      - {{id: rm, kind: reward_model, url: "http://127.0.0.1:{service}/classify", api: sglang,
          normalise: sigmoid, timeout_ms: 1500, attempt_ms: 700, concurrency: 4, queue: 32,
          breaker_failures: 6, breaker_ms: 400}}
"""


@pytest.fixture
def service():
    s = Service()
    yield s
    s.close()


@pytest.fixture
def wire(folder, service):
    w = Wire(folder, CONFIG, service=service.port)
    yield w
    w.close()


def frame(seq, route, text="a good answer", finish="stop"):
    return {**output(seq, text, finish), "route": route, "messages": None, "prompt": "A question?"}


def clean(f):
    return {k: v for k, v in f.items() if v is not None}


def metrics(wire):
    url = f"http://127.0.0.1:{wire.port}/metrics"
    with urllib.request.urlopen(url, timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    return {k: float(v) for k, v in (line.rsplit(" ", 1) for line in lines if line[0] != "#")}


def ready(wire):
    def passed():
        try:
            return metrics(wire).get('milepost_remote_self_test{check="model/rm"}') == 1
        except OSError:  # not listening yet
            return False
    until(passed, 20, "the self-test passed")


def burst(wire, first, n, slow_every=0):
    """n outputs of the route with rules, every slow_every-th followed by one of the other route.
    Seconds until the rules' are answered, and the others' scores."""
    start, sent, seq, rules, model = time.monotonic(), 0, first, 0, []
    end = start + 60 * SLOW
    expected_model = n // slow_every if slow_every else 0
    took = None
    while rules < n or len(model) < expected_model:
        assert time.monotonic() < end, (rules, len(model))
        while sent < n and wire.send(clean(frame(seq, "rules")), 0):
            sent, seq = sent + 1, seq + 1
            if slow_every and sent % slow_every == 0:
                assert wire.send(clean(frame(seq, "model")))
                seq += 1
        score = wire.receive(20)
        while score is not None:
            if score["check_set"] == "rules":
                assert score["reward"] == 1
                rules += 1
            else:
                model.append(score)
            score = wire.receive(0)
        if rules == n and took is None:
            took = time.monotonic() - start
    return took, model


def test_scores_and_questions(wire, service):
    ready(wire)
    good = wire.score(clean(frame(1, "model")))
    bad = wire.score(clean(frame(2, "model", "poor")))
    assert good["reward"] == pytest.approx(0.880797, abs=1e-5)
    assert bad["reward"] == pytest.approx(0.119203, abs=1e-5)
    assert {"model": "", "text": "A question?\n\na good answer"} in service.bodies
    asked = service.asked
    cut = wire.score(clean(frame(3, "model", finish="length")))  # a failed gate decides: not asked
    assert cut["reward"] == 0 and cut["checks"][1]["reason"] == "gate_failed"
    assert service.asked == asked


@pytest.mark.parametrize("mode", ["slow", "flapping", "wrong-typed", "dead"])
def test_trouble_stays_with_its_route(wire, service, mode):
    ready(wire)
    alone, _ = burst(wire, 1, 1000)
    service.mode = mode
    if mode == "dead":
        service.close()
    beside, scores = burst(wire, 10000, 1000, slow_every=10)
    assert beside < 3 * alone + 1 * SLOW, (alone, beside)
    unscored = [s for s in scores if not s["scored"]]
    assert all("reward" not in s for s in unscored)
    reasons = {s["reason"] for s in unscored}
    if mode == "flapping":  # asked again
        assert len(unscored) < len(scores)
    else:
        assert len(unscored) == len(scores) == 100
    allowed = {"slow": {"timeout", "breaker_open", "overloaded"},
               "flapping": {"server_error", "breaker_open", "overloaded"},
               "wrong-typed": {"malformed_answer", "breaker_open", "overloaded"},
               "dead": {"unreachable", "breaker_open", "overloaded"}}[mode]
    assert reasons <= allowed, reasons
    now = metrics(wire)
    opens = now['milepost_remote_breaker_opens_total{check="model/rm"}']
    if mode == "flapping":
        assert now['milepost_remote_retries_total{check="model/rm"}'] > 0
    else:
        assert opens >= 1 and now['milepost_remote_breaker_open{check="model/rm"}'] == 1
    assert now['milepost_checks_total{kind="length",outcome="pass"}'] == 2000
    service.mode = "healthy"
    if mode == "dead":
        service.open()
    until(lambda: metrics(wire)['milepost_remote_breaker_open{check="model/rm"}'] == 0, 30,
          "the breaker closed by itself")
    until(lambda: wire.score(clean(frame(90000, "model")))["scored"], 20, "scored again")
    assert wire.process.poll() is None


def test_self_test_refuses_a_model_that_orders_wrongly(folder, service):
    """As a router that makes every one-class score 1.0 (SGLang pull request 19709)."""
    service.mode = "constant"
    plain = service.answer
    service.answer = lambda r: service.mode == "healthy" and plain(r) or constant(service, r)
    wire = Wire(folder, CONFIG, service=service.port)
    try:
        until(lambda: 'result=not_in_order' in (wire.folder / "verifier.log").read_text(), 20,
              "the self-test failed")
        score = wire.score(clean(frame(1, "model")))
        assert not score["scored"] and score["reason"] in ("self_test", "breaker_open")
        service.answer = plain
        service.mode = "healthy"
        ready(wire)
        assert wire.score(clean(frame(2, "model")))["scored"]
    finally:
        wire.close()


def constant(service, request):
    request.rfile.read(int(request.headers.get("Content-Length", 0)))
    service.send(request, 200, b'[{"embedding": [1.0]}]')


def test_sigterm_with_questions_under_way(wire, service):
    """What has no answer yet is not scored as unscored: the engine sends it again."""
    ready(wire)
    service.mode = "slow"
    for seq in range(1, 5):
        assert wire.send(clean(frame(seq, "model")))
    until(lambda: service.asked >= 3, 10, "they are asked")
    wire.process.terminate()
    assert wire.process.wait(timeout=20 * SLOW) == 0, (wire.folder / "verifier.log").read_text()
    for _ in range(4):
        score = wire.receive(100)
        assert score is None or score["reason"] in ("timeout", "breaker_open")


# A pair waits long for its scores: how fast this machine answers must not decide what is unscored.
ARMS = injector.CONFIG.replace("pair_deadline_ms: 1000", "pair_deadline_ms: 100000") + f"""\
    checks:
      - {{{{id: rm, kind: reward_model, url: "http://127.0.0.1:{{service}}/classify", api: sglang,
          normalise: sigmoid, timeout_ms: {int(2000 * SLOW)}, concurrency: 256, retries: 0,
          breaker_failures: 0}}}}
"""


def arms(folder, service):
    """A real verifier and controller of a route with a reward model, behind a made-up engine."""
    i = injector.Injector.__new__(injector.Injector)  # its frames and queries, without its socket
    i.system = System(folder, "/dev/null", config=ARMS, service=service.port)
    i.rng, i.seq, i.engine, i.version = injector.random.Random(3), 0, "e1", "v1"
    context = zmq.Context()
    engine = context.socket(zmq.PUSH)
    engine.bind(f"ipc://{folder}/outputs.sock")
    return i, context, engine


def test_timeouts_in_one_arm_are_no_low_reward(folder, service):
    """A judge that is late for the challenger's outputs only: the reward test does not speak, the
    guardrail on unscored outputs does. Real verifier and controller; the engine is made up."""
    i, context, engine = arms(folder, service)
    try:
        i.system.start("controller", "verifier")
        until(lambda: "result=passed" in i.system.log("verifier").read_text(), 20, "the self-test")
        service.mode = "some slow"
        trial = i.start_trial(1.0)
        scores = [json.loads(f) for f in i.frames(200, trial, lambda c: float(c))]
        for s in scores:
            o = s["output"]
            is_late = o["arm"] == "challenger" and i.rng.random() < 0.6
            o["text"] = "a slow good answer" if is_late else "a good answer"
            engine.send(json.dumps(o).encode())
        until(lambda: i.system.count_outputs() == len(scores), 60, "all are stored")
        until(lambda: any(d["action"] == "alert" for d in i.decisions()), 30, "the guardrail speaks")
        decisions = i.decisions()
        assert [d["test"] for d in decisions if d["action"] == "alert"] == ["guardrail_unscored"]
        assert not [d for d in decisions if d["action"] in ("rollback", "quarantine")]
        assert i.route()["state"] == "canary"
        rows = i.system.rows("SELECT o.arm, s.reward, s.reason FROM scores s JOIN outputs o ON s.output = o.id")
        assert {(r[0], r[2]) for r in rows if r[1] is None} == {("challenger", "timeout")}
        assert {round(r[1], 3) for r in rows if r[1] is not None} == {0.881}
    finally:
        context.destroy(linger=0)
        i.system.stop()
        assert not i.system.crashes, i.system.crashes


def test_a_dead_reward_model_rolls_nothing_back(folder, service):
    """It dies in the middle of a trial: both arms are unscored, with a reason; the trial stands as it
    is, and goes on when the model is back."""
    i, context, engine = arms(folder, service)

    def send(n, trial):
        for f in i.frames(n, trial, lambda c: float(c)):
            engine.send(json.dumps({**json.loads(f)["output"], "text": "a good answer"}).encode())
        until(lambda: i.system.count_outputs() == i.seq, 60, "all are stored")

    try:
        i.system.start("controller", "verifier")
        until(lambda: "result=passed" in i.system.log("verifier").read_text(), 20, "the self-test")
        trial = i.start_trial(1.0)
        send(40, trial)
        service.mode = "dead"
        service.close()
        send(300, trial)
        rows = i.system.rows("SELECT s.reward, s.reason FROM scores s JOIN outputs o ON s.output = o.id "
                             "WHERE o.seq > 40")
        assert len(rows) == 300 and {r[0] for r in rows} == {None}
        assert {r[1] for r in rows} <= {"unreachable", "timeout", "server_error", "overloaded"}
        assert i.route()["state"] != "stable", "the trial is still on"
        assert [d["action"] for d in i.decisions() if d["action"] == "rollback"] == []
        service.mode = "healthy"
        service.open()
        send(40, trial)
        back = i.system.rows("SELECT count(*) FROM scores s JOIN outputs o ON s.output = o.id "
                             "WHERE o.seq > 340 AND s.reward IS NOT NULL")
        assert back[0][0] == 40
        assert [d["action"] for d in i.decisions() if d["action"] == "rollback"] == []
    finally:
        context.destroy(linger=0)
        i.system.stop()
        assert not i.system.crashes, i.system.crashes
