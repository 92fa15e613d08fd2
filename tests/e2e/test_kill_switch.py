"""The kill switch: one command pins every route's champion, over a kill -9 and for routes that come."""

import json
import subprocess

from checks import replay_agrees
from injector import CONFIG, Injector
from system import BIN, SLOW, System, until

MORE = """\
  - {{name: math, policy: {{kind: canary, drift_threshold: 0, propose: false}}}}
  - {{name: calm, policy: {{kind: threshold}}}}
"""
ADDED = "  - {name: added, policy: {kind: canary}}\n"


def milepost(system, *words):
    done = subprocess.run([BIN / "milepost", *words, "--config", system.config],
                          capture_output=True, text=True, timeout=30 * SLOW)
    return done.returncode, done.stdout + done.stderr


def routes(system):
    status = system.get("controller", "/api/status")[2]
    return {r["route"]: r for r in status["routes"]}


def states(system):
    return {name: r["state"] for name, r in routes(system).items()}


def switch(system):
    text = system.get("controller", "/metrics")[2]
    line, = [x for x in text.splitlines() if x.startswith("milepost_kill_switch ")]
    status = system.get("controller", "/api/status")[2]
    assert status["kill_switch"]["is_on"] == (float(line.split()[1]) == 1)
    return status["kill_switch"]


def start_trials(injector):
    trial = injector.start_trial(1.2)
    status, answer = injector.post("/v1/experiments", route="math",
                                   arms=[{"temperature": 0.3}, {"temperature": 0.6}])
    assert status == 200, answer
    assert injector.post("/api/pause", route="calm")[0] == 200
    injector.send_and_wait(injector.frames(40, trial, lambda _: injector.near(0.7)))
    assert states(injector.system) == {"default": "canary", "math": "experiment", "calm": "safe"}
    return trial


def nothing_can_start(injector):
    for path, body in (("/api/params", {"params": {"temperature": 0.5}}), ("/api/resume", {}),
                       ("/v1/experiments", {"route": "math", "arms": [{"temperature": 0.1}]})):
        status, answer = injector.post(path, **body)
        assert status == 409 and "milepost resume --all" in answer["error"]["message"], answer


def test_all_routes_at_once(folder):
    system = System(folder, "/dev/null", config=CONFIG + MORE)
    injector = Injector(folder, system=system)
    try:
        system.start("controller")
        trial = start_trials(injector)
        code, said = milepost(system, "pause", "--all", "--reason", "odd answers")
        assert code == 0 and "all routes are paused" in said, said
        until(lambda: switch(system)["is_on"], 10, "it is shown")
        assert switch(system)["reason"] == "odd answers"
        assert set(states(system).values()) == {"safe"}
        for route in routes(system).values():
            assert route["challenger"] is None and route["champion"]["share"] == 1
        assert milepost(system, "pause", "--all")[0] == 1, "it is on already"
        nothing_can_start(injector)
        assert "odd answers" in milepost(system, "status")[1]

        system.kill("controller")
        system.config.write_text(system.config.read_text() + ADDED)
        system.start("controller")
        assert switch(system)["is_on"] and set(states(system).values()) == {"safe"}
        assert "added" in states(system)
        nothing_can_start(injector)
        before = len(injector.decisions())
        injector.send_and_wait(injector.frames(300, trial, lambda bad: 0.1 if bad else 0.7))
        assert len(injector.decisions()) == before, "something was decided"

        assert milepost(system, "resume", "--all")[0] == 0
        until(lambda: not switch(system)["is_on"], 10, "it is shown")
        assert states(system) == {"default": "stable", "math": "stable", "calm": "safe",
                                  "added": "stable"}
        assert milepost(system, "resume", "--all")[0] == 1, "it is off already"
        holds = [json.loads(r[0]) for r in system.rows(
            "SELECT json FROM decisions WHERE action='hold' ORDER BY number")]
        assert [d["route"] for d in holds] == ["calm", "default", "math", "added"]
        assert holds[1]["detail"]["event_reason"] == "kill switch: odd answers"
        replay_agrees(system)
    finally:
        injector.close()
