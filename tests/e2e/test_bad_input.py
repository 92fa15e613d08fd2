"""What is wrong from outside gives a clear error or a counted drop, never a crash or a hang."""

import json
import os
import random
import resource
import socket
import subprocess
import time

import pytest

import tiny_model
from checks import finished_ids
from system import BIN, CONFIG, SLOW, Load, System, free_ports, until


def run_engine(folder, model, *extra, config=CONFIG, preexec_fn=None, seconds=30):
    """Runs the engine until it ends by itself; (exit code, its stderr)."""
    ports = free_ports(3)
    path = os.path.join(folder, "milepost.yaml")
    with open(path, "w", encoding="utf-8") as out:
        out.write(config.format(folder=folder, model=model, engine=ports[2], verifier=ports[1],
                                controller=ports[0]))
    done = subprocess.run([BIN / "milepost-engine", "--config", path, *extra], timeout=seconds * SLOW,
                          capture_output=True, text=True, preexec_fn=preexec_fn, check=False)
    return done.returncode, done.stderr + done.stdout


def refuses(result, *words):
    code, text = result
    assert code in (1, 2), f"exit code {code}\n{text}"
    for word in words:
        assert word in text, f"'{word}' is not in\n{text}"


@pytest.mark.parametrize("cut", [0, 3, 4, 23, 24, 100, 5000, 20000, 200000, -1])
def test_truncated_model(folder, tiny, cut):
    path = os.path.join(folder, "cut.gguf")
    with open(path, "wb") as out:
        out.write(tiny.read_bytes()[:cut])
    refuses(run_engine(folder, path), "cut.gguf")


@pytest.mark.parametrize("seed", range(12))
def test_corrupted_model_is_refused_or_served(folder, tiny, seed):
    """Flipped bytes in the head: refused, or harmless (a name). The engine never crashes."""
    rng = random.Random(seed)
    data = bytearray(tiny.read_bytes())
    for _ in range(3):
        data[rng.randrange(4, 12000)] = rng.randrange(256)
    path = os.path.join(folder, "bad.gguf")
    with open(path, "wb") as out:
        out.write(data)
    system = System(folder, path)
    system.start("engine", wait=False)
    engine = system.process["engine"]

    def ended_or_healthy():
        if engine.poll() is not None:
            return True
        try:
            return system.get("engine", "/health")[0] == 200
        except OSError:
            return False

    until(ended_or_healthy, 30, "the engine refuses or serves")
    if engine.poll() is None:
        system.stop()
        assert not system.crashes, system.crashes
        return
    text = system.tail("engine")
    assert engine.returncode in (1, 2), f"exit code {engine.returncode}\n{text}"
    assert "bad.gguf" in text, text


def test_unknown_architecture(folder):
    path = os.path.join(folder, "m.gguf")
    tiny_model.write(path, architecture="mamba")
    refuses(run_engine(folder, path), "mamba", "llama")


def test_unknown_template(folder):
    path = os.path.join(folder, "m.gguf")
    tiny_model.write(path, template="{% for m in messages %}[{{ m.content }}]{% endfor %}")
    refuses(run_engine(folder, path), "template", "chatml")


def test_no_model(folder):
    refuses(run_engine(folder, os.path.join(folder, "absent.gguf")), "absent.gguf")


def test_unknown_config_key(folder, tiny):
    config = CONFIG.replace("  max_running: 16", "  max_runing: 16")
    code, text = run_engine(folder, tiny, config=config)
    assert code == 2, text
    for word in ("max_runing", "max_running", "milepost.yaml:"):
        assert word in text, text


def test_wrong_type_in_config(folder, tiny):
    config = CONFIG.replace("  max_running: 16", "  max_running: many")
    code, text = run_engine(folder, tiny, config=config)
    assert code == 2 and "max_running" in text and "many" in text, text


def test_busy_port(folder, tiny, make_system):
    system = make_system(tiny)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", system.port["engine"]))
        taken.listen()
        done = subprocess.run([BIN / "milepost-engine", "--config", system.config],
                              timeout=30 * SLOW, capture_output=True, text=True, check=False)
        assert done.returncode == 1, done.stderr
        assert str(system.port["engine"]) in done.stderr, done.stderr
        done = subprocess.run([BIN / "milepost", "up", "--config", system.config],
                              timeout=30 * SLOW, capture_output=True, text=True, check=False)
        assert done.returncode == 1, done.stderr
        assert str(system.port["engine"]) in done.stderr and "in use" in done.stderr, done.stderr


def test_state_folder_cannot_be_written(folder, tiny):
    """A file where the folder should be: the same refusal for root, whom permissions do not stop."""
    path = os.path.join(folder, "state")
    with open(path, "w", encoding="utf-8"):
        pass
    refuses(run_engine(folder, tiny), "state")


