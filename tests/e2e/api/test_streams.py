"""Streams on raw sockets: clients that leave, read slowly, come in crowds; the engine's end."""

import http.client
import json
import os
import resource
import signal
import socket
import time

import pytest

from system import SLOW, until

LONG = {"messages": [{"role": "user", "content": "Go on."}], "max_tokens": 900, "ignore_eos": True}


def metric(system, name):
    _, _, text = system.get("engine", "/metrics")
    return sum(float(line.split()[-1]) for line in text.splitlines()
               if line.split("{")[0].split(" ")[0] == name)


def idle(system):
    return (metric(system, "milepost_requests_running") == 0 and
            metric(system, "milepost_requests_waiting") == 0)


def send(system, body, receive_buffer=None):
    s = socket.socket()
    if receive_buffer:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    s.settimeout(30 * SLOW)
    s.connect(("127.0.0.1", system.port["engine"]))
    raw = json.dumps(body).encode()
    s.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s"
              % (len(raw), raw))
    return s


def start(make_system, tiny, *options):
    """With the slow backend: these tests need requests that are still running when they look."""
    system = make_system(tiny)
    extra = [x for option in ("engine.device=ref", *options) for x in ("--set", option)]
    system.start("engine", extra=extra)
    return system


def held_blocks_are_free(system):
    """All memory of requests that ended is back: a request that needs the whole pool gets in."""
    return metric(system, "milepost_kv_cache_usage_ratio") == 0


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_leaves_frees_its_place(make_system, tiny, stream):
    system = start(make_system, tiny)
    sockets = [send(system, {**LONG, "stream": stream}) for _ in range(8)]
    until(lambda: metric(system, "milepost_requests_running") == 8, 10, "8 requests run")
    if stream:
        assert b"data: " in sockets[0].recv(65536) + sockets[0].recv(65536)
    for s in sockets:
        s.close()
    began = time.monotonic()
    until(lambda: idle(system), 2, "all places are free")
    until(lambda: held_blocks_are_free(system), 2, "all blocks are free")
    assert time.monotonic() - began < 2 * SLOW
    generated = metric(system, "milepost_generation_tokens_total")
    assert generated < 8 * LONG["max_tokens"], "they were not generated to the end"
    text = system.get("engine", "/metrics")[2]
    cancelled = [line for line in text.splitlines() if 'milepost_finish_total{reason="cancelled"' in line]
    assert cancelled and float(cancelled[0].split()[-1]) == 8
    assert system.chat(max_tokens=2)[0] == 200


def test_a_client_that_leaves_the_queue(make_system, tiny):
    system = start(make_system, tiny, "engine.max_running=1")
    first = send(system, {**LONG, "stream": True})
    waiting = [send(system, {**LONG, "stream": bool(i % 2)}) for i in range(6)]
    until(lambda: metric(system, "milepost_requests_waiting") == 6, 10, "6 requests wait")
    for s in waiting:
        s.close()
    until(lambda: metric(system, "milepost_requests_waiting") == 0, 3, "the queue is empty")
    first.close()
    until(lambda: idle(system), 3, "idle")


def test_a_full_queue_is_refused_at_once(make_system, tiny):
    system = start(make_system, tiny, "engine.max_running=1", "engine.max_queue=2")
    sockets = [send(system, {**LONG, "stream": True}) for _ in range(3)]
    until(lambda: metric(system, "milepost_requests_waiting") == 2, 10, "2 requests wait")
    status, headers, body = system.chat(max_tokens=2, timeout=5)
    assert status == 503 and int(headers["Retry-After"]) >= 1
    assert body["error"]["code"] == "overloaded"
    status, _, body = system.chat(max_tokens=2, n=4, timeout=5)
    assert status == 503, "of four choices none fits"
    for s in sockets:
        s.close()
    until(lambda: idle(system), 5, "idle")
    assert system.chat(max_tokens=2)[0] == 200


def test_choices_that_half_fit_leave_nothing_behind(make_system, tiny):
    system = start(make_system, tiny, "engine.max_running=1", "engine.max_queue=1")
    status, _, _ = system.chat(max_tokens=4, n=4)
    assert status == 503
    until(lambda: idle(system) and held_blocks_are_free(system), 5, "idle")
    _, _, body = until(lambda: (r := system.chat(max_tokens=4, n=2))[0] == 200 and r, 5, "2 fit")
    assert len(body["choices"]) == 2
    assert metric(system, "milepost_outbox_stored_total") == 2, "refused choices are no outputs"


def test_a_slow_reader_is_cut_and_the_others_are_not(make_system, tiny):
    """Eight choices with log probabilities: some ten megabytes, of which the reader takes none."""
    system = start(make_system, tiny)
    slow = send(system, {**LONG, "stream": True, "logprobs": True, "top_logprobs": 20, "n": 8},
                receive_buffer=4096)
    until(lambda: metric(system, "milepost_requests_running") == 8, 10, "8 choices run")
    status, _, body = system.chat("Go on.", max_tokens=100, ignore_eos=True)
    assert status == 200 and body["usage"]["completion_tokens"] == 100
    until(lambda: idle(system), 30, "the slow ones ended too")
    reasons = [line for line in system.get("engine", "/metrics")[2].splitlines()
               if 'milepost_finish_total{reason="cancelled"' in line]
    assert reasons and float(reasons[0].split()[-1]) == 8
    assert "api.slow_client" in system.tail("engine")
    slow.close()


