"""`milepost demo` on the real model: exit 0 within six minutes, and its numbers are those of SQLite."""

import json
import math
import sqlite3
import statistics
import subprocess
import time

from system import BIN

LIMIT_S = 360


def rewards(db, where, *values):
    return [r[0] for r in db.execute(
        "SELECT s.reward FROM outputs o JOIN scores s ON s.output = o.id "
        f"WHERE s.is_counted AND s.reward IS NOT NULL AND {where}", values)]


def test_demo(folder, real_model):
    started = time.monotonic()
    done = subprocess.run(
        [BIN / "milepost", "demo", "--json", "--model", real_model, "--state-dir", folder],
        capture_output=True, text=True, timeout=LIMIT_S + 60, check=False)
    spent = time.monotonic() - started
    print(done.stderr[-3000:])
    assert done.returncode == 0, done.stdout[-3000:]
    facts = json.loads(done.stdout)
    print(json.dumps(facts, indent=1), f"\n{spent:.0f} s")
    assert spent < LIMIT_S
    assert facts["replay_agrees"]
    push, cooling = facts["bad_push"], facts["cooling"]

    db = sqlite3.connect(f"file:{folder}/milepost.sqlite?mode=ro", uri=True)
    bad, experiment, log_e = db.execute(
        "SELECT from_revision, experiment, log_e FROM decisions "
        "WHERE route = 'default' AND action = 'rollback'").fetchone()
    assert push["log_e"] == log_e and log_e >= math.log(20)
    during = rewards(db, "o.revision = ? AND o.experiment = ?", bad, experiment)
    assert math.isclose(push["during"]["mean"], statistics.fmean(during), abs_tol=1e-9)
    assert push["during"]["n"] == len(during)
    assert db.execute("SELECT count(*) FROM quarantine WHERE revision = ?", (bad,)).fetchone()[0]
    temperatures = [json.loads(r[0])["params"]["temperature"] for r in db.execute(
        "SELECT r.json FROM decisions d JOIN revisions r ON r.number = d.to_revision "
        "WHERE d.route = 'hot' AND d.action = 'promote' ORDER BY d.number")]
    assert [s["to_temperature"] for s in cooling["steps"]] == temperatures
    assert temperatures == sorted(temperatures, reverse=True) and temperatures
    outputs, scores = (db.execute(f"SELECT count(*) FROM {t}").fetchone()[0]
                       for t in ("outputs", "scores"))
    assert (facts["outputs"], facts["scores"]) == (outputs, scores) and outputs == scores
