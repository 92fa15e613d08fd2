"""The two servers as processes: how each is started on the same cores, and what it uses."""

import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import install

START_S, SLOT_TOKENS = 120, 1024


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def pinned(cores):
    return ["taskset", "-c", ",".join(map(str, cores))]


class Server:
    """One running server; `log` holds what it printed. Use as a context manager."""

    def __init__(self, command, port, cores, env=None, folder=None):
        self.port, self.folder = port, folder
        self.log = tempfile.TemporaryFile()
        started = time.monotonic()
        self.process = subprocess.Popen([*pinned(cores), *map(str, command)],
                                        stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log,
                                        env={**os.environ, **(env or {})})
        while not self.is_healthy():
            if self.process.poll() is not None or time.monotonic() - started > START_S:
                text = self.text()
                self.stop()
                raise RuntimeError(f"{command[0]} did not start\n{text[-2000:]}")
            time.sleep(0.002)
        self.start_s = time.monotonic() - started

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def is_healthy(self):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            c.request("GET", "/health")
            return c.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            c.close()

    def text(self):
        self.log.seek(0)
        return self.log.read().decode(errors="replace")

    def peak_mb(self):
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1e3
        return float("nan")

    def cpu_s(self):
        """Processor time of all threads, to the nanosecond."""
        total = 0
        for task in Path(f"/proc/{self.process.pid}/task").iterdir():
            total += int((task / "schedstat").read_text().split()[0])
        return total / 1e9

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.log.close()
        if self.folder:
            shutil.rmtree(self.folder, ignore_errors=True)


class Rival:
    name = "llama.cpp"

    def __init__(self, folder, cores):
        self.folder, self.cores = Path(folder), cores

    def program(self, name):
        return self.folder / name

    def env(self, threads):
        places = ",".join("{%d}" % c for c in self.cores[:threads])
        return {"OMP_PROC_BIND": "true", "OMP_PLACES": places, "OMP_NUM_THREADS": str(threads)}

    def serve(self, model, slots, threads=2):
        port = free_port()
        command = [self.program("llama-server"), "-m", model, "-t", threads, "-tb", threads,
                   "--host", "127.0.0.1", "--port", port, "-np", slots, "-c", slots * SLOT_TOKENS]
        return Server(command, port, self.cores[:threads], self.env(threads))

    def system_info(self):
        """What the CPU code was built with, from the library's own function; "" = cannot tell."""
        for path in sorted(self.folder.glob("libllama.so*")):
            ask = ("import ctypes, sys; f = ctypes.CDLL(sys.argv[1]).llama_print_system_info; "
                   "f.restype = ctypes.c_char_p; print(f().decode())")
            done = subprocess.run([sys.executable, "-c", ask, path], capture_output=True, text=True,
                                  check=False)
            if done.returncode == 0:
                return done.stdout.strip()
        return ""

    def version(self):
        """What the server says, where there is one."""
        if not self.program("llama-server").exists():
            return []
        told = subprocess.run([self.program("llama-server"), "--version"], check=True,
                              capture_output=True, text=True)
        return (told.stdout + told.stderr).strip().splitlines()

    def facts(self):
        """Source, version and instruction sets, the latter two as the programs report them."""
        source = install.built_from(self.folder)
        return {"version": [*([source] if source else []), *self.version()],
                "system_info": self.system_info(), "folder": str(self.folder)}


CONFIG = """\
state_dir: {folder}
engine: {{model: "{model}", host: 127.0.0.1, port: {port}, threads: {threads}, max_running: {slots},
  kv_tokens: {kv_tokens}, max_context: {context}, max_queue: 256}}
loop: {{enabled: false}}
"""


class Ours:
    name = "milepost"

    def __init__(self, build, cores):
        self.build, self.cores = Path(build), cores

    def program(self, name):
        folder = "bench" if name.startswith("bench_") else "bin"
        return self.build / folder / name

    def serve(self, model, slots, threads=2):
        port, folder = free_port(), tempfile.mkdtemp(prefix="mpvs")
        config = Path(folder) / "milepost.yaml"
        config.write_text(CONFIG.format(folder=folder, model=model, port=port, threads=threads,
                                        slots=slots, kv_tokens=slots * SLOT_TOKENS,
                                        context=SLOT_TOKENS))
        return Server([self.program("milepost-engine"), "--config", config], port,
                      self.cores[:threads], folder=folder)

    def probe(self, threads=2, model=None):
        """What the machine reads and multiplies at this moment."""
        command = [*pinned(self.cores[:threads]), self.program("milepost-kernels"), "--limits",
                   "--json", "--threads", str(threads), *(["--model", model] if model else [])]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        return json.loads(done.stdout)["limits"]

    def load(self, server, *arguments, start_only=False):
        """`milepost bench serve` on either server: the one client for both."""
        command = [self.program("milepost"), "bench", "serve", "--url", server.url, "--json",
                   *map(str, arguments)]
        p = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        return p if start_only else self.result(p)

    @staticmethod
    def result(process):
        out, errors = process.communicate(timeout=900)
        if process.returncode != 0:
            raise RuntimeError(f"milepost bench serve: {errors[-500:]}")
        return json.loads(out)
