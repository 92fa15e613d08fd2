"""Databases that earlier versions of the controller wrote (tests/golden/databases), opened by this one:
nothing is lost, who serves what stays, the chain holds, and replay recomputes or says from where."""

import json
import lzma
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from injector import Injector
from system import BIN, SLOW, System, until
from test_controller import seals_hold

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "databases"
sys.path.insert(0, str(GOLDEN))
from make import CONFIG  # noqa: E402

# However old the files are: silence and the longest time of a trial are not what is tested here.
UPGRADED = CONFIG.replace("calibration_units: 40", "calibration_units: 40, stale_ms: 0, max_minutes: "
                          "5256000")
SEALED = {1: 17, 5: 0}  # decisions that today's laws do not recompute
LISTS = ("SELECT json FROM decisions ORDER BY number", "SELECT json FROM revisions ORDER BY number",
         "SELECT ord, kind, payload FROM events ORDER BY ord",
         "SELECT request_id, reward, checks FROM scores ORDER BY row")


@pytest.fixture
def place(folder):
    system = System(folder, "/dev/null", config=UPGRADED)
    injector = Injector(folder, system=system)
    yield injector
    injector.close()


def unpack(system, number):
    system.database.write_bytes(lzma.open(GOLDEN / f"schema{number}.sqlite.xz").read())


def replay(system):
    done = subprocess.run([BIN / "milepost", "replay", "--json", "--config", system.config],
                          capture_output=True, text=True, timeout=120 * SLOW)
    return done.returncode, json.loads(done.stdout) if done.stdout else done.stderr


def routes(system):
    return {r["route"]: r for r in system.get("controller", "/api/status")[2]["routes"]}


@pytest.mark.parametrize("number", SEALED)
def test_an_earlier_database_is_brought_up_to_date(place, number):
    system = place.system
    unpack(system, number)
    before = [system.rows(sql) for sql in LISTS]
    served = dict(system.rows("SELECT route, champion FROM policy_state"))
    assert len(before[0]) == 17 and len(before[3]) == 670
    code, said = replay(system)
    assert code == 1 and f"older version (schema {number}" in said

    system.start("controller")
    for sql, was in zip(LISTS, before):
        assert system.rows(sql)[:len(was)] == was, sql
    seals_hold(system)
    now = routes(system)
    assert {name: r["champion"]["revision"] for name, r in now.items()} == served
    assert now["calm"]["is_paused"]
    assert system.get("controller", "/api/status")[2]["outputs"] == 670
    code, report = replay(system)
    assert code == 0 and report["agrees"], report
    assert report["sealed"] == SEALED[number], "other laws: see tests/golden/databases/README.md"
    assert (report["recomputed_from"] > 670) == (SEALED[number] > 0)
    if SEALED[number]:
        assert [d["action"] for d in place.decisions()[17:]] == ["expire", "champion", "hold"]
        assert now["default"]["state"] == "stable"
        assert system.rows("SELECT outcome FROM experiments WHERE id='e7'") == [("expire",)]
    else:
        assert len(place.decisions()) == 17
        assert (now["default"]["state"], now["default"]["experiment"]) == ("canary", "e7")

    goes_on(place, served["default"])
    kept = len(place.decisions())
    system.kill("controller")
    system.start("controller")
    assert len(place.decisions()) == kept, "the second start changes nothing"
    seals_hold(system)
    code, again = replay(system)
    assert code == 0 and (again["sealed"], again["recomputed_from"]) == (
        report["sealed"], report["recomputed_from"]), again
    with sqlite3.connect(system.database) as db:  # a row of the old version is vouched for as well
        db.execute("UPDATE scores SET reward=reward/2 WHERE row=100")
    code, changed = replay(system)
    assert code == 1 and not changed["agrees"]


def goes_on(injector, champion):
    """The upgraded route tries a bad change and rolls it back."""
    system = injector.system
    injector.seq = 670
    if routes(system)["default"]["state"] == "canary":
        assert injector.post("/api/stop")[0] == 200
    trial = injector.start_trial(1.7)
    frames = []
    for k in range(300):
        is_new = k % 2 == 0
        frames.append(injector.frame(
            "challenger" if is_new else "champion", trial["revision"] if is_new else champion,
            trial["experiment"], 0.5, injector.near(0.1 if is_new else 0.9)))
    injector.send_and_wait(frames)
    until(lambda: injector.decisions()[-1]["action"] == "quarantine", 30, "rolled back")
    assert routes(system)["default"]["champion"]["revision"] == champion


def enlarge(system, n):
    """n more outputs and scores, copies of the first ones, of a route that nobody serves."""
    with sqlite3.connect(system.database) as db:
        last = db.execute("SELECT max((SELECT max(row) FROM scores), (SELECT max(ord) FROM events), "
                          "(SELECT max(id) FROM outputs))").fetchone()[0]
        more = {"request_id": "'more-'||i", "route": "'bulk'"}
        for table, key, own in (("outputs", "id", {"engine": "'e9'", "seq": "i", "admission": "i"}),
                                ("scores", "row", {"output": f"{last}+i"})):
            own = {**more, **own, key: f"{last}+i"}
            kept = [c[1] for c in db.execute(f"PRAGMA table_info({table})") if c[1] not in own]
            db.execute(f"WITH RECURSIVE k(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM k WHERE i<{n}), "
                       f"one AS MATERIALIZED (SELECT * FROM {table} ORDER BY {key} LIMIT 1) "
                       f"INSERT INTO {table}({','.join([*kept, *own])}) "
                       f"SELECT {','.join([*kept, *own.values()])} FROM k, one")


@pytest.mark.parametrize("number, event", [(1, "store.upgrade"), (5, "law.check")])
def test_a_long_start_stops_at_once_and_the_next_one_goes_on(place, number, event):
    system = place.system
    unpack(system, number)
    enlarge(system, 40000)
    before = [system.rows(sql) for sql in LISTS[:3]]
    system.start("controller", wait=False)
    until(lambda: f"ev={event} " in system.tail("controller"), 60, f"{event} begins")
    process = system.process.pop("controller")
    process.terminate()
    assert process.wait(timeout=5 * SLOW) == 0, system.tail("controller")
    said = system.tail("controller")
    assert "controller.start_stopped" in said and "controller.ready" not in said, said
    for sql, was in zip(LISTS, before):
        assert system.rows(sql) == was, sql
    system.start("controller")
    status = system.get("controller", "/api/status")[2]
    assert len(place.decisions()) == 17 + (3 if SEALED[number] else 0)
    assert status["routes"][0]["champion"]["revision"]


def test_a_newer_database_is_refused(place):
    system = place.system
    unpack(system, 5)
    with sqlite3.connect(system.database) as db:
        db.execute("PRAGMA user_version=99")
    before = system.rows("SELECT count(*), max(number) FROM decisions")
    done = subprocess.run([BIN / "milepost-controller", "--config", system.config],
                          capture_output=True, text=True, timeout=30 * SLOW)
    assert done.returncode == 1 and "newer" in done.stderr and "99" in done.stderr, done.stderr
    code, said = replay(system)
    assert code == 1 and "newer version (schema 99" in said
    assert system.rows("SELECT count(*), max(number) FROM decisions") == before
