"""The real controller under made-up scores: its numbers are computed again here, from the rows in
SQLite and the formulas of the design, by other code in another language."""

import hashlib
import json
import math
import random
import sqlite3
import time

import pytest

from checks import replay_agrees
from injector import CONFIG, Injector
from system import SLOW, System, until

# However slow a restart is: what comes again afterwards still counts.
PATIENT = CONFIG.replace("pair_deadline_ms: 1000", "pair_deadline_ms: 600000")


@pytest.fixture
def injector(folder):
    made = Injector(folder, system=System(folder, "/dev/null", config=PATIENT))
    made.system.start("controller")
    yield made
    made.close()


def log_e_of_rollback(rows, challenger, epsilon=0.02, alpha=0.05):
    """Paired betting at 1:1 (approximate Kelly, stake at most one half), in admission order, until
    it reaches 1/alpha. (blocks, ln e)"""
    log_w, n, s, q, lo, blocks = 0.0, 1.0, 0.0, 0.25, 1 + epsilon, 0
    waiting = {True: [], False: []}
    for revision, reward in rows:
        waiting[revision == challenger].append(reward)
        if not (waiting[True] and waiting[False]):
            continue
        x = -(waiting[True].pop(0) - waiting[False].pop(0)) - epsilon
        mean, variance = s / n, q / n
        bet = min(max(mean / (variance + mean * mean), 0.0), 0.5 / lo)
        log_w += math.log1p(bet * x)
        n, s, blocks = n + 1, s + x, blocks + 1
        q += (x - s / n) ** 2
        if log_w >= -math.log(alpha):
            break
    return blocks, log_w


def canonical(v):
    if isinstance(v, dict):
        keys = sorted(v, key=str.encode)
        return "{" + ",".join(f"{json.dumps(k)}:{canonical(v[k])}" for k in keys) + "}"
    if isinstance(v, list):
        return "[" + ",".join(map(canonical, v)) + "]"
    if isinstance(v, float):
        text = f"{v:.17g}"
        return text if "." in text or "e" in text else text + ".0"
    return json.dumps(v, ensure_ascii=False)


def sha256(text):
    return hashlib.sha256(text.encode()).hexdigest()


def seals_hold(system):
    previous = ""
    for (text,) in system.rows("SELECT json FROM decisions ORDER BY number"):
        decision = json.loads(text)
        seal = decision.pop("hash")
        assert decision.get("previous_hash", "") == previous
        assert sha256(canonical(decision)) == seal
        previous = seal
    for text, seal in system.rows("SELECT json, hash FROM revisions"):
        assert sha256(canonical(json.loads(text)["params"])) == seal


def test_numbers_of_a_trial_by_hand(injector):
    """Frames out of order, a kill in the middle, everything delivered twice."""
    system = injector.system
    injector.send_and_wait(injector.frames(30, None, lambda _: injector.near(0.7)))
    trial = injector.start_trial(1.5)
    frames = injector.frames(200, trial, lambda bad: injector.near(0.4 if bad else 0.7))
    late = frames[40:]
    random.Random(5).shuffle(late)
    injector.send(frames[:40] + late[:40])
    until(lambda: system.count_outputs() >= 60, 20, "some are stored")
    system.kill("controller")
    system.start("controller")
    injector.send(late)
    injector.send_and_wait(frames)
    until(lambda: injector.route()["state"] == "stable", 20, "rolled back")
    rollback, = [d for d in injector.decisions() if d["action"] == "rollback"]
    rows = system.rows("SELECT o.revision, s.reward FROM outputs o JOIN scores s ON s.output = o.id "
                       "WHERE o.experiment = ? ORDER BY o.admission", trial["experiment"])
    blocks, log_e = log_e_of_rollback(rows, trial["revision"])
    assert rollback["test"] == "rollback" and rollback["n_blocks"] == blocks
    assert math.isclose(rollback["log_e"], log_e, rel_tol=1e-12)
    seals_hold(system)
    replay_agrees(system)


