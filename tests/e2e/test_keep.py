"""What leaves the store: the dataset, a backup taken under load, the reasons of a decision. And two
engines on one controller, one of them coming back with an old state."""

import json
import subprocess
import time

from system import BIN, Load, free_ports, until


def milepost(system, *words, code=0):
    r = subprocess.run([BIN / "milepost", *words, "--config", system.config], capture_output=True,
                       text=True, timeout=60)
    assert r.returncode == code, r.stderr
    return r.stdout


def test_export_backup_and_why(make_system, tiny, tmp_path):
    system = make_system(tiny)
    system.start()
    with Load(system) as load:
        time.sleep(2)
    until(lambda: system.count_outputs() >= len(load.answered), 20, "all outputs are stored")
    lines = [json.loads(text) for text in milepost(system, "export", "--since", "1h").splitlines()]
    assert {x["request_id"] for x in lines} >= set(load.answered)
    for x in lines:
        assert len(x["token_ids"]) == len(x["logprobs"]) and x["messages"][-1]["content"]
        assert x["token_ids"] or not x["text"]
        assert all(p <= 0 for p in x["logprobs"]) and x["effective"]["temperature"] == 0.8
        assert {c["id"] for c in x["checks"]} == {"cut", "size"} and x["revision"] in (0, 1)
    assert sum(len(x["token_ids"]) > 0 for x in lines) > len(lines) / 2
    stored = dict(system.rows("SELECT request_id, reward FROM scores"))
    assert all(stored[x["request_id"]] == x["reward"] for x in lines)
    summary = json.loads(milepost(system, "export", "-o", str(tmp_path / "d.jsonl"), "--json"))
    assert summary["outputs"] == len(lines) and summary["without_text"] == 0

    copy = str(tmp_path / "copy.db")
    with Load(system, seed=2):
        milepost(system, "backup", copy)
    assert "sound" in milepost(system, "backup", "--check", copy)
    assert "all agree" in milepost(system, "replay", copy)
    milepost(system, "backup", copy, code=1)  # never over a file
    with open(copy, "r+b") as f:
        f.seek(8192)
        f.write(b"\xff" * 4096)
    milepost(system, "backup", "--check", copy, code=1)

    why = json.loads(milepost(system, "why", "1", "--json"))
    assert why["decision"]["action"] == "champion" and why["chain"]["is_linked"]
    assert "decision 1: champion" in milepost(system, "why", "1")
    milepost(system, "why", "99", code=1)


def applied(system):
    """Of each engine, from /metrics: what it applies; and what is desired."""
    text = system.get("controller", "/metrics")[2]
    version = {}
    for line in text.splitlines():
        if line.startswith("milepost_engine_applied_version{"):
            version[line.split('"')[1]] = float(line.split()[-1])
        if line.startswith("milepost_desired_version "):
            version[""] = float(line.split()[-1])
    return version


def start_second(system, folder):
    """Another engine: its own port, outbox and outputs address, on the same controller."""
    port, = free_ports(1)
    extra = ["engine.id=e2", f"engine.port={port}", "loop.outbox=second.outbox.sqlite",
             f"loop.outputs=ipc://{folder}/second.sock"]
    words = [w for x in extra for w in ("--set", x)]
    with open(folder / "second.log", "ab") as log:
        return subprocess.Popen([BIN / "milepost-engine", "--config", system.config, *words],
                                stdout=log, stderr=log)


def test_two_engines_converge(make_system, tiny, tmp_path):
    system = make_system(tiny)
    system.start()
    second = start_second(system, system.folder)
    try:
        until(lambda: set(applied(system)) == {"", "e1", "e2"} and
              len(set(applied(system).values())) == 1, 20, "both engines apply what is desired")
        second.kill()
        second.wait()
        old = applied(system)["e2"]
        status, _, _ = system.call("controller", "POST", "/api/params",
                                   {"params": {"temperature": 0.4}, "now": True})
        assert status == 200
        until(lambda: applied(system)["e1"] == applied(system)[""] > old, 5, "e1 follows")
        assert applied(system)["e2"] == old, "the metric shows who is behind"
        second = start_second(system, system.folder)
        until(lambda: b"ev=engine.ready" in (system.folder / "second.log").read_bytes()
              .rsplit(b"ev=engine.stopped", 1)[-1] or applied(system)["e2"] > old, 20, "e2 is back")
        began = time.monotonic()
        until(lambda: applied(system)["e2"] == applied(system)[""], 5, "e2 converges")
        assert time.monotonic() - began < 1.5, "within a second of being back"
    finally:
        second.kill()
        second.wait()