@pytest.mark.skipif(os.geteuid() == 0 and not os.path.exists("/usr/bin/setpriv"), reason="no setpriv")
def test_read_only_folder(folder, tiny):
    state = os.path.join(folder, "state")
    os.mkdir(state)
    os.chmod(state, 0o555)
    os.chmod(folder, 0o755)

    def as_nobody():
        if os.geteuid() == 0:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)

    with open(os.path.join(folder, "tiny.gguf"), "wb") as out:
        out.write(tiny.read_bytes())
    if subprocess.run([BIN / "milepost-engine", "--version"], preexec_fn=as_nobody, check=False,
                      stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode != 0:
        pytest.skip("skipped: another user cannot reach the build folder")
    refuses(run_engine(folder, os.path.join(folder, "tiny.gguf"), preexec_fn=as_nobody), state)


def test_ten_megabyte_body(make_system, tiny):
    system = make_system(tiny)
    system.start("engine")
    body = json.dumps({"messages": [{"role": "user", "content": "x" * 10_000_000}]}).encode()
    try:
        status, _, answer = system.call("engine", "POST", "/v1/chat/completions", body)
        assert status in (400, 413), answer
        if isinstance(answer, dict):
            assert answer["error"]["message"]
    except (BrokenPipeError, ConnectionResetError):
        pass  # refused before the body was read
    assert system.chat()[0] == 200, "the engine still serves"


@pytest.mark.parametrize("field, value", [
    ("temperature", "hot"), ("max_tokens", 1.5), ("max_tokens", -1), ("messages", "hello"),
    ("messages", []), ("stream", "yes"), ("n", 0), ("top_p", 7), ("stop", 5), ("seed", "x"),
    ("logit_bias", [1]), ("messages", [{"role": "user"}]), ("messages", [5]),
])
def test_wrong_field(make_system, tiny, field, value):
    system = make_system(tiny)
    system.start("engine")
    body = {"messages": [{"role": "user", "content": "hi"}], field: value}
    status, _, answer = system.call("engine", "POST", "/v1/chat/completions", body)
    assert status == 400, answer
    error = answer["error"]
    assert error["type"] == "invalid_request_error" and error["message"]
    assert field in (error.get("param") or "") + error["message"], error
    assert system.chat()[0] == 200


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b"\xff\xfe", b"[" * 100_000,
                                  b'{"messages":[{"role":"user","content":"\\ud800"}]}'])
def test_body_that_is_no_request(make_system, tiny, body):
    system = make_system(tiny)
    system.start("engine")
    status, _, answer = system.call("engine", "POST", "/v1/chat/completions", body)
    assert status in (200, 400) and (status == 200 or answer["error"]["message"]), answer
    assert system.chat()[0] == 200


def dropped(system):
    _, _, text = system.get("engine", "/metrics")
    values = [line.split()[-1] for line in text.splitlines()
              if line.startswith("milepost_outbox_dropped_total")]
    return sum(float(v) for v in values)


def fill_up(system):
    """Load until the engine counts a drop; serving must not suffer meanwhile."""
    end = time.monotonic() + 60 * SLOW
    answered = 0
    while dropped(system) == 0 and time.monotonic() < end:
        with Load(system, clients=8, max_tokens=40) as load:
            time.sleep(1)
        answered += len(load.answered)
        assert load.broken == 0 and not load.hung, "a full disk stopped the serving"
    assert dropped(system) > 0, f"{answered} answered and nothing dropped"
    until(lambda: system.chat()[0] == 200, 10, "the engine still serves")


def test_file_size_limit_of_the_outbox(make_system, tiny):
    """No file of the engine may grow past 256 KiB."""
    system = make_system(tiny)

    def limited():
        resource.setrlimit(resource.RLIMIT_FSIZE, (256 * 1024, 256 * 1024))

    with open(os.devnull, "wb") as nowhere:
        system.process["engine"] = subprocess.Popen(
            [BIN / "milepost-engine", "--config", system.config], stdin=subprocess.DEVNULL,
            stdout=nowhere, stderr=nowhere, preexec_fn=limited)
    system.wait_healthy("engine")
    fill_up(system)


def test_full_disk_of_the_outbox(make_system, tiny):
    """The state folder is a file system of 512 KiB; when the disk has room again, all is well."""
    system = make_system(tiny)
    state = system.folder / "state"
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", state], check=False,
                      stderr=subprocess.DEVNULL).returncode != 0:
        pytest.skip("skipped: may not mount a small file system here")
    try:
        system.start("engine")
        fill_up(system)
        subprocess.run(["mount", "-o", "remount,size=64m", state], check=True)
        before = dropped(system)
        with Load(system, clients=4, max_tokens=16) as load:
            time.sleep(2)
        assert load.answered and load.broken == 0
        system.start("verifier", "controller")
        until(lambda: set(load.answered[-20:]) <= set(finished_ids(system)), 30,
              "what came after the disk had room is stored")
        assert dropped(system) >= before
    finally:
        system.stop()
        subprocess.run(["umount", "-l", state], check=True)
