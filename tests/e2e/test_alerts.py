"""Metrics, alert rules and the Grafana dashboard against real processes and a real Prometheus: each
name exists, each expression gives numbers, each alert is quiet in good times and fires on its fault."""

import contextlib
import json
import math
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import pytest
import zmq

import tiny_model
from injector import Injector
from prometheus import ALERTS, DEPLOY, HOUR_S, IS_LONG, WINDOW_S, Prometheus, panels
from system import CONFIG, System, until

CANARY = """\
  - name: {name}
    params: {{{{temperature: 0.8}}}}
    policy: {{{{kind: canary, min_minutes: 0, ramp: ["0.5"], pair_deadline_ms: 1000, propose: false,
              calibration_units: 20, drift_threshold: 10000}}}}
"""
SYSTEM = CONFIG.replace("kv_tokens: 16384", "kv_tokens: 512").replace(
    "max_context: 1024", "max_context: 512") + "".join(CANARY.format(name=n) for n in "rsd")

# CONTROL.md, section 3. "route" stands for the experiment: it is bounded.
TABLE = {
    "milepost_reward_bucket": "verifier arm", "milepost_scores_total": "verifier outcome",
    "milepost_score_lag_seconds_bucket": "verifier",
    "milepost_verify_duration_seconds_bucket": "verifier kind",
    "milepost_duplicate_scores_total": "engine", "milepost_sequence_gaps_total": "engine",
    "milepost_late_scores_total": "engine", "milepost_queue_depth": "",
    "milepost_oldest_unscored_seconds": "", "milepost_experiment_log_evalue": "route test",
    "milepost_experiment_effect": "route arm", "milepost_experiment_effect_lower": "route arm",
    "milepost_experiment_effect_upper": "route arm", "milepost_drift_log_statistic": "stratum",
    "milepost_assignments_total": "route arm", "milepost_actions_total": "action reason",
    "milepost_desired_version": "", "milepost_engine_applied_version": "engine",
    "milepost_prefix_cache_hit_tokens_total": "engine",
    "milepost_prefix_cache_query_tokens_total": "engine",
    "milepost_kv_cache_usage_ratio": "engine", "milepost_gpu_memory_used_bytes": "engine",
    "milepost_requests_running": "engine", "milepost_requests_waiting": "engine",
    "milepost_ttft_seconds_bucket": "arm", "milepost_inter_token_seconds_bucket": "arm",
    "milepost_e2e_seconds_bucket": "arm", "milepost_output_tokens_bucket": "arm",
    "milepost_finish_total": "reason arm",
}


class Traffic:
    """Clients whose prompt and length can be changed while they run."""

    def __init__(self, system):
        self.system, self.number, self.is_over = system, 0, False
        self.shared, self.max_tokens, self.pause = True, 8, 0.1
        self.threads = [threading.Thread(target=self.work, daemon=True) for _ in range(6)]
        for t in self.threads:
            t.start()

    def work(self):
        while not self.is_over:
            self.number += 1
            text = "a beginning that every prompt shares" if self.shared else f"{self.number} {time.time()}"
            try:
                self.system.chat(text * 3, max_tokens=self.max_tokens, temperature=2)
            except OSError:
                pass
            time.sleep(self.pause)

    def close(self):
        self.is_over = True
        for t in self.threads:
            t.join()


class Pretender:
    """An engine that says what it likes over the control socket."""

    def __init__(self, folder, name):
        self.name, self.socket = name, zmq.Context.instance().socket(zmq.DEALER)
        self.socket.connect(f"ipc://{folder}/control.sock")
        self.say("hello", epoch=1, next_seq=500, oldest_seq=1, desired_version=0)

    def say(self, kind, **more):
        self.socket.send(json.dumps({"schema": "milepost.control.v1", "type": kind,
                                     "engine": self.name, **more}).encode())

    def beat(self, oldest_seq, outbox_rows, desired_version):
        self.say("heartbeat", epoch=1, next_seq=500, oldest_seq=oldest_seq,
                 desired_version=desired_version, running=0, waiting=0, outbox_rows=outbox_rows,
                 outbox_dropped=oldest_seq - 1, kv_usage=0.0, tokens_per_second=0.0)


@pytest.fixture(scope="module")
def watched():
    folder = Path(tempfile.mkdtemp(prefix="mp"))
    with contextlib.ExitStack() as ends:
        ends.callback(shutil.rmtree, folder, ignore_errors=True)
        tiny_model.write(folder / "tiny.gguf")
        system = System(folder, folder / "tiny.gguf", config=SYSTEM)
        made = ends.enter_context(contextlib.closing(Injector(folder, system=system)))
        made.engine = "made"
        system.start()
        traffic = ends.enter_context(contextlib.closing(Traffic(system)))
        prometheus = ends.enter_context(contextlib.closing(Prometheus(folder, system)))
        yield folder, made, traffic, prometheus


def champion_of(made, route):
    return made.system.get("controller", f"/api/params?route={route}")[2]["champion"]["number"]


def rows(made, route, n, reward, trial=None, share=0.5):
    """Sends n made-up scores of an engine called `made`; a trial's share is really given."""
    champion = made.revision[route]
    for _ in range(n):
        is_new = trial is not None and made.rng.random() < share
        arm, revision = ("challenger", trial["revision"]) if is_new else ("champion", champion)
        experiment = trial["experiment"] if trial else ""
        made.send([made.frame(arm, revision, experiment, 0.5 if trial else 1.0, reward(is_new),
                              route=route, stratum="de" if route == "d" else "")])


