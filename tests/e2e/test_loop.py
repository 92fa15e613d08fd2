"""The loop with everything up, and with the verifier or the controller away for MILEPOST_AWAY
seconds (4). MILEPOST_E2E_MODEL=real uses the real model instead of the tiny one."""

import os
import statistics
import time

from checks import everything_is_stored_once, replay_agrees, sequences_have_no_gap
from system import Load, until

AWAY_S = float(os.environ.get("MILEPOST_AWAY", "4"))


def run_load(system, seconds, **more):
    with Load(system, **more) as load:
        time.sleep(seconds)
    assert not load.hung and not load.malformed
    return load


def test_every_output_is_stored_once_with_its_score(make_system, tiny):
    system = make_system(tiny)
    system.start()
    load = run_load(system, 3)
    assert len(load.answered) > 20 and load.broken == 0
    everything_is_stored_once(system, load.answered)
    sequences_have_no_gap(system)
    replay_agrees(system)


def test_real_model_end_to_end(make_system, real_model):
    system = make_system(real_model)
    system.start()
    status, headers, body = system.chat("What is 2 + 2?", temperature=0, max_tokens=24)
    assert status == 200 and "4" in body["choices"][0]["message"]["content"]
    assert headers["X-Milepost-Revision"]
    everything_is_stored_once(system, [body["id"]])
    _, _, scores = system.get("controller", "/api/scores?limit=1")
    assert scores["scores"][0]["text"] == body["choices"][0]["message"]["content"]


def latency(load):
    return statistics.median(load.latency)


def absent(system, name):
    """Latency with everything up, then with `name` killed; all is stored afterwards."""
    before = run_load(system, max(3, AWAY_S / 3), seed=1)
    everything_is_stored_once(system, before.answered)
    system.kill(name)
    during = run_load(system, AWAY_S, seed=2)
    assert during.broken == 0 and not during.refused, "serving depends on the loop"
    assert len(during.answered) > 5
    stored = system.count_outputs()
    assert stored <= len(before.answered), f"{stored} rows while the {name} is away"
    system.start(name)
    everything_is_stored_once(system, before.answered + during.answered)
    sequences_have_no_gap(system)
    replay_agrees(system)
    print(f"{name} away: median latency {latency(before) * 1e3:.1f} ms before, "
          f"{latency(during) * 1e3:.1f} ms during, ratio {latency(during) / latency(before):.2f}")
    assert latency(during) < 1.5 * latency(before) + 0.01


def test_verifier_away(make_system, any_model):
    system = make_system(any_model)
    system.start()
    absent(system, "verifier")


def test_controller_away(make_system, any_model):
    system = make_system(any_model)
    system.start()
    absent(system, "controller")


def test_engine_serves_before_the_others_exist(make_system, tiny):
    system = make_system(tiny)
    system.start("engine")
    load = run_load(system, 2)
    assert load.answered and load.broken == 0
    system.start("verifier", "controller")
    everything_is_stored_once(system, load.answered)


def test_a_restarted_engine_keeps_its_sequence(make_system, tiny):
    system = make_system(tiny)
    system.start()
    first = run_load(system, 1, seed=1)
    system.kill("engine")
    system.start("engine")
    second = run_load(system, 1, seed=2)
    everything_is_stored_once(system, first.answered + second.answered)
    sequences_have_no_gap(system)
    until(lambda: system.get("controller", "/api/status")[2]["engines"], 10, "the engine is known")
