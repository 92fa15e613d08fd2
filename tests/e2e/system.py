"""The three real processes on loopback, in a folder of their own, for whole-loop tests.

Programs come from MILEPOST_BIN (the build's bin folder). Logs stay in the folder; a failing test
prints their ends. Nothing here waits without a deadline.
"""

import http.client
import json
import os
import signal
import socket
import sqlite3
import subprocess
import threading
import time
from pathlib import Path

BIN = Path(os.environ.get("MILEPOST_BIN", "build/release/bin")).resolve()
SLOW = float(os.environ.get("MILEPOST_SLOW", "1"))  # sanitizer builds wait longer
NAMES = ("controller", "verifier", "engine")

CONFIG = """\
state_dir: {folder}/state
engine:
  id: e1
  model: {model}
  host: 127.0.0.1
  port: {engine}
  threads: 2
  max_running: 16
  max_queue: 64
  kv_tokens: 16384
  max_context: 1024
loop:
  outputs: ipc://{folder}/outputs.sock
  scores: ipc://{folder}/scores.sock
  control: ipc://{folder}/control.sock
  resend_ms: 500
  heartbeat_ms: 200
verifier:
  port: {verifier}
controller:
  port: {controller}
  database: controller.db
routes:
  - name: default
    params: {{temperature: 0.8, max_new_tokens: 16}}
    checks:
      - {{id: cut, kind: finish_reason, weight: 1}}
      - {{id: size, kind: length, weight: 1, unit: tokens, min: 1, max: 64}}
    policy: {{kind: hold}}
"""


def free_ports(n):
    sockets = [socket.socket() for _ in range(n)]
    for s in sockets:
        s.bind(("127.0.0.1", 0))
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


def until(condition, seconds, what):
    """Waits for condition() to be true; its value. Fails with `what` after the deadline."""
    end = time.monotonic() + seconds * SLOW
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < end, f"not within {seconds * SLOW:.0f} s: {what}"
        time.sleep(0.05)


class System:
    def __init__(self, folder, model, config=CONFIG, **values):
        self.folder, self.model = Path(folder), Path(model)
        ports = dict(zip(NAMES, free_ports(3)))
        self.port = ports
        self.config = self.folder / "milepost.yaml"
        self.config.write_text(config.format(folder=folder, model=model, **ports, **values))
        (self.folder / "state").mkdir(exist_ok=True)
        self.process = {}
        self.crashes = []

    def log(self, name):
        return self.folder / f"{name}.log"

    def start(self, *names, wait=True, extra=()):
        for name in names or NAMES:
            with open(self.log(name), "ab") as log:
                self.process[name] = subprocess.Popen(
                    [BIN / f"milepost-{name}", "--config", self.config, *extra],
                    stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        if wait:
            for name in names or NAMES:
                self.wait_healthy(name)

    def wait_healthy(self, name, seconds=60):
        def healthy():
            code = self.process[name].poll()
            assert code is None, f"{name} ended with {code}\n{self.tail(name)}"
            try:
                return self.get(name, "/health")[0] == 200
            except OSError:
                return False
        until(healthy, seconds, f"{name} answers /health\n{self.tail(name)}")

    def tail(self, name, size=3000):
        try:
            return self.log(name).read_bytes()[-size:].decode(errors="replace")
        except OSError:
            return ""

    def kill(self, name, number=signal.SIGKILL):
        """Sends the signal and waits; remembers an end that was not asked for."""
        p = self.process[name]
        code = p.poll()
        if code is not None:
            self.crashes.append(f"{name} had ended with {code}")
        p.send_signal(number)
        return p.wait(timeout=30 * SLOW)

    def stop(self):
        """SIGTERM in the order of `milepost up`; every process must end by itself with code 0."""
        for name in reversed(NAMES):
            p = self.process.pop(name, None)
            if p is None:
                continue
            if p.poll() is None:
                p.terminate()
            try:
                code = p.wait(timeout=20 * SLOW)
            except subprocess.TimeoutExpired:
                p.kill()
                p.wait()
                code = "no end within 20 s of SIGTERM"
            if code not in (0, -signal.SIGKILL):
                self.crashes.append(f"{name}: {code}\n{self.tail(name)}")

    def get(self, name, path, timeout=10):
        return self.call(name, "GET", path, timeout=timeout)

    def call(self, name, method, path, body=None, headers=None, timeout=60):
        """(status, headers, parsed body or text). OSError or HTTPException when the wire broke."""
        c = http.client.HTTPConnection("127.0.0.1", self.port[name], timeout=timeout * SLOW)
        try:
            raw = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
            c.request(method, path, raw, {"Content-Type": "application/json", **(headers or {})})
            r = c.getresponse()
            text = r.read()
            try:
                return r.status, dict(r.getheaders()), json.loads(text)
            except ValueError:
                return r.status, dict(r.getheaders()), text.decode(errors="replace")
        finally:
            c.close()

    def chat(self, text="Say something.", timeout=60, headers=None, **more):
        body = {"messages": [{"role": "user", "content": text}], **more}
        return self.call("engine", "POST", "/v1/chat/completions", body, headers, timeout)

    @property
    def database(self):
        return self.folder / "state" / "controller.db"

    def rows(self, sql, *values):
        """Read-only query on the controller's database, as a person with sqlite3 would."""
        db = sqlite3.connect(f"file:{self.database}?mode=ro", uri=True, timeout=10)
        try:
            return db.execute(sql, values).fetchall()
        finally:
            db.close()

    def count_outputs(self):
        try:
            return self.rows("SELECT count(*) FROM outputs")[0][0]
        except sqlite3.OperationalError:
            return 0


class Load:
    """Clients in threads. Each request ends as answered, refused (an error status), broken (the
    connection broke: the engine died) or hung. Ids of the answered ones are kept."""

    def __init__(self, system, clients=6, seed=1, max_tokens=12, timeout=60):
        self.system, self.max_tokens, self.timeout = system, max_tokens, timeout
        self.answered, self.latency = [], []
        self.refused, self.broken, self.hung, self.malformed = [], 0, [], []
        self.seed, self.lock, self.ended = seed, threading.Lock(), threading.Event()
        self.number = 0
        self.threads = [threading.Thread(target=self.work, daemon=True) for _ in range(clients)]

    def __enter__(self):
        for t in self.threads:
            t.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        for t in self.threads:
            t.join(timeout=(self.timeout + 10) * SLOW)
        assert not any(t.is_alive() for t in self.threads), "a client hangs"

    def work(self):
        while not self.ended.is_set():
            with self.lock:
                self.number += 1
                number = self.number
            self.one(number)

    def one(self, number):
        started = time.monotonic()
        try:
            status, _, body = self.system.chat(
                f"Request {number} of {self.seed}.", timeout=self.timeout,
                seed=self.seed * 100000 + number, max_tokens=self.max_tokens,
                stream=False, metadata={"number": str(number)})
        except TimeoutError:
            self.hung.append(number)
            return
        except (OSError, http.client.HTTPException):
            self.broken += 1
            time.sleep(0.05)
            return
        if status == 200 and isinstance(body, dict) and body.get("choices"):
            self.answered.append(body["id"])
            self.latency.append(time.monotonic() - started)
        elif isinstance(body, dict) and "error" in body:
            self.refused.append((status, body["error"].get("message")))
            time.sleep(0.05)
        else:
            self.malformed.append((status, body))
