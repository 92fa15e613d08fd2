"""A controller of one's own in pyzmq: desired state, commit marks and commands reach the engine."""

import hashlib
import json
import time
from contextlib import closing
from http.client import HTTPConnection

import pytest
import zmq

import tiny_model
from system import SLOW, until


def canonical(params):
    return json.dumps(params, sort_keys=True, separators=(",", ":"))


def arm(name, share, number, **params):
    return {"name": name, "share": share, "revision": {
        "number": number, "parent": 0, "route": "default", "params": params, "author": "operator:t",
        "reason": "", "created_us": 1,
        "hash": hashlib.sha256(canonical(params).encode()).hexdigest()}}


def desired(version, *arms, **more):
    return {"type": "desired", "version": version, "routes": [
        {"name": "default", "experiment": "x" if len(arms) > 1 else "", "salt": "s",
         "paused": False, "arms": list(arms), **more}]}


class Controller:
    """Binds the control address and takes the outputs, as the real one and a verifier would."""

    def __init__(self, system):
        self.context = zmq.Context()
        self.router = self.context.socket(zmq.ROUTER)
        self.router.bind(f"ipc://{system.folder}/control.sock")
        self.pull = self.context.socket(zmq.PULL)
        self.pull.connect(f"ipc://{system.folder}/outputs.sock")
        self.seen = []

    def close(self):
        self.router.close(0)
        self.pull.close(0)
        self.context.term()

    def receive(self):
        while self.router.poll(50):
            _, text = self.router.recv_multipart()
            message = json.loads(text)
            assert message["schema"] == "milepost.control.v1"
            self.seen.append(message)

    def wait(self, wanted, what):
        def found():
            self.receive()
            return [m for m in self.seen if wanted(m)]
        return until(found, 10, what)[-1]

    def send(self, message):
        self.wait(lambda m: m["type"] == "hello", "the engine says hello")
        self.router.send_multipart([b"e1", json.dumps(
            {"schema": "milepost.control.v1", **message}).encode()])

    def apply(self, message):
        self.send(message)
        self.wait(lambda m: m["type"] == "applied" and m["desired_version"] == message["version"],
                  f"version {message['version']} is applied")

    def command(self, number, name, argument=None):
        more = {} if argument is None else {"argument": argument}
        self.send({"type": "command", "id": number, "name": name, **more})
        return self.wait(lambda m: m["type"] == "result" and m["id"] == number, f"{name} is answered")

    def outputs(self):
        got = []
        while self.pull.poll(int(300 * SLOW)):
            got.append(json.loads(self.pull.recv()))
        return got


@pytest.fixture
def controlled(make_system, tiny):
    system = make_system(tiny)
    controller = Controller(system)
    system.start("engine")
    yield system, controller
    controller.close()


def test_hello_and_heartbeat(controlled):
    system, controller = controlled
    hello = controller.wait(lambda m: m["type"] == "hello", "hello")
    assert hello["engine"] == "e1" and hello["next_seq"] == 1 and hello["epoch"] > 0
    system.chat(max_tokens=2)
    beat = controller.wait(lambda m: m["type"] == "heartbeat" and m["next_seq"] == 2, "heartbeat")
    assert beat["outbox_rows"] == 1 and beat["running"] == 0


def test_a_revision_is_served_from_its_arrival_and_after_a_restart(controlled):
    system, controller = controlled
    _, headers, _ = system.chat(max_tokens=2)
    assert headers["X-Milepost-Revision"] == "0"
    controller.apply(desired(3, arm("champion", 1.0, 7, max_new_tokens=3)))

    def is_served(extra=()):
        _, h, body = system.chat(ignore_eos=True)
        assert (h["X-Milepost-Revision"], h["X-Milepost-Arm"]) == ("7", "champion")
        assert body["usage"]["completion_tokens"] == 3
        assert body["system_fingerprint"] == "milepost-r7-champion"

    is_served()
    controller.send(desired(2, arm("champion", 1.0, 1, max_new_tokens=1)))  # older: not taken
    time.sleep(0.5)
    is_served()
    controller.close()
    system.kill("engine")
    system.start("engine")  # nobody to ask: the last state goes on
    is_served()


def test_arms_get_their_shares_and_units_stay(controlled):
    system, controller = controlled
    controller.apply(desired(1, arm("champion", 0.7, 1, max_new_tokens=1),
                             arm("challenger", 0.3, 2, max_new_tokens=2)))
    arms, of_unit = [], {}
    for i in range(300):
        unit = f"u{i % 60}" if i < 120 else f"v{i}"
        _, h, _ = system.chat(user=unit, ignore_eos=True)
        arms.append(h["X-Milepost-Arm"])
        assert of_unit.setdefault(unit, arms[-1]) == arms[-1], "a unit changed its arm"
        assert h["X-Milepost-Revision"] == {"champion": "1", "challenger": "2"}[arms[-1]]
    share = [a for u, a in of_unit.items()].count("challenger") / len(of_unit)
    assert 0.18 < share < 0.42, share  # 240 units: four standard errors
    propensity = {o["arm"]: o["propensity"] for o in controller.outputs()}
    assert propensity == {"champion": 0.7, "challenger": 0.3}


