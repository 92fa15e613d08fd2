"""kill -9 in the middle of a canary, under load, with the processes run by `milepost up` as people run
them: what died is restarted, nothing is lost, nothing counts twice, and only an engine that died
while it served the challenger trips the canary (CONTROL.md 1.3)."""

import os
import signal
import time

from checks import everything_is_stored_once, replay_agrees, sequences_have_no_gap
from system import CONFIG, Load, System, until
from test_up import Up, milepost

CANARY = CONFIG.replace("policy: {{kind: hold}}", """policy:
      {{kind: canary, min_minutes: 0, ramp: ["0.5"], pair_deadline_ms: 20000, propose: false,
        drift_threshold: 0, latency_ratio: 1000, length_ratio: 1000,
        alpha: 0.000001, promote_alpha: 0.000001}}""")  # the arms are alike: chance decides nothing


class Running:
    """A system under `milepost up` and under load."""

    def __init__(self, folder, model):
        self.system = System(folder, model, config=CANARY)
        self.up = Up(self.system)
        self.up.wait_ready()

    def kill(self, name):
        old = self.up.child(name)
        os.kill(old, signal.SIGKILL)
        return old

    def wait_for(self, name, old):
        until(lambda: self.up.child(name) not in (None, old), 20, f"{name} is restarted")
        until(lambda: self.answers(name), 30, f"{name} answers again")

    def answers(self, name):
        try:
            return self.system.get(name, "/health")[0] == 200
        except OSError:
            return False

    def start_trial(self, temperature):
        status, _, answer = self.system.call("controller", "POST", "/api/params",
                                             {"params": {"temperature": temperature}})
        assert status == 200, answer
        return answer

    def route(self):
        return self.system.get("controller", "/api/status")[2]["routes"][0]

    def challenger_rows(self, trial):
        return self.system.rows(
            "SELECT count(*) FROM outputs o JOIN scores s ON s.output=o.id WHERE o.revision=? AND "
            "o.experiment=? AND s.is_counted=1", trial["revision"], trial["experiment"])[0][0]

    def actions(self):
        return [tuple(r) for r in self.system.rows(
            "SELECT action, test FROM decisions ORDER BY number")][1:]


def who_applied(running):
    """`why` says which engine applied what each decision changed, and when."""
    versions = []
    for number in (2, 3):  # the step, the rollback (with the quarantine in one version)
        desired = running.system.get("controller", f"/v1/decisions/{number}")[2]["desired"]
        engine, = desired["engines"]
        assert engine["engine"] == "e1" and engine["at_us"] >= desired["at_us"]
        assert f"e1 after {(engine['at_us'] - desired['at_us']) / 1000:.1f} ms" in milepost(
            running.system, "why", str(number))
        versions.append(desired["version"])
    assert versions == [2, 3]
    assert running.system.get("controller", "/v1/decisions/4")[2]["desired"]["version"] == 3


def finish(running, load):
    assert not load.hung and not load.malformed, (load.hung, load.malformed[:3])
    everything_is_stored_once(running.system, load.answered)
    sequences_have_no_gap(running.system)


def test_the_canary_goes_on(folder, tiny):
    """An engine that had not heard of the challenger, a verifier and a controller are killed."""
    running = Running(folder, tiny)
    try:
        with Load(running.system, clients=6) as load:
            until(lambda: len(load.answered) > 5, 30, "it serves")
            old = running.kill("engine")
            trial = running.start_trial(0.80001)  # while it is away
            running.wait_for("engine", old)
            until(lambda: running.challenger_rows(trial) > 5, 30, "the challenger serves")
            for name in ("verifier", "controller"):
                before = running.challenger_rows(trial)
                running.wait_for(name, running.kill(name))
                until(lambda: running.challenger_rows(trial) > before + 5, 30, "it goes on")
        assert running.actions() == [("step", "")]
        finish(running, load)
        time.sleep(1)  # the status is at most a quarter of a second old
        route = running.route()
        assert route["state"] == "canary" and route["experiment"] == trial["experiment"]
        assert route["challenger"]["n"] == running.challenger_rows(trial)
        assert 2 * route["n_blocks"] <= route["challenger"]["n"] + route["champion"]["n"]
    finally:
        code = running.up.stop()
    assert code == 0, running.up.text()
    replay_agrees(running.system)


def test_an_engine_that_died_serving_the_challenger_trips_it(folder, tiny):
    running = Running(folder, tiny)
    try:
        with Load(running.system, clients=6) as load:
            until(lambda: len(load.answered) > 5, 30, "it serves")
            trial = running.start_trial(0.80001)
            until(lambda: running.challenger_rows(trial) > 5, 30, "the challenger serves")
            running.wait_for("engine", running.kill("engine"))
            until(lambda: running.route()["state"] == "stable", 20, "it is tripped")
            answered = len(load.answered)
            until(lambda: len(load.answered) > answered + 10, 30, "the champion serves")
        assert running.actions() == [("step", ""), ("rollback", "hard_trip"), ("quarantine", "")]
        finish(running, load)
        assert running.actions()[3:] == [], "one death, one trip"
        who_applied(running)
        late = running.system.rows("SELECT count(*) FROM outputs WHERE revision=? AND created_us>"
                                   "(SELECT at_us+2000000 FROM decisions WHERE action='rollback')",
                                   trial["revision"])
        assert late == [(0,)]
    finally:
        code = running.up.stop()
    assert code == 0, running.up.text()
    replay_agrees(running.system)
