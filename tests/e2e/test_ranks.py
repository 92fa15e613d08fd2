"""One model on two processes (engine.tp_size): same answers, and nothing lost when one dies."""

import os
import re
import signal
import subprocess

import pytest

from system import SLOW, until

TP = ("--set", "engine.tp_size=2")
ASK = {"temperature": 0, "max_tokens": 24}


def ranks_of(system):
    """Process ids of the engine's other ranks."""
    done = subprocess.run(["ps", "-o", "pid=", "--ppid", str(system.process["engine"].pid)],
                          capture_output=True, text=True, check=False)
    return [int(p) for p in done.stdout.split()]


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as f:
            return f.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def answers(system):
    got = [system.chat(text, **ASK) for text in ("One.", "Two, and a longer one.", "3")]
    assert [status for status, _, _ in got] == [200, 200, 200]
    return [body["choices"][0]["message"]["content"] for _, _, body in got]


def test_two_ranks_answer_as_one(make_system, tiny):
    system = make_system(tiny)
    system.start("engine")
    alone = answers(system)
    assert system.kill("engine", signal.SIGTERM) == 0
    system.start("engine", extra=TP)
    (rank,) = ranks_of(system)
    assert answers(system) == alone
    metrics = system.get("engine", "/metrics")[2]
    assert float(re.search(r"^milepost_comm_seconds_total (\S+)", metrics, re.M)[1]) > 0
    assert 0 < float(re.search(r"^milepost_comm_ratio (\S+)", metrics, re.M)[1]) < 1
    os.kill(rank, signal.SIGTERM)  # as a service manager does to all: rank 0 decides
    assert answers(system) == alone
    assert system.kill("engine", signal.SIGTERM) == 0
    assert not is_alive(rank)


QUESTIONS = ("What is the capital of France?", "Write a short story about a fox and a river.",
             "List three reasons why the sky is blue.", "Explain how a steam engine works.")


def real_answers(system):
    """Token by token with logprobs: greedy ones, and drawn ones, where another last bit shows soonest."""
    got = []
    for seed, text in enumerate(QUESTIONS):
        for temperature in (0, 0.8):
            status, _, body = system.chat(text, timeout=60 * SLOW, temperature=temperature, seed=seed,
                                          max_tokens=16, logprobs=True, top_logprobs=2)
            assert status == 200, body
            got.append([(t["token"], t["logprob"], t["top_logprobs"])
                        for t in body["choices"][0]["logprobs"]["content"]])
    return got


@pytest.mark.skipif(SLOW > 1, reason="skipped: minutes under a sanitizer")
def test_ranks_of_a_real_model_give_every_bit_of_one(make_system, real_model):
    """Three have a KV head of SmolLM2 each, and shares of other sizes than two have."""
    system = make_system(real_model)
    system.start("engine")
    alone = real_answers(system)
    assert sum(len(a) for a in alone) > 60
    for size in (2, 3):
        assert system.kill("engine", signal.SIGTERM) == 0
        system.start("engine", extra=("--set", f"engine.tp_size={size}"))
        assert real_answers(system) == alone, f"{size} ranks"


def test_a_dead_rank_ends_the_engine_and_loses_nothing(make_system, tiny):
    system = make_system(tiny)
    system.start(extra=TP)
    answers(system)
    (rank,) = ranks_of(system)
    os.kill(rank, signal.SIGKILL)
    status, _, body = system.chat("One.", **ASK)
    assert status >= 500 and body["error"]["message"]
    assert system.process["engine"].wait(timeout=30 * SLOW) == 3, system.tail("engine")
    assert "rank 1 of 2" in system.tail("engine")
    system.start("engine", extra=TP)
    answers(system)
    until(lambda: system.count_outputs() >= 6, 30, "outputs of both lives are stored")


def test_ranks_die_with_the_engine(make_system, tiny):
    system = make_system(tiny)
    system.start("engine", extra=TP)
    (rank,) = ranks_of(system)
    system.kill("engine")
    until(lambda: not is_alive(rank), 10, "the other rank ends")
