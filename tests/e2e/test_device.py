"""A device that breaks, on the emulator: every call after the fault fails, the engine ends with exit
code 3, its supervisor starts another, and what was answered is stored. And a device too small."""

import os
import re
import subprocess

from checks import everything_is_stored_once
from system import BIN, SLOW, System, until
from test_up import Up

ON_SIMT = ("--set", "engine.device=simt")
LAUNCHES = 700  # some answers, then the fault


def ask(system, n):
    """Ids of the answered; the first refusal, or None."""
    answered = []
    for i in range(n):
        try:
            status, _, body = system.chat(f"Number {i}.", temperature=0, max_tokens=4)
        except OSError:  # it has ended
            return answered, "gone"
        if status != 200:
            return answered, (status, body["error"]["message"])
        answered.append(body["id"])
    return answered, None


def test_a_broken_device_ends_the_process_with_code_3(make_system, tiny, monkeypatch):
    system = make_system(tiny)
    system.start("controller", "verifier")
    monkeypatch.setenv("SIMT_FAIL_LAUNCH", str(LAUNCHES))
    system.start("engine", extra=ON_SIMT)
    answered, (status, message) = ask(system, 60)
    assert answered and status in (500, 503) and "device" in message, (answered, status, message)
    assert system.process["engine"].wait(timeout=30 * SLOW) == 3, system.tail("engine")
    assert "api.device_lost" in system.tail("engine")
    monkeypatch.delenv("SIMT_FAIL_LAUNCH")
    system.start("engine", extra=ON_SIMT)
    assert ask(system, 1)[1] is None
    everything_is_stored_once(system, answered)


def test_the_supervisor_starts_another(folder, tiny, monkeypatch):
    monkeypatch.setenv("SIMT_FAIL_LAUNCH", str(LAUNCHES))
    system = System(folder, tiny)
    up = Up(system, *ON_SIMT)
    try:
        up.wait_ready()
        old = up.child("engine")
        answered, refusal = ask(system, 60)
        assert answered and refusal
        until(lambda: up.child("engine") not in (None, old), 30, "the engine is restarted")
        assert "engine ended (exit code 3)" in up.text(), up.text()

        def healthy():
            try:
                return system.get("engine", "/health")[0] == 200
            except OSError:
                return False
        until(healthy, 30, "the engine answers again")
        answered += ask(system, 1)[0]
        everything_is_stored_once(system, answered)
    finally:
        code = up.stop()
    assert code == 0, up.text()


def start_with(system, *settings, **environment):
    sets = [word for s in settings for word in ("--set", s)]
    return subprocess.run([BIN / "milepost-engine", "--no-loop", "--config", system.config, *ON_SIMT, *sets],
                          env={**os.environ, **environment}, capture_output=True, text=True,
                          timeout=60 * SLOW, check=False)


def test_mem_fraction_is_of_the_device(make_system, tiny):
    system = make_system(tiny)
    none = start_with(system, "engine.kv_tokens=0", "engine.mem_fraction=0.01", SIMT_MEMORY_MIB="8")
    assert none.returncode == 1, none.stderr
    assert "mem_fraction: 0.01 of 8 MiB" in none.stderr and "leaves nothing" in none.stderr
    small = start_with(system, SIMT_MEMORY_MIB="1")
    assert small.returncode == 1 and re.search(r"no memory for .*: \d+ of the device's 1 MiB are free",
                                               small.stderr), small.stderr


def test_mem_fraction_decides_the_cache(make_system, tiny, monkeypatch):
    monkeypatch.setenv("SIMT_MEMORY_MIB", "2048")
    tokens = []
    for fraction, ranks in ((0.1, 1), (0.2, 1), (0.1, 2)):  # each of two ranks has a device, and half the heads
        system = make_system(tiny)
        system.start("engine", extra=(*ON_SIMT, "--no-loop", "--set", "engine.kv_tokens=0",
                                      "--set", f"engine.mem_fraction={fraction}",
                                      "--set", f"engine.tp_size={ranks}"))
        used = re.search(r"^milepost_gpu_memory_used_bytes (\S+)", system.get("engine", "/metrics")[2], re.M)
        assert 0.5 < float(used[1]) / (fraction * 2**31) <= 1
        tokens.append(int(re.findall(r"kv_tokens=(\d+)", system.tail("engine"))[-1]))
        assert ask(system, 1)[1] is None
        system.stop()
    assert 1.9 < tokens[1] / tokens[0] < 2.3 and 1.9 < tokens[2] / tokens[0] < 2.3, tokens


def test_prompts_by_the_library(make_system, tiny):
    """engine.gemm: cublaslt. On the emulator a loop stands for the library; `cpu` has none."""
    system = make_system(tiny)
    system.start("engine", extra=(*ON_SIMT, "--no-loop", "--set", "engine.gemm=cublaslt"))
    status, _, body = system.chat("A long prompt. " * 40, temperature=0, max_tokens=4)
    assert status == 200 and body["usage"]["prompt_tokens"] > 200
    system.stop()
    refused = start_with(system, "engine.device=cpu", "engine.gemm=cublaslt")
    assert refused.returncode == 1 and "engine.gemm cublaslt is for devices cuda and simt" in refused.stderr
