"""Our own engine as the reward model and as the judge: a real process with the real model answers
the verifier's questions. The routes of that engine have no such checks and its loop is off."""

import pytest

from system import SLOW, System, until
from test_remote import clean, frame, metrics
from test_verifier import Wire

ENGINE = """\
state_dir: {folder}/state
engine: {{id: judge, model: {model}, port: {engine}, threads: 2, max_running: 8, kv_tokens: 8192,
          max_context: 2048}}
loop: {{enabled: false}}
verifier: {{port: {verifier}}}
controller: {{port: {controller}, database: controller.db}}
routes: [{{name: default}}]
"""

CHECKS = """\
loop: {{outputs: "{outputs}", scores: "{scores}"}}
verifier: {{id: v1, port: {port}, threads: 2, max_queue: 64}}
routes:
  - name: model
    checks:
      - {{id: rm, kind: reward_model, api: engine, timeout_ms: 30000,
          url: "http://127.0.0.1:{engine}/v1/chat/completions", breaker_ms: 500}}
  - name: judge
    checks:
      - {{id: judge, kind: judge, model: "{name}", timeout_ms: 30000, max_tokens: 96, max: 10,
          url: "http://127.0.0.1:{engine}/v1/chat/completions", breaker_ms: 500,
          rubric: "A good answer names the right city."}}
"""


@pytest.fixture
def judge(folder, real_model):
    system = System(folder, real_model, config=ENGINE)
    system.start("engine")
    yield system
    system.stop()
    assert not system.crashes, system.crashes


def test_reward_model_and_judge_are_our_engine(folder, judge):
    name = judge.get("engine", "/v1/models")[2]["data"][0]["id"]
    wire = Wire(folder, CHECKS, engine=judge.port["engine"], name=name)
    try:
        until(lambda: "ev=verify.ready" in (wire.folder / "verifier.log").read_text(), 20, "ready")
        until(lambda: metrics(wire).get('milepost_remote_self_test{check="model/rm"}') == 1, 60 * SLOW,
              "the engine orders the self-test's two answers")
        question = {"prompt": "What is the capital of Italy?"}
        good = wire.score({**clean(frame(1, "model", "The capital of Italy is Rome.")), **question})
        junk = wire.score({**clean(frame(2, "model", "no no table 7 7 7 go")), **question})
        print("P(yes):", good["reward"], "against", junk["reward"])
        assert 0 <= junk["reward"] < good["reward"] <= 1
        verdict = wire.score({**clean(frame(3, "judge", "The capital of Italy is Rome.")), **question})
        print("judge:", verdict["checks"])
        # A model of 135 million parameters may miss the form: then it is no zero but unscored.
        assert verdict["scored"] or verdict["reason"] in ("malformed_verdict", "verdict_cut_off")
        assert "reward" in verdict or not verdict["scored"]
        judge.kill("engine")
        dead = wire.score({**clean(frame(4, "model", "Rome.")), **question})
        assert not dead["scored"] and dead["reason"] in ("unreachable", "breaker_open"), dead
        judge.start("engine")
        until(lambda: wire.score({**clean(frame(5, "model", "Rome.")), **question})["scored"], 60,
              "scored again without a restart of the verifier")
    finally:
        wire.close()
