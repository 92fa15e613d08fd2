"""`milepost up` as a person uses it: ready, restart of what dies, Ctrl-C, and the commands."""

import json
import os
import signal
import subprocess

from checks import everything_is_stored_once, replay_agrees
from system import BIN, SLOW, System, until


class Up:
    def __init__(self, system, *extra):
        self.system = system
        self.log = open(system.folder / "up.log", "w+", encoding="utf-8")
        self.process = subprocess.Popen([BIN / "milepost", "up", "--config", system.config, *extra],
                                        stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)

    def text(self):
        return (self.system.folder / "up.log").read_text(errors="replace")

    def wait_ready(self):
        def ready():
            assert self.process.poll() is None, self.text()
            return "Milepost is up" in self.text()
        until(ready, 60, "up is ready")

    def stop(self, number=signal.SIGINT):
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(timeout=40 * SLOW)

    def children(self):
        done = subprocess.run(["pgrep", "-P", str(self.process.pid)], capture_output=True, text=True,
                              check=False)
        return [int(p) for p in done.stdout.split()]

    def child(self, name):
        for pid in self.children():
            try:
                with open(f"/proc/{pid}/cmdline", encoding="utf-8") as f:
                    if f"milepost-{name}" in f.read():
                        return pid
            except FileNotFoundError:
                pass  # it ended between the two looks
        return None


def milepost(system, *args, code=0, text=None):
    done = subprocess.run([BIN / "milepost", *args, "--config", system.config], capture_output=True,
                          input=text, text=True, timeout=60 * SLOW, check=False)
    assert done.returncode == code, f"{args}: exit {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout if code == 0 else done.stderr


def test_up_restart_and_stop(folder, tiny):
    system = System(folder, tiny)
    up = Up(system)
    try:
        up.wait_ready()
        status, _, body = system.chat()
        assert status == 200
        for name in ("engine", "verifier", "controller"):
            old = up.child(name)
            os.kill(old, signal.SIGKILL)
            until(lambda: up.child(name) not in (None, old), 20, f"{name} is restarted")
            assert f"{name} ended (killed by SIGKILL)" in up.text()

            def healthy():
                try:
                    return system.get(name, "/health")[0] == 200
                except OSError:
                    return False
            until(healthy, 30, f"{name} answers again")
        everything_is_stored_once(system, [body["id"]])
        pids = up.children()
    finally:
        code = up.stop()
    assert code == 0, up.text()
    assert not any(os.path.exists(f"/proc/{p}") for p in pids), "a child outlived milepost up"
    assert "had to be killed" not in up.text(), up.text()
    replay_agrees(system)


def test_children_die_with_up(folder, tiny):
    system = System(folder, tiny)
    up = Up(system)
    up.wait_ready()
    pids = up.children()
    up.stop(signal.SIGKILL)
    until(lambda: not any(os.path.exists(f"/proc/{p}") for p in pids), 20, "the children end")


def test_second_up_is_refused(folder, tiny):
    system = System(folder, tiny)
    up = Up(system)
    try:
        up.wait_ready()
        done = subprocess.run([BIN / "milepost", "up", "--config", system.config], timeout=30 * SLOW,
                              capture_output=True, text=True, check=False)
        assert done.returncode == 1 and "another 'milepost up'" in done.stderr, done.stderr
    finally:
        up.stop()


def test_a_wrong_command_line_says_what_was_meant(folder, tiny):
    system = System(folder, tiny)
    assert "did you mean 'status'" in milepost(system, "statsu", code=2)
    assert "none of controller, verifier, engine" in milepost(system, "up", "--only", "engne", code=2)
    assert "(default )" not in milepost(system, "params", "--help")
    assert "(default -1)" not in milepost(system, "experiment", "--help")
    for args in (("reference",), ("schema",), ("check",)):
        json.loads(milepost(system, "config", *args, "--json"))


def test_commands(folder, tiny):
    system = System(folder, tiny)
    up = Up(system)
    try:
        up.wait_ready()
        answer = milepost(system, "chat", "Hello", "--json")
        assert json.loads(answer)["usage"]["completion_tokens"] > 0
        milepost(system, "chat", text="Hello\n/usage\n/reset\n/quit\n")
        until(lambda: system.count_outputs() == 2, 20, "two outputs are stored")

        def status():
            return json.loads(milepost(system, "status", "--json"))

        until(lambda: status()["outputs"] == 2 and status()["engines"], 10, "the status shows both")
        assert status()["engines"][0]["engine"] == "e1"
        assert "default" in milepost(system, "status")
        scores = json.loads(milepost(system, "scores", "--worst", "--limit", "5", "--json"))
        assert len(scores["scores"]) == 2
        assert "size=" in milepost(system, "scores")
        assert "temperature=0.8" in milepost(system, "params", "show")
        error = milepost(system, "params", "set", "temprature=0.5", code=2)
        assert "temperature" in error
        error = milepost(system, "params", "set", "temperature=9", code=2)
        assert "temperature" in error and "9" in error
        for args in (("rollback", "--route", b"\xff"), ("rollback", "--reason", b"caf\xe9"),
                     ("params", "set", "temperature=0.6", "--reason", b"\xe9")):
            assert "UTF-8" in milepost(system, *args, code=2), "another command was sent instead"
        assert len(json.loads(milepost(system, "params", "history", "--json"))["revisions"]) == 1
        assert "no route 'a b&limit=0'" in milepost(system, "scores", "--route", "a b&limit=0", code=1)
        changed = json.loads(milepost(system, "params", "set", "temperature=0.5", "--now", "--reason",
                                      "test", "--json"))
        number = str(changed["revision"])
        history = milepost(system, "params", "history")
        assert "temperature=0.5" in history and "operator:" in history and "on trial" in history
        first = json.loads(milepost(system, "params", "show", "--json"))["champion"]["number"]
        difference = milepost(system, "params", "diff", str(first), number)
        assert "temperature: 0.8" in difference and "0.5" in difference
        milepost(system, "rollback", "--reason", "test")
        shown = json.loads(milepost(system, "params", "show", "--json"))
        assert shown["champion"]["number"] == first and shown["challenger"] is None
        assert "paused" in milepost(system, "pause", "--reason", "test")
        assert "goes on" in milepost(system, "resume")
        assert "no canary" in milepost(system, "promote", code=1)
        changed = json.loads(milepost(system, "params", "set", "temperature=0.6", "--json"))
        assert "promoted" in milepost(system, "promote")
        shown = json.loads(milepost(system, "params", "show", "--json"))
        assert shown["champion"]["number"] == changed["revision"]
        assert "no canary" in milepost(system, "stop", code=1)
        assert "is fine" in milepost(system, "config", "check", str(system.config))
        assert "max_running" in milepost(system, "config", "reference")
        replay_agrees(system)
    finally:
        assert up.stop() == 0, up.text()
    error = milepost(system, "status", code=1)
    assert "milepost up" in error


def test_a_failed_start_shows_its_own_log_only(folder, tiny):
    system = System(folder, tiny)
    up = Up(system)
    up.wait_ready()
    assert up.stop() == 0
    bad = system.folder / "bad.gguf"
    bad.write_bytes(b"no model")
    done = subprocess.run([BIN / "milepost", "up", "--config", system.config, "--model", bad],
                          timeout=60 * SLOW, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "not a GGUF file" in done.stderr, done.stderr
    assert "engine.ready" not in done.stderr, "lines of an earlier run"
