"""A made-up engine and verifier: score frames of any content, sent to a real controller."""

import json
import random
import time

import zmq

from system import System, until

CONFIG = """\
state_dir: {folder}/state
engine: {{id: e1, model: {model}, port: {engine}}}
loop:
  outputs: ipc://{folder}/outputs.sock
  scores: ipc://{folder}/scores.sock
  control: ipc://{folder}/control.sock
verifier: {{port: {verifier}}}
controller: {{port: {controller}, database: controller.db}}
routes:
  - name: default
    params: {{temperature: 0.8, max_new_tokens: 16}}
    policy: {{kind: canary, min_minutes: 0, ramp: ["0.5"], pair_deadline_ms: 1000, propose: false,
              drift_threshold: 0}}
"""


class Injector:
    def __init__(self, folder, seed=1, system=None):
        self.system = system or System(folder, "/dev/null", config=CONFIG)
        self.context = zmq.Context()
        self.socket = self.context.socket(zmq.PUSH)
        self.socket.connect(f"ipc://{folder}/scores.sock")
        self.rng = random.Random(seed)
        self.seq = 0
        self.engine = "e1"
        self.version = "v1"

    def close(self):
        self.socket.close(0)
        self.context.term()
        self.system.stop()
        assert not self.system.crashes, self.system.crashes

    def frame(self, arm, revision, experiment, propensity, reward, **more):
        """One frame; reward None is unscored."""
        self.seq += 1
        identity = {"engine": self.engine, "epoch": 1, "seq": self.seq, "request_id": f"r{self.seq}"}
        output = {"schema": "milepost.output.v1", **identity, "route": "default",
                  "revision": revision, "arm": arm, "experiment": experiment,
                  "propensity": propensity, "admission": self.seq, "text": "an answer",
                  "finish_reason": "stop", "prompt_tokens": 5, "completion_tokens": 3,
                  "created_us": int(time.time() * 1e6), "effective": {"temperature": 0.8}, **more}
        score = {"schema": "milepost.score.v1", "verifier": "v", "check_set": "default",
                 "version": self.version, **identity, "scored": reward is not None,
                 "reward": reward, "checks": [], "output": output}
        return json.dumps(score).encode()

    def frames(self, n, trial, reward, share=0.5):
        """n frames of a trial (its answer from start_trial, None = only the champion)."""
        made = []
        for _ in range(n):
            is_challenger = trial is not None and self.rng.random() < share
            value = reward(is_challenger)
            if trial is None:
                made.append(self.frame("champion", 1, "", 1.0, value))
            else:
                made.append(self.frame("challenger" if is_challenger else "champion",
                                       trial["revision"] if is_challenger else 1,
                                       trial["experiment"],
                                       share if is_challenger else 1 - share, value))
        return made

    def near(self, mean):
        return min(1.0, max(0.0, self.rng.gauss(mean, 0.15)))

    def send(self, frames):
        for f in frames:
            self.socket.send(f)

    def send_and_wait(self, frames):
        self.send(frames)
        until(lambda: self.system.count_outputs() >= self.seq, 30, f"{self.seq} outputs are stored")

    def post(self, path, timeout=60, **body):
        status, _, answer = self.system.call("controller", "POST", path, body, timeout=timeout)
        return status, answer

    def start_trial(self, temperature):
        status, answer = self.post("/api/params", params={"temperature": temperature})
        assert status == 200, answer
        return answer

    def route(self):
        return self.system.get("controller", "/api/status")[2]["routes"][0]

    def decisions(self):
        return [json.loads(r[0]) for r in
                self.system.rows("SELECT json FROM decisions ORDER BY number")]