def test_a_killed_controller_goes_on_where_it_was(injector):
    system = injector.system
    trial = injector.start_trial(1.0)
    injector.send_and_wait(injector.frames(60, trial, lambda _: injector.near(0.7)))
    until(lambda: sum(injector.route()[a]["n"] for a in ("champion", "challenger")) == 60, 20, "all count")
    behind = "SELECT 1 FROM policy_state WHERE ord < (SELECT max(row) FROM scores)"
    until(lambda: not system.rows(behind), 20, "the law's state is stored")
    before, stored = injector.route(), system.rows("SELECT * FROM policy_state")
    assert before["state"] == "canary" and before["n_blocks"] > 10
    system.kill("controller")
    system.start("controller")
    assert injector.route() == before
    assert system.rows("SELECT * FROM policy_state") == stored
    replay_agrees(system)


def test_rewards_of_two_versions_of_the_checks_do_not_mix(injector):
    trial = injector.start_trial(1.0)
    injector.send_and_wait(injector.frames(60, trial, lambda _: 0.9))
    injector.version = "v2"  # both arms fall alike; a pair of v1 and v2 would look like a drop
    injector.send_and_wait(injector.frames(100, trial, lambda _: 0.1))
    until(lambda: injector.decisions()[-1]["action"] == "alert", 20, "the change of checks is said")
    for arm in ("champion", "challenger"):
        until(lambda: (injector.route()[arm]["mean"] or 1) < 0.2, 20, "what people see is of one version")
    alert, = [d for d in injector.decisions() if d["action"] == "alert"]
    assert alert["test"] == "checks"
    assert injector.route()["state"] == "canary"
    assert injector.route()["n_blocks"] <= 45, "blocks of the old checks are still counted"
    replay_agrees(injector.system)


def test_unscored_outputs_are_no_low_reward(injector):
    trial = injector.start_trial(1.0)
    lost = injector.frames(
        400, trial, lambda c: None if c and injector.rng.random() < 0.6 else injector.near(0.7))
    injector.send_and_wait(lost)
    until(lambda: injector.decisions()[-1]["action"] == "alert", 20, "the guardrail speaks")
    decisions = injector.decisions()
    assert [d["test"] for d in decisions if d["action"] == "alert"] == ["guardrail_unscored"]
    assert not [d for d in decisions if d["action"] in ("rollback", "promote", "quarantine")]
    assert injector.route()["state"] == "canary", "inconclusive: it goes on without a step"
    replay_agrees(injector.system)


def test_a_locked_database_is_said_and_survived(injector):
    system = injector.system
    db = sqlite3.connect(system.database, isolation_level=None)
    db.execute("BEGIN IMMEDIATE")
    frames = injector.frames(50, None, lambda _: 0.7)
    injector.send(frames)
    started = time.monotonic()
    status, answer = injector.post("/api/pause", timeout=40)
    assert status >= 500 and "locked" in answer["error"]["message"], answer
    assert time.monotonic() - started < 30 * SLOW
    assert injector.route()["state"] == "stable"
    db.execute("ROLLBACK")
    db.close()
    until(lambda: injector.post("/api/pause")[0] in (200, 409), 30, "commands work again")
    injector.send_and_wait(frames)
    assert injector.route()["state"] == "safe"
    replay_agrees(system)


def test_latency_is_what_the_engine_measured(injector):
    """Nearest-rank percentiles of the last outputs, and the share of prompts found in the cache."""
    whole = []
    for i in range(1, 201):
        ttft, decode = 1000 * i, 500 * injector.rng.randrange(200)
        whole.append((ttft + decode) / 1000)
        injector.send([injector.frame("champion", 1, "", 1.0, 0.5, queue_us=10 * i, ttft_us=ttft,
                                      decode_us=decode, prompt_tokens=40, cached_tokens=10)])
    injector.send_and_wait([])
    load = injector.system.get("controller", "/api/load")[2]
    assert load["n"] == 200 and load["prefix_hit_ratio"] == 0.25
    assert load["ttft_ms"] == {"p50": 100.0, "p90": 180.0, "p99": 198.0}
    assert load["queue_ms"]["p99"] == 1.98
    whole.sort()
    assert load["e2e_ms"] == {"p50": whole[99], "p90": whole[179], "p99": whole[197]}
    slices = load["slices"]
    assert len(slices) == 40 and slices[-1]["at_us"] == load["now_us"]
    spans = [b["at_us"] - a["at_us"] for a, b in zip(slices, slices[1:])]
    total = sum(s["tokens_per_second"] for s in slices) * sum(spans) / len(spans) / 1e6
    assert math.isclose(total, 3 * 200, rel_tol=0.05)
