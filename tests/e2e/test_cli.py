"""The milepost command for people: completion as bash and zsh do it, colour, errors that say what
to do, orders to an engine."""

import json
import os
import pty
import re
import select
import shutil
import subprocess
import time

import pytest

from system import BIN, SLOW, Load, until

MILEPOST = BIN / "milepost"


def run(*words, **env):
    return subprocess.run([MILEPOST, *words], capture_output=True, text=True, timeout=60 * SLOW,
                          env={**os.environ, **env})


def commands():
    return re.findall(r"^  ([a-z]+) ", run("--help").stdout, re.M)


@pytest.fixture(scope="module")
def script(tmp_path_factory):
    path = tmp_path_factory.mktemp("completion") / "milepost.bash"
    path.write_text(run("completion", "bash").stdout)
    return path


def complete(script, *words, folder="/"):
    """What bash offers for the last word."""
    words = ["milepost", *words]
    line = (f"source {script}; cd {folder}; COMP_WORDS=({' '.join(repr(w) for w in words)}); "
            f"COMP_CWORD={len(words) - 1}; _milepost; printf '%s\\n' \"${{COMPREPLY[@]}}\"")
    done = subprocess.run(["bash", "--norc", "-ec", line], capture_output=True, text=True, timeout=30)
    assert done.returncode == 0 and not done.stderr, done.stderr
    return set(done.stdout.split())


def test_bash_completes_what_the_help_lists(script, tmp_path):
    assert complete(script, "") == {*commands(), "--help", "--version"}
    assert complete(script, "para") == {"params"}
    for command in commands():
        words = (command, "serve") if command == "bench" else (command,)
        listed = set(re.findall(r"^ *(?:-\w, )? *(--[a-z0-9-]+)", run(*words, "--help").stdout, re.M))
        offered = {w for w in complete(script, command, "-") if w.startswith("--")}
        assert offered == listed and "--help" in offered, command
    assert complete(script, "engine", "") == {"list", "orders", "drain", "resume", "flush-cache", "load-weights"}
    assert complete(script, "params", "s") == {"show", "set"}
    (tmp_path / "mine.yaml").touch()
    assert complete(script, "status", "--config", "mi", folder=tmp_path) == {"mine.yaml"}
    assert not complete(script, "scores", "--limit", "")


def test_a_misspelt_word_gets_the_one_that_is_offered(script, tmp_path):
    offered = {c: complete(script, c, "", folder=tmp_path) for c in commands() if c != "bench"}
    assert len([c for c in offered if offered[c]]) >= 5
    for command, words in offered.items():
        for word in words:
            done = run(command, word + "x")
            assert done.returncode == 2 and f"did you mean '{word}'" in done.stderr, (command, word)


def shell(argv, *lines, seconds=30):
    """What an interactive program shows for these (line, what must be seen before the next one)."""
    pid, fd = pty.fork()
    if pid == 0:
        os.execvpe(argv[0], argv, {**os.environ, "TERM": "xterm", "PS1": "$ ", "NO_COLOR": ""})
    shown = ""
    end = time.monotonic() + seconds * SLOW
    try:
        for line, wanted in (lines or [("", None)]):
            os.write(fd, line.encode())
            seen = ""
            while wanted is None or wanted not in re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", seen):
                assert select.select([fd], [], [], max(0, end - time.monotonic()))[0], (line, shown)
                try:
                    data = os.read(fd, 65536)
                except OSError:  # the program has ended
                    break
                if not data:
                    break
                seen += data.decode(errors="replace")
                shown += data.decode(errors="replace")
    finally:
        os.close(fd)
        os.waitpid(pid, 0)
    return shown


@pytest.mark.skipif(not shutil.which("zsh"), reason="skipped: no zsh")
def test_zsh_completes(tmp_path):
    script = tmp_path / "milepost.zsh"
    script.write_text(run("completion", "zsh").stdout)
    shell(["zsh", "-f"], ("autoload -U compinit; compinit -D -u; echo rea''dy\n", "ready"),
          (f"source {script}; echo loa''ded\n", "loaded"), ("milepost par\t", "params "),
          ("\x15milepost engine flu\t", "flush-cache "), ("\x15milepost scores --lim\t", "--limit "), ("\x15exit\n", None))


