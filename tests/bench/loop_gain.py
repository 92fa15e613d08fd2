"""What the closed loop gains on the real engine and model, on prompts it never saw.

A route starts with the shipped default parameters. Training prompts are its traffic while
`milepost experiment start` compares other settings and the winner is promoted. Then the held-out
prompts are answered under the default, under every static T in {0.3, 0.6, 0.9} x top_p in {0.8,
0.95}, and under the champion that the loop left, with the same seeds. Rewards are the verifier's.
Prints the mean of each, and the loop's gain with a paired bootstrap 95% interval over prompts.
Exit 1 when the gain over the default is below the gate.

  MILEPOST_BIN=build/release/bin python3 tests/bench/loop_gain.py --model FILE
"""

import argparse
import json
import os
import platform
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "e2e")]
from loop_gain_prompts import prompts  # noqa: E402
from system import BIN, System, until  # noqa: E402

GATE = 0.15
DEFAULT = {"temperature": 0.7, "top_p": 0.95}  # deploy/milepost.yaml
STATIC = [{"temperature": t, "top_p": p} for t in (0.3, 0.6, 0.9) for p in (0.8, 0.95)]
ARMS = ("temperature=0", "temperature=0.2,top_p=0.9", "temperature=0.4,top_p=0.8",
        "temperature=0,repetition_penalty=1.1")
CONFIG = """\
state_dir: {folder}/state
engine: {{id: e1, model: {model}, port: {engine}, threads: 2, max_running: 16, max_queue: 64,
         kv_tokens: 16384, max_context: 512}}
loop: {{outputs: ipc://{folder}/outputs.sock, scores: ipc://{folder}/scores.sock,
       control: ipc://{folder}/control.sock}}
verifier: {{port: {verifier}}}
controller: {{port: {controller}, database: controller.db}}
routes:
  - name: default
    params: {{temperature: 0.7, top_p: 0.95, max_new_tokens: 24}}
    checks:
      - {{id: right, kind: contains, from_metadata: any, ignore_case: true, whole_words: true}}
    policy: {{kind: canary, pair_deadline_ms: 30000}}
"""


def ask(system, prompt, seed, **params):
    """The request's id."""
    status, _, body = system.chat(prompt["text"], seed=seed, timeout=300,
                                  metadata={"reference": prompt["answers"]}, **params)
    assert status == 200, body
    return body["id"]


