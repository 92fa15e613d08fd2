"""pyzmq on the engine's output queue: what a program of one's own sees of the loop."""

import json
import os

import jsonschema
import pytest
import zmq

from system import SLOW

SCHEMAS = os.path.join(os.path.dirname(__file__), "..", "..", "..", "schemas")


def validator(name):
    with open(os.path.join(SCHEMAS, f"{name}.schema.json"), encoding="utf-8") as f:
        return jsonschema.Draft202012Validator(json.load(f))


@pytest.fixture
def pull():
    context = zmq.Context()
    socket = context.socket(zmq.PULL)
    socket.setsockopt(zmq.RCVTIMEO, int(20000 * SLOW))
    yield socket
    socket.close(0)
    context.term()


def connect(pull, system):
    pull.connect(f"ipc://{system.folder}/outputs.sock")


def records(pull, n):
    """The first n sequence numbers, each once: nothing is committed here, so rows come again."""
    got = {}
    while len(got) < n:
        r = json.loads(pull.recv())
        got.setdefault(r["seq"], r)
    return [got[i] for i in sorted(got)][:n]


def test_records_say_what_the_client_got(make_system, tiny, pull):
    system = make_system(tiny)
    system.start("engine")
    connect(pull, system)
    status, headers, body = system.chat("Hello there", n=2, seed=4, temperature=0.9, max_tokens=7,
                                        user="u-1", metadata={"reference": "42"}, logprobs=True)
    assert status == 200
    _, _, plain = system.call("engine", "POST", "/v1/completions",
                              {"prompt": "Once", "max_tokens": 3, "stop": ["zzz"]})
    check = validator("output")
    got = records(pull, 3)
    for r in got:
        check.validate(r)
    chats = sorted((r for r in got if r["request_id"] == body["id"]), key=lambda r: r["choice"])
    for r, choice in zip(chats, body["choices"]):
        assert r["text"] == choice["message"]["content"]
        assert r["finish_reason"] == choice["finish_reason"]
        assert (r["unit"], r["metadata"]) == ("u-1", {"reference": "42"})
        assert r["messages"] == [{"role": "user", "content": "Hello there"}]
        assert r["revision"] == int(headers["X-Milepost-Revision"])
        shown = json.loads(headers["X-Milepost-Params"])
        assert {k: r["effective"][k] for k in shown} == shown
        assert len(r["token_ids"]) == len(r["logprobs"]) == r["completion_tokens"]
        for a, b in zip(r["logprobs"], choice["logprobs"]["content"]):
            assert abs(a - b["logprob"]) < 1e-4
    assert sum(r["completion_tokens"] for r in chats) == body["usage"]["completion_tokens"]
    last = [r for r in got if r["request_id"] == plain["id"]]
    assert len(last) == 1 and last[0]["prompt"] == "Once" and last[0]["effective"]["stop"] == ["zzz"]
    assert [r["seq"] for r in got] == [1, 2, 3] and len({r["epoch"] for r in got}) == 1
    assert sorted(r["admission"] for r in got) == [1, 1, 2], "choices of one request share it"


def test_feedback_travels_like_an_output(make_system, tiny, pull):
    system = make_system(tiny)
    system.start("engine")
    connect(pull, system)
    _, _, body = system.chat(max_tokens=2)
    for sent in ({"thumb": "up"}, {"value": 0.25}, {"corrected": "better"}):
        status, _, answer = system.call("engine", "POST", "/v1/feedback",
                                        {"request_id": body["id"], **sent})
        assert (status, answer) == (200, {"status": "stored"})
    got = records(pull, 4)[1:]
    for r in got:
        validator("feedback").validate(r)
        assert r["request_id"] == body["id"]
    assert [r.get("value") for r in got] == [1, 0.25, None] and got[2]["corrected"] == "better"
    for bad in ({}, {"request_id": "x"}, {"request_id": "x", "value": 7}, {"request_id": 1}):
        status, _, answer = system.call("engine", "POST", "/v1/feedback", bad)
        assert status == 400 and answer["error"]["message"], answer


def test_numbers_go_on_after_a_restart(make_system, tiny, pull):
    system = make_system(tiny)
    system.start("engine")
    for _ in range(3):
        system.chat(max_tokens=2)
    system.kill("engine")
    system.start("engine")
    connect(pull, system)
    system.chat(max_tokens=2)
    got = records(pull, 4)
    assert [r["seq"] for r in got] == [1, 2, 3, 4] and len({r["epoch"] for r in got}) == 1
    assert [r["admission"] for r in got] == [1, 2, 3, 4]


def test_nothing_is_recorded_without_the_loop(make_system, tiny):
    system = make_system(tiny)
    system.start("engine", extra=("--no-loop",))
    assert system.chat(max_tokens=2)[0] == 200
    status, _, answer = system.call("engine", "POST", "/v1/feedback",
                                    {"request_id": "x", "value": 1})
    assert status == 400 and "loop" in answer["error"]["message"]
    assert not os.listdir(system.folder / "state")