def test_a_commit_mark_empties_the_outbox(controlled):
    system, controller = controlled
    for _ in range(4):
        system.chat(max_tokens=2)
    got = controller.outputs()
    assert {o["seq"] for o in got} == {1, 2, 3, 4}
    commit = {"type": "commit", "engine": "e1", "epoch": got[0]["epoch"], "seq": 3}
    controller.send({**commit, "epoch": 1})  # another epoch: not taken
    controller.send(commit)
    controller.wait(lambda m: m["type"] == "heartbeat" and m["outbox_rows"] == 1, "one row is left")
    controller.outputs()  # what was sent again before the commit
    time.sleep(2)
    assert {o["seq"] for o in controller.outputs()} <= {4}, "committed rows are not sent again"


def test_commands(controlled):
    system, controller = controlled
    assert controller.command(1, "pause")["ok"] is True
    status, headers, body = system.chat(max_tokens=2)
    assert status == 503 and headers["Retry-After"] and body["error"]["code"] == "overloaded"
    assert controller.command(2, "resume")["ok"] is True
    assert system.chat(max_tokens=2)[0] == 200
    answer = controller.command(3, "dance")
    assert answer["ok"] is False and "load_weights" in answer["message"]


def test_load_weights_switches_between_requests(controlled, tmp_path):
    system, controller = controlled
    other = tmp_path / "other.gguf"
    tiny_model.write(other, seed=2)

    def answer():
        _, _, body = system.chat(temperature=0, max_tokens=16, ignore_eos=True)
        return body["choices"][0]["message"]["content"]

    def text_of(lines):
        events = [json.loads(x[6:]) for x in lines if x.startswith(b"data: {")]
        return "".join(c["delta"].get("content", "") for e in events for c in e["choices"])

    def stream(during=lambda: None):
        body = {"messages": [{"role": "user", "content": "Long."}], "temperature": 0,
                "max_tokens": 1500, "ignore_eos": True, "stream": True}
        with closing(HTTPConnection("127.0.0.1", system.port["engine"], timeout=60)) as http:
            http.request("POST", "/v1/chat/completions", json.dumps(body),
                         {"Content-Type": "application/json"})
            answer = http.getresponse()
            lines = [answer.readline() for _ in range(6)]
            result = during()
            return result, text_of(lines + answer.readlines())

    first = answer()
    _, alone = stream()
    result, across = stream(lambda: controller.command(1, "load_weights", str(other)))
    assert result["ok"] is True, result
    assert across == alone, "it began on the old weights and ends on them"
    second = answer()
    assert second != first, "the other weights answer"
    assert controller.command(2, "load_weights", str(system.model))["ok"] is True
    assert answer() == first, "and back"
    by_seq = {o["seq"]: o["weights"] for o in controller.outputs()}  # some are sent again
    used = [by_seq[i] for i in (1, 2, 3, 4, 5)]
    assert used[0] == used[1] == used[2] == used[4] != used[3], used
    assert used[3] in result["message"]


def test_weights_that_do_not_fit_change_nothing(controlled, tmp_path):
    system, controller = controlled
    cut, foreign = tmp_path / "cut.gguf", tmp_path / "foreign.gguf"
    tiny_model.write(foreign, architecture="mamba")
    cut.write_bytes(system.model.read_bytes()[:-1000])
    renamed = tmp_path / "renamed.gguf"
    renamed.write_bytes(system.model.read_bytes().replace(b"<|im_end|>", b"<|im_eNd|>"))
    before = system.chat(temperature=0, max_tokens=8)[2]["choices"][0]["message"]["content"]
    for i, (path, said) in enumerate([(tmp_path / "none.gguf", "none.gguf"), (cut, "cut.gguf"),
                                      (foreign, "mamba"), (renamed, "im_eNd"), ("", "argument")]):
        answer = controller.command(i + 1, "load_weights", str(path))
        assert answer["ok"] is False and said in answer["message"], answer
    after = system.chat(temperature=0, max_tokens=8)[2]["choices"][0]["message"]["content"]
    assert after == before


def test_flush_cache_forgets_prefixes(controlled):
    system, controller = controlled

    def cached():
        status, _, body = system.chat("word " * 40, max_tokens=1)
        assert status == 200
        return body["usage"]["prompt_tokens_details"]["cached_tokens"]

    cached()
    assert cached() > 0
    assert controller.command(1, "flush_cache")["ok"] is True
    assert cached() == 0 and cached() > 0


def test_messages_that_are_none(controlled):
    system, controller = controlled
    controller.wait(lambda m: m["type"] == "hello", "hello")
    for text in (b"", b"{", b"[]", b'{"schema":"milepost.control.v9","type":"desired"}',
                 b'{"schema":"milepost.control.v1","type":"desired","version":9}', b"\xff" * 1000):
        controller.router.send_multipart([b"e1", text])
    controller.send(desired(4, {**arm("champion", 1.0, 1, top_k=5), "share": 0.5}))
    controller.apply(desired(5, arm("champion", 1.0, 9, max_new_tokens=1)))
    assert system.chat()[1]["X-Milepost-Revision"] == "9"