def push(made, route, temperature):
    status, answer = made.post("/api/params", route=route, params={"temperature": temperature})
    assert status == 200, answer
    return answer


def good_times(made, traffic, prometheus):
    for route in "rsd":
        rows(made, route, 60, lambda _: made.near(0.9))
    prometheus.watch(WINDOW_S + HOUR_S)
    assert not prometheus.fired, f"fires without a fault: {prometheus.fired}"


def fail_a_revision(made, traffic, prometheus):
    rows(made, "r", 200, lambda bad: 0.1 if bad else made.near(0.9), push(made, "r", 1.5))
    prometheus.wait_firing("MilepostRevisionFailed")


def break_the_split(made, traffic, prometheus):
    rows(made, "s", 600, lambda _: made.near(0.9), push(made, "s", 1.5), share=0.9)
    prometheus.wait_firing("MilepostSplitBroken")


def drift_and_lose_scores(made, traffic, prometheus):
    rows(made, "d", 150, lambda _: 0.1)
    prometheus.wait_firing("MilepostDrift")
    end = time.monotonic() + (2 * WINDOW_S if IS_LONG else 0)
    while True:
        rows(made, "d", 100, lambda _: None)
        if time.monotonic() >= end:
            break
        prometheus.watch(5)
    prometheus.wait_firing("MilepostUnscored")


def pretend(made, traffic, prometheus, folder):
    """An engine that lags behind, holds an output back, and then has lost 400 of them."""
    other = Pretender(folder, "gappy")
    desired = made.system.get("controller", "/api/status")[2]["desired_version"]
    try:
        for alert, oldest, version in (("MilepostScoresLate", 1, desired),
                                       ("MilepostEngineBehind", 1, desired - 1),
                                       ("MilepostOutputsLost", 401, desired)):
            until(lambda: (other.beat(oldest, 5, version), prometheus.firing(),
                           alert in prometheus.fired)[-1], 7200 if IS_LONG else 20, f"alert {alert} fires")
        late = json.loads(made.frame("champion", made.revision["d"], "", 1.0, 0.5, route="d"))
        late["engine"] = late["output"]["engine"] = "gappy"
        late["seq"] = late["output"]["seq"] = 7
        made.send([json.dumps(late).encode()] * 2)  # late, then a duplicate
    finally:
        other.socket.close(0)


def fill_the_cache_and_stall(made, traffic, prometheus):
    prometheus.wait_firing("MilepostPrefixHitsFell")
    traffic.max_tokens, traffic.pause = 400, 0
    prometheus.wait_firing("MilepostKvFull")
    engine = made.system.process["engine"]
    end = time.monotonic() + 60 + 3 * WINDOW_S
    while "MilepostSlow" not in prometheus.fired:
        assert time.monotonic() < end, "alert MilepostSlow fires"
        engine.send_signal(signal.SIGSTOP)
        time.sleep(35 if IS_LONG else 2.2)
        engine.send_signal(signal.SIGCONT)
        prometheus.watch(2)
    traffic.max_tokens, traffic.pause, traffic.shared = 8, 0.05, True


def silence_the_controller(made, traffic, prometheus):
    controller = made.system.process["controller"]
    controller.send_signal(signal.SIGSTOP)
    try:
        prometheus.wait_firing("MilepostControllerSilent")
    finally:
        controller.send_signal(signal.SIGCONT)
    until(lambda: "MilepostControllerSilent" not in prometheus.firing(), 20, "it is quiet again")


def test_rules_are_well_formed():
    for command in (["check", "config", DEPLOY / "prometheus.yml"],
                    ["test", "rules", Path(__file__).with_name("alerts_test.yml")]):
        done = subprocess.run(["promtool", *command], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_fires_on_its_fault_and_only_then(watched):
    folder, made, traffic, prometheus = watched
    made.revision = {route: champion_of(made, route) for route in "rsd"}
    good_times(made, traffic, prometheus)
    traffic.shared = False  # felt in fill_the_cache
    fail_a_revision(made, traffic, prometheus)
    break_the_split(made, traffic, prometheus)
    drift_and_lose_scores(made, traffic, prometheus)
    pretend(made, traffic, prometheus, folder)
    fill_the_cache_and_stall(made, traffic, prometheus)
    silence_the_controller(made, traffic, prometheus)
    assert set(prometheus.fired) == set(ALERTS)
    for alert in prometheus.fired.values():  # templates filled in, nothing left of their syntax
        assert "{{" not in json.dumps(alert["annotations"]) and alert["annotations"]["action"]


def test_every_metric_of_the_table_is_there(watched):
    _, _, _, prometheus = watched
    for name, labels in TABLE.items():
        series = [s["metric"] for s in prometheus.query(name)]
        assert series, f"no {name}"
        assert any(set(labels.split()) <= set(s) for s in series), f"{name} lacks {labels}: {series[0]}"


def test_every_panel_shows_something(watched):
    _, made, _, prometheus = watched
    trial = push(made, "r", 1.2)
    for where, expr in panels():
        def has_numbers():
            rows(made, "r", 20, lambda _: made.near(0.9), trial)
            return [v for v in prometheus.query(expr) if not math.isnan(float(v["value"][1]))]
        until(has_numbers, 15, f"panel '{where}' shows a number: {expr}")