def test_colour_only_on_a_terminal():
    assert "\x1b" not in run("--help").stdout and "\x1b" not in run("nonsense").stderr
    assert "\x1b[1m" in shell([str(MILEPOST), "--help"], seconds=5)
    assert "\x1b[31m" in shell([str(MILEPOST), "params", "shw"], seconds=5)
    assert "\x1b" not in shell(["env", "NO_COLOR=1", str(MILEPOST), "--help"], seconds=5)
    assert "\x1b" not in shell(["env", "TERM=dumb", str(MILEPOST), "--help"], seconds=5)


@pytest.mark.parametrize("words, says", [
    (["statsu"], "did you mean 'status'"),
    (["status", "--jsn"], "did you mean --json"),
    (["scores", "--limit", "many"], "whole number in [1, 1000]"),
    (["scores", "--limit"], "needs a value"),
    (["engine"], "Usage: milepost engine"),
    (["engine", "load-weights"], "needs a FILE"),
    (["status", "--controller", "http://127.0.0.1:1"], "milepost up"),
    (["config", "check", "/nowhere.yaml"], "/nowhere.yaml"),
])
def test_errors_say_what_to_do(words, says):
    done = run(*words)
    assert done.returncode in (1, 2) and says in done.stderr, done.stderr
    assert done.stdout == ""


def test_orders_to_an_engine(make_system, tiny):
    system = make_system(tiny)
    system.start()

    def engine(*words):
        return run("engine", *words, "--config", str(system.config))

    until(lambda: "e1" in engine("list").stdout, 20, "the engine is listed")
    assert "no new requests" in engine("drain").stdout
    order, = until(lambda: json.loads(engine("orders", "--json").stdout), 10, "it is kept")
    assert (order["engine"], order["command"], order["is_ok"]) == ("e1", "drain", True)
    assert "no new requests" in order["answer"] and order["actor"].startswith("operator:")
    assert system.chat()[0] == 503
    assert "taken again" in engine("resume", "e1").stdout
    assert system.chat(max_tokens=4)[0] == 200
    assert "forgotten" in engine("flush-cache").stdout
    assert "serve" in engine("load-weights", str(tiny)).stdout
    refused = engine("load-weights", "/nowhere.gguf")
    assert refused.returncode == 1 and "the engine refused: /nowhere.gguf" in refused.stderr
    missing = engine("drain", "e2")
    assert missing.returncode == 1 and "no engine 'e2'" in missing.stderr
    assert system.chat(max_tokens=4)[0] == 200


def doctor(system, code, *words):
    done = run("doctor", "--config", str(system.config), "--seconds", "2", "--json", *words)
    assert done.returncode == code, done.stdout + done.stderr
    report = json.loads(done.stdout)
    return report["health"], {f["layer"]: f for f in report["findings"]}


def test_doctor(make_system, tiny):
    """Under load all is well and the numbers are those of the load; a dead verifier is found."""
    system = make_system(tiny)
    system.start()
    with Load(system, clients=3) as load:
        until(lambda: len(load.answered) > 5, 20, "answers")
        health, found = doctor(system, 0)
    assert health != "bad" and set(found) >= {"device", "ranks", "kv cache", "outbox", "verifier",
                                              "controller"}
    assert float(re.search(r"([0-9.]+) tokens/s generated", found["device"]["found"])[1]) > 0
    assert int(re.match(r"(\d+) outputs received", found["verifier"]["found"])[1]) > 0
    assert int(re.match(r"(\d+) scores committed", found["controller"]["found"])[1]) > 0
    table = run("doctor", "--config", str(system.config), "--seconds", "1")
    assert table.returncode == 0 and "idle: no request" in table.stdout, table.stdout + table.stderr
    system.kill("verifier")
    health, found = doctor(system, 1)
    assert health == "bad" and found["verifier"]["health"] == "bad"
    assert "milepost up" in found["verifier"]["advice"] and found["controller"]["health"] != "bad"
    health, found = doctor(system, 0, "--set", "loop.enabled=false")  # an engine alone has no loop
    assert "verifier" not in found and "outbox" not in found
