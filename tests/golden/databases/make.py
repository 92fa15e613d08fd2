"""Makes a database with the controller of an earlier version: a course with every kind of end.

    git archive COMMIT | tar x -C OLD && (cd OLD && cmake --preset release && cmake --build ...)
    MILEPOST_BIN=OLD/build/release/bin python3 make.py schema1.sqlite.xz

The frames are made up (tests/e2e/injector.py); whatever is stored, decided and sealed is the old
controller's. One trial is left running and one route on hold.
"""

import lzma
import shutil
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "e2e"))

from injector import Injector  # noqa: E402
from system import System, until  # noqa: E402

CONFIG = """\
state_dir: {folder}/state
engine: {{id: e1, model: {model}, port: {engine}}}
loop:
  outputs: ipc://{folder}/outputs.sock
  scores: ipc://{folder}/scores.sock
  control: ipc://{folder}/control.sock
verifier: {{port: {verifier}}}
controller: {{port: {controller}, database: controller.db}}
routes:
  - name: default
    params: {{temperature: 0.8, max_new_tokens: 16}}
    policy: {{kind: canary, min_minutes: 0, ramp: ["0.5"], ramp_units: 20, pair_deadline_ms: 1000,
              propose: false, calibration_units: 40}}
  - name: calm
    params: {{temperature: 0.3}}
    policy: {{kind: threshold, window: 20, bound: 0.5, cooldown_units: 20}}
"""


def wait_for(injector, action):
    until(lambda: injector.decisions()[-1]["action"] == action, 30, action)


def course(injector):
    """In this order: rolled back by its rewards, stopped, promoted by a person, rolled back by one,
    put on hold and resumed, promoted by its rewards, one still running."""
    champion = 1

    def rows(n, trial, reward):
        frames = []
        for _ in range(n):
            is_new = trial is not None and injector.rng.random() < 0.5
            frames.append(injector.frame(
                "challenger" if is_new else "champion", trial["revision"] if is_new else champion,
                trial["experiment"] if trial else "", 0.5 if trial else 1.0, reward(is_new)))
        injector.send_and_wait(frames)

    rows(30, None, lambda _: injector.near(0.6))
    bad = injector.start_trial(1.5)
    rows(150, bad, lambda is_new: injector.near(0.1 if is_new else 0.6))
    wait_for(injector, "quarantine")
    injector.start_trial(0.7)
    assert injector.post("/api/stop", reason="by hand")[0] == 200
    hand = injector.start_trial(0.9)
    assert injector.post("/api/promote", reason="by hand")[0] == 200
    champion = hand["revision"]
    rows(20, None, lambda _: injector.near(0.6))
    assert injector.post("/api/rollback", reason="by hand")[0] == 200
    champion = 1
    assert injector.post("/api/pause", reason="lunch")[0] == 200
    rows(10, None, lambda _: injector.near(0.6))
    assert injector.post("/api/resume", reason="after lunch")[0] == 200
    good = injector.start_trial(0.5)
    rows(400, good, lambda is_new: injector.near(0.95 if is_new else 0.3))
    wait_for(injector, "promote")
    champion = good["revision"]
    rows(30, None, lambda _: injector.near(0.9))
    left = injector.start_trial(0.4)
    rows(30, left, lambda _: injector.near(0.9))
    assert injector.post("/api/pause", route="calm", reason="not now")[0] == 200


def main(target):
    folder = tempfile.mkdtemp(prefix="mp")
    system = System(folder, "/dev/null", config=CONFIG)
    injector = Injector(folder, system=system)
    system.start("controller")
    course(injector)
    time.sleep(1)
    for d in injector.decisions():
        print(d["number"], d["route"], d["action"], d["actor"], d.get("test", ""))
    injector.close()
    with open(system.database, "rb") as raw, lzma.open(target, "wb", preset=9) as out:
        shutil.copyfileobj(raw, out)
    shutil.rmtree(folder)


if __name__ == "__main__":
    main(sys.argv[1])