def read_all(s):
    data = b""
    while piece := s.recv(65536):
        data += piece
        if data.endswith(b"0\r\n\r\n"):
            break
    return data


def test_a_signal_lets_streams_end(make_system, tiny):
    system = start(make_system, tiny)
    n = int(400 / SLOW)  # well within the grace of a stop
    s = send(system, {**LONG, "max_tokens": n, "stream": True})
    first = s.recv(65536)
    assert first.startswith(b"HTTP/1.1 200")
    system.process["engine"].send_signal(signal.SIGTERM)
    data = first + read_all(s)
    assert data.count(b"data: ") > 0.75 * n and b"data: [DONE]" in data
    s.close()
    assert system.process["engine"].wait(timeout=15 * SLOW) == 0


def test_a_signal_ends_what_takes_too_long(make_system, tiny):
    """After the grace running requests end with what they have, waiting ones with a clean 503."""
    system = start(make_system, tiny, "engine.max_running=1", "engine.max_queue=128")
    sockets = [send(system, {**LONG, "n": 8, "stream": i % 2 == 0}) for i in range(12)]
    until(lambda: metric(system, "milepost_requests_waiting") > 60, 10, "they wait")
    system.process["engine"].send_signal(signal.SIGTERM)
    kinds = []
    for i, s in enumerate(sockets):
        data = b""
        while piece := s.recv(65536):
            data += piece
        s.close()
        if i % 2 == 0:
            assert data.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n"), data[-200:]
            kinds.append(b'"error"' in data)
        else:
            assert data[9:12] in (b"200", b"503"), data[:200]
            kinds.append(data[9:12] == b"503")
            assert not kinds[-1] or b"Retry-After" in data
            json.loads(data.split(b"\r\n\r\n", 1)[1])
    assert any(kinds), "the test had requests that could not be served in time"
    assert system.process["engine"].wait(timeout=15 * SLOW) == 0


def memory_mib(system):
    status = open(f"/proc/{system.process['engine'].pid}/status").read()
    return int(status.split("VmRSS:")[1].split()[0]) // 1024


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_sends_without_end(make_system, tiny, stream):
    """What comes behind a running request is not kept; and its sender's end is seen behind it."""
    system = start(make_system, tiny)
    before = memory_mib(system)
    s = send(system, {**LONG, "stream": stream})
    until(lambda: metric(system, "milepost_requests_running") == 1, 10, "it runs")
    s.settimeout(1)
    try:
        for _ in range(300):
            s.sendall(b"x" * (1 << 20))
    except OSError:
        pass  # the engine takes no more
    assert memory_mib(system) < before + 64 * SLOW
    s.close()
    until(lambda: idle(system) and held_blocks_are_free(system), 2, "its memory is free")
    assert system.chat(max_tokens=2)[0] == 200


def test_silent_connections_do_not_keep_others_out(make_system, tiny):
    system = start(make_system, tiny, "engine.max_connections=16", "engine.idle_timeout_ms=1000")
    crowd = []
    for i in range(100):
        s = socket.create_connection(("127.0.0.1", system.port["engine"]), timeout=10)
        s.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nX-A: "[:i])
        crowd.append(s)
    until(lambda: answers(system), 15, "a client is served again")
    for s in crowd:
        s.close()


def test_no_descriptors_left(make_system, tiny):
    system = start(make_system, tiny, "engine.idle_timeout_ms=1000")
    pid = system.process["engine"].pid
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (100, 100))
    crowd = [socket.create_connection(("127.0.0.1", system.port["engine"]), timeout=10)
             for _ in range(150)]
    time.sleep(0.3)
    before = seconds_of_work(pid)
    time.sleep(0.5)
    assert seconds_of_work(pid) - before < 0.2, "it does not try to accept without end"
    until(lambda: answers(system), 15, "a client is served again")
    for s in crowd:
        s.close()


def seconds_of_work(pid):
    fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def answers(system):
    try:
        return system.chat(max_tokens=2, timeout=5)[0] == 200
    except (OSError, http.client.HTTPException):
        return False


def test_a_deadline_ends_with_what_there_is(make_system, tiny):
    system = start(make_system, tiny, "engine.request_timeout_ms=100", "engine.max_running=1")
    others = [send(system, {**LONG, "stream": True}) for _ in range(3)]
    status, _, body = system.chat("Go on.", max_tokens=900, ignore_eos=True)
    assert status == 200 and body["choices"][0]["finish_reason"] == "length"
    assert body["usage"]["completion_tokens"] < 900
    for s in others:
        s.close()


def test_requests_on_one_connection(make_system, tiny):
    system = start(make_system, tiny)
    c = http.client.HTTPConnection("127.0.0.1", system.port["engine"], timeout=20 * SLOW)
    for i in range(5):
        body = json.dumps({**LONG, "max_tokens": 5, "stream": i % 2 == 0})
        c.request("POST", "/v1/chat/completions", body)
        r = c.getresponse()
        assert r.status == 200 and r.read()
        c.request("GET", "/nothing")
        r = c.getresponse()
        assert r.status == 404 and json.loads(r.read())["error"]["type"] == "invalid_request_error"
    c.close()