def in_threads(jobs, run, clients=16):
    """run(job) for each job; results in the jobs' order. Ends early when run returns None."""
    results, lock, todo = [None] * len(jobs), threading.Lock(), list(enumerate(jobs))[::-1]

    def work():
        while True:
            with lock:
                if not todo:
                    return
                at, job = todo.pop()
            results[at] = run(job)

    threads = [threading.Thread(target=work) for _ in range(clients)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return results


def milepost(system, *words):
    out = subprocess.run([BIN / "milepost", "experiment", *words, "--json", "--config",
                          system.config], capture_output=True, text=True, check=True)
    return json.loads(out.stdout)


def train(system, training, units):
    """Traffic of the training prompts until the experiment ends. (report, champion's params)"""
    ended, numbers, lock = threading.Event(), iter(range(10**9)), threading.Lock()

    def client():
        while not ended.is_set():
            with lock:
                n = next(numbers)
            ask(system, training[n % len(training)], n)

    threads = [threading.Thread(target=client) for _ in range(16)]
    for t in threads:
        t.start()
    try:
        until(lambda: system.count_outputs() > 60, 300, "traffic")
        arms = [w for arm in ARMS for w in ("--arm", arm)]
        plan = milepost(system, "plan", *arms, "--effect", "0.1", "--units", str(units))
        median = plan["outputs_median"] or f"more than {units}"
        print(f"plan: {median} scored outputs to single out one arm (median of "
              f"{plan['runs']} simulated runs), {plan['outputs_per_second']:.1f} a second")
        milepost(system, "start", *arms, "--units", str(units), "--on-win", "promote")
        until(lambda: milepost(system, "report")["outcome"] != "running", 3000, "the end")
    finally:
        ended.set()
        for t in threads:
            t.join()
    report = milepost(system, "report")
    champion = system.get("controller", "/api/params")[2]["champion"]["params"]
    return report, {k: v for k, v in champion.items() if k != "max_new_tokens"}


def rewards(system, held_out, configs, seeds):
    """[config][prompt]: mean reward over the seeds."""
    jobs = [(c, p, s) for p in range(len(held_out)) for s in range(seeds)
            for c in range(len(configs))]
    ids = in_threads(jobs, lambda j: ask(system, held_out[j[1]], 7000 + j[2], **configs[j[0]]))
    until(lambda: len(ids) <= system.rows(
        "SELECT count(*) FROM scores s JOIN outputs o ON o.id=s.output WHERE o.request_id IN "
        "(SELECT value FROM json_each(?))", json.dumps(ids))[0][0], 60, "all are scored")
    scored = dict(system.rows("SELECT o.request_id, s.reward FROM scores s JOIN outputs o ON "
                              "o.id=s.output"))
    means = [[0.0] * len(held_out) for _ in configs]
    for (c, p, _), request in zip(jobs, ids):
        means[c][p] += scored[request] / seeds
    return means


def mean(values):
    return sum(values) / len(values)


def gain(loop, other, rounds=10000):
    """(difference, its interval, ratio - 1, its interval): paired bootstrap over prompts."""
    rng, n, differences, ratios = random.Random(3), len(loop), [], []
    for _ in range(rounds):
        at = rng.choices(range(n), k=n)
        a, b = mean([loop[i] for i in at]), mean([other[i] for i in at])
        differences.append(a - b)
        ratios.append(a / b - 1 if b else 0.0)
    ends = [(sorted(v)[int(0.025 * rounds)], sorted(v)[int(0.975 * rounds)])
            for v in (differences, ratios)]
    return mean(loop) - mean(other), ends[0], mean(loop) / mean(other) - 1, ends[1]


def name(config):
    return " ".join(f"{k}={v:g}" for k, v in sorted(config.items(), reverse=True))


def tell(what, g):
    print(f"{what}: {g[0]:+.3f} [{g[1][0]:+.3f}, {g[1][1]:+.3f}], "
          f"{100 * g[2]:+.1f}% [{100 * g[3][0]:+.1f}%, {100 * g[3][1]:+.1f}%]")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--model", required=True)
    parser.add_argument("--units", type=int, default=3000, help="scored outputs of the experiment")
    parser.add_argument("--seeds", type=int, default=5, help="answers per held-out prompt, setting")
    args = parser.parse_args()
    training, held_out = prompts()
    folder, started = tempfile.mkdtemp(prefix="mp"), time.monotonic()
    system = System(folder, args.model, config=CONFIG)
    try:
        system.start()
        report, champion = train(system, training, args.units)
        print(f"experiment: {report['outcome']} after {report['scored']} scored outputs of "
              f"{len(training)} training prompts; arms "
              + ", ".join(f"{name({k: v for k, v in a['params'].items() if k != 'max_new_tokens'})}"
                          f": {a['mean']:.3f} ({a['state']})" for a in report["arms"]))
        configs = [DEFAULT, *STATIC, champion]
        means = rewards(system, held_out, configs, args.seeds)
    finally:
        system.stop()
        shutil.rmtree(folder, ignore_errors=True)
    print(f"{platform.machine()}, {os.cpu_count()} cores, {os.path.basename(args.model)}; "
          f"{len(held_out)} held-out prompts x {args.seeds} seeds, "
          f"{time.monotonic() - started:.0f} s")
    for label, config, values in zip(["default", *["static"] * len(STATIC), "loop"], configs,
                                     means):
        print(f"  {label:8} {name(config):42} mean reward {mean(values):.3f}")
    best = max(range(1, 1 + len(STATIC)), key=lambda c: mean(means[c]))
    over_default = gain(means[-1], means[0])
    tell("loop over default", over_default)
    tell(f"loop over the best static ({name(configs[best])}, chosen on the held-out prompts)",
         gain(means[-1], means[best]))
    met = over_default[2] >= GATE
    print(f"gate: +{100 * GATE:.0f}% over the default: {'met' if met else 'MISSED'}")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
