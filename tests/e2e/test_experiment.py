"""Experiments with the real processes: K arms split by hash, one of them wins and serves; arms that
differ in a knob of the engine take turns in time; a kill in the middle changes nothing."""

import json
import subprocess
import time

from checks import replay_agrees
from system import BIN, CONFIG, Load, until

CHECKS = """\
    checks:
      - {{id: size, kind: length, weight: 1, unit: tokens, min: 8, max: 64}}
    policy: {{kind: canary, pair_deadline_ms: 2000}}
"""


def config():
    """The champion writes 4 tokens, and the checks want 8."""
    head = CONFIG.split("    checks:")[0]
    return head.replace("max_new_tokens: 16", "max_new_tokens: 4") + CHECKS


class Plain(Load):
    """Clients that leave every parameter to the revision."""

    def one(self, number):
        status, _, body = self.system.chat(f"Request {number}.", seed=number, timeout=60)
        if status == 200:
            self.answered.append(body["id"])


def milepost(system, *words):
    out = subprocess.run([BIN / "milepost", *words, "--config", system.config], check=False,
                         capture_output=True, text=True, timeout=60)
    assert out.returncode == 0, out.stderr
    return out.stdout


def experiment(system, *words):
    return json.loads(milepost(system, "experiment", *words, "--json"))


def decisions(system, action):
    found = system.get("controller", "/api/decisions?limit=1000")[2]["decisions"]
    return [d for d in found if d["action"] == action]


def is_over(system):
    return experiment(system, "report")["outcome"] != "running"


def test_the_best_of_four_arms_wins_and_serves(make_system, tiny):
    system = make_system(tiny, config=config())
    system.start()
    with Plain(system, clients=6):
        until(lambda: system.count_outputs() > 100, 30, "traffic to forecast from")
        plan = experiment(system, "plan", "--grid", "max_new_tokens=4,6,12", "--arm",
                          "max_new_tokens=5", "--effect", "0.4")
        assert [a.get("max_new_tokens") for a in plan["arms"]] == [4, 5, 6, 12]
        assert plan["decided"] == plan["runs"] and 20 < plan["outputs_median"] < 5000
        assert plan["outputs_per_second"] > 0 and plan["seconds_median"] > 0
        started = experiment(system, "start", "--grid", "max_new_tokens=4,6,12", "--arm",
                             "max_new_tokens=5", "--on-win", "promote", "--min", "4s")
        until(lambda: experiment(system, "report")["scored"] > 30, 30, "arms are scored")
        until(lambda: 'milepost_experiment_effect{route="default",arm="arm-1"}' in
              system.get("controller", "/metrics")[2], 10, "the arms' effects are metrics")
        arms = system.get("controller", "/api/status")[2]["routes"][0]["arms"]
        assert [a["name"] for a in arms] == ["champion", "arm-1", "arm-2", "arm-3"]
        assert abs(sum(a["share"] for a in arms) - 1) < 1e-9
        system.kill("controller")
        system.start("controller")
        until(lambda: is_over(system), 60, "one arm is left")
    report = experiment(system, "report", started["experiment"])
    state = {a["params"]["max_new_tokens"]: a for a in report["arms"]}
    assert report["outcome"] == "winner" and report["winner"] == state[12]["revision"]
    assert state[12]["mean"] > 0.9 and state[4]["mean"] < 0.1 and state[4]["state"] == "beaten"
    assert report["seconds"] >= 4 and report["split_p"] > 1e-6
    params = system.get("controller", "/api/params")[2]
    assert params["champion"]["number"] == report["winner"]
    shares = system.rows("SELECT DISTINCT experiment, arm, propensity FROM outputs WHERE "
                         "experiment LIKE ? ORDER BY 1, 2", started["experiment"] + ".1")
    assert len(shares) == 4 and all(abs(p - 0.25) < 1e-12 for _, _, p in shares)
    assert len(decisions(system, "eliminate")) == 3 and len(decisions(system, "conclude")) == 1
    assert "winner: revision" in milepost(system, "experiment", "report")
    assert started["experiment"] in milepost(system, "experiment", "list")
    replay_agrees(system)


def test_knobs_of_the_engine_take_turns(make_system, tiny):
    system = make_system(tiny, config=config())
    system.start()
    with Plain(system, clients=4):
        started = experiment(system, "start", "--arm", "max_running=2,max_new_tokens=12",
                             "--slice", "0.5s", "--seed", "7", "--on-win", "report")
        until(lambda: is_over(system), 60, "one arm is left")
    report = experiment(system, "report")
    assert report["plan"]["law"] == "slices" and report["plan"]["seed"] == 7
    winner, = [a for a in report["arms"] if a["revision"] == report["winner"]]
    assert winner["params"]["max_running"] == 2 and report["rounds"] > 5
    for (shares,) in system.rows("SELECT json_extract(json, '$.detail.shares') FROM decisions "
                                 "WHERE action = 'allocate'"):
        assert sorted(s for _, s in json.loads(shares)) == [0, 1], "one arm at a time"
    mixed = system.rows("SELECT experiment FROM outputs WHERE experiment LIKE ? GROUP BY 1 "
                        "HAVING count(DISTINCT revision) > 1", started["experiment"] + ".%")
    assert not mixed
    assert system.get("controller", "/api/params")[2]["champion"]["number"] == 1
    replay_agrees(system)


def test_what_cannot_be_compared_is_refused(make_system, tiny):
    system = make_system(tiny, config=config())
    system.start("controller")

    def ask(body, path="/v1/experiments"):
        status, _, answer = system.call("controller", "POST", path, body)
        return status, answer.get("error", {}).get("message", "")

    status, why = ask({"arms": [{"temprature": 1}]})
    assert status == 400 and "temperature" in why
    status, why = ask({"arms": [{"max_new_tokens": 4}]})
    assert status == 400 and "differs from the champion" in why
    status, why = ask({"arms": [{"max_running": 2}], "law": "elimination"})
    assert status == 400 and "slices" in why
    status, why = ask({"matrix": {"temperature": [0.1 * i for i in range(17)]}})
    assert status == 400
    assert ask({"arms": [{"temperature": 1.0}]})[0] == 200
    status, why = ask({"arms": [{"temperature": 1.1}]})
    assert status == 409 and "stop it first" in why
    status, _, answer = system.call("controller", "POST", "/api/params",
                                    {"params": {"temperature": 0.3}})
    assert status == 409 and "experiment" in answer["error"]["message"]
    milepost(system, "experiment", "stop")
    assert experiment(system, "report")["outcome"] == "stopped"
    time.sleep(0.3)
    assert system.get("controller", "/api/status")[2]["routes"][0]["state"] == "stable"
    assert system.get("controller", "/v1/experiments/nope")[0] == 404
    replay_agrees(system)
