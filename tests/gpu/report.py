#!/usr/bin/env python3
"""report.py OUT [BASELINE.json] [--keep FOLDER] - the table of a run of run.sh: every row as a share of what this card
was measured to do in the same run, the goals, and what changed against an earlier run.

Also writes OUT/ledger.md, an entry of tests/gpu/LEDGER.md, and OUT/baseline.json for the next run;
with --keep both go to that folder too, the entry before those of earlier runs in LEDGER.md.
Exit 0; with --strict 1 if a measured goal is short. Only the standard library."""

import argparse
import datetime
import json
import pathlib
import re
import sys

# Published: TensorRT-LLM performance overview v1.0, one H200, Llama-3.1-8B FP8, 1000 in, 1000 out.
TENSORRT_TOK_S = 17744
SERVED_CONTEXT, SERVED_BATCH, SERVED_TOKENS = 1500, 256, 1000


def load_rows(out):
    """{name: row} of every JSON file of engine-bench and hf_baseline.py."""
    rows = {}
    for path in sorted(out.glob("*.json")):
        if path.name == "baseline.json":
            continue
        try:
            content = json.loads(path.read_text())
        except ValueError as error:
            print(f"{path.name}: cut off ({error})", file=sys.stderr)
            continue
        for row in content["rows"]:
            rows[row["name"]] = dict(row, kind=content["kind"])
    return rows


class Card:
    """What this card can do: bytes and operations a microsecond. None: not measured."""

    def __init__(self, rows):
        self.copy = self.rate(rows, "copy", "bytes")
        self.read = self.rate(rows, "read", "bytes")
        self.bf16 = self.rate(rows, "bf16 product", "flops")
        self.fp8 = self.rate(rows, "fp8 product", "flops")

    @staticmethod
    def rate(rows, name, what):
        row = rows.get(name)
        return row[what] / row["us"] if row and row["us"] > 0 else None

    def floor_us(self, row):
        """The time below which this card cannot do it: the larger of moving and computing."""
        if not self.copy or not self.bf16:
            return None
        return max(row["bytes"] / self.copy, row["flops"] / self.bf16)


def is_measured(row):
    return row is not None and row["us"] > 0


def share_of_copy(rows, card, name):
    row = rows.get(name)
    if not is_measured(row) or not card.copy:
        return None
    return row["bytes"] / row["us"] / card.copy


def share_of_floor(rows, card, name):
    row = rows.get(name)
    if not is_measured(row) or card.floor_us(row) is None:
        return None
    return card.floor_us(row) / row["us"]


def share_of_product(rows, card, name):
    row = rows.get(name)
    if not is_measured(row) or not card.bf16:
        return None
    return row["flops"] / row["us"] / card.bf16


def times_as_fast(rows, ours, other):
    a, b = rows.get(ours), rows.get(other)
    if not is_measured(a) or not is_measured(b):
        return None
    return b["us"] / a["us"]


def served(rows):
    """Output tokens a second of SERVED_BATCH requests with 1000 tokens in and 1000 out, by the steps
    alone: their prompts one after the other, then steps of all. Scheduler and HTTP are not in it."""
    step = rows.get(f"decode synth-8b q8_0 batch {SERVED_BATCH} context {SERVED_CONTEXT}")
    prompt = rows.get("prefill synth-8b q8_0 8192 tokens")
    if not is_measured(step) or not is_measured(prompt):
        return None
    n = SERVED_BATCH * SERVED_TOKENS
    seconds = n / prompt["tok_s"] + SERVED_TOKENS * step["us"] / 1e6
    return n / seconds / TENSORRT_TOK_S


def judge(rows, card):
    """[(number, what, measured share or None, first goal, later goal)]"""
    def decode(model, dtype, batch, context=256):
        return f"decode {model} {dtype} batch {batch} context {context}"
    eager, static = (f"transformers {way} synth-8b bf16 batch 1" for way in ("eager", "static"))
    ours = decode("synth-8b", "bf16", 1)
    goals = [
        ("G1", "8B bf16, batch 1, of copy", share_of_copy(rows, card, ours), 0.85, 0.90),
        ("G2", "1B bf16, batch 1, of copy",
         share_of_copy(rows, card, decode("synth-1b", "bf16", 1)), 0.70, 0.80),
        ("G3", "8B 8 bit (q8_0), batch 1, of copy",
         share_of_copy(rows, card, decode("synth-8b", "q8_0", 1)), 0.70, 0.80),
        ("G3", "8B fp8, batch 1, of copy",
         share_of_copy(rows, card, decode("synth-8b", "fp8", 1)), 0.70, 0.80),
        ("G3", "8B 4 bit (q4_0), batch 1, of copy",
         share_of_copy(rows, card, decode("synth-8b", "q4_0", 1)), 0.55, 0.70)]
    for batch in (64, 256):
        goals.append(("G4", f"8B bf16, batch {batch} at 1 K, of the floor",
                      share_of_floor(rows, card, decode("synth-8b", "bf16", batch, 1024)), 0.65, 0.80))
    goals += [
        ("G5", "8B bf16, prompt of 8 K, of the bf16 product",
         share_of_product(rows, card, "prefill synth-8b bf16 8192 tokens"), 0.60, 0.75),
        ("G5", "the same, engine.gemm: cublaslt",
         share_of_product(rows, card, "prefill synth-8b bf16 8192 tokens by cublaslt"), 0.60, 0.75),
        ("G6", "8B bf16, batch 1, times transformers eager", times_as_fast(rows, ours, eager), 3, 5),
        ("G6", "8B bf16, batch 1, times transformers static and compiled",
         times_as_fast(rows, ours, static), 1.0, 1.1),
        ("G7", "8B 8 bit, 1000 in 1000 out, of TensorRT-LLM's FP8 (steps only)", served(rows),
         0.50, 0.75),
        ("G8", "30B-A3B 4 bit, batch 1, of the active bytes",
         share_of_copy(rows, card, decode("synth-30b-a3b", "q4_0", 1)), 0.45, 0.65)]
    return goals


def verdict(value, first, later):
    if value is None:
        return "not measured"
    if value >= later:
        return "met, the later goal too"
    return "met" if value >= first else "SHORT"


def percent(value):
    return "-" if value is None else f"{100 * value:.1f}%"


def change_of(row, baseline):
    before = baseline.get(row["name"])
    if not before or not is_measured(row):
        return "-"
    return f"{100 * (row['us'] / before - 1):+.1f}%"


def row_table(rows, card, baseline):
    lines = ["| what | us | GB/s | of copy | TFLOP/s | of bf16 | of the floor | us against before |",
             "|---|---|---|---|---|---|---|---|"]
    for row in rows.values():
        if not is_measured(row):
            continue
        gb_s, tflops = row["bytes"] / row["us"] / 1e3, row["flops"] / row["us"] / 1e6
        floor = card.floor_us(row)
        lines.append(
            f"| {row['name']} | {row['us']:.2f} | {gb_s:.0f} | "
            f"{percent(gb_s * 1e3 / card.copy if card.copy else None)} | {tflops:.1f} | "
            f"{percent(tflops * 1e6 / card.bf16 if card.bf16 else None)} | "
            f"{percent(floor / row['us'] if floor else None)} | {change_of(row, baseline)} |")
    return lines


def goal_table(goals):
    lines = ["| goal | what | measured | first | later | |", "|---|---|---|---|---|---|"]
    for number, what, value, first, later in goals:
        shown = "-" if value is None else f"{value:.2f}"
        lines.append(f"| {number} | {what} | {shown} | {first:.2f} | {later:.2f} | "
                     f"{verdict(value, first, later)} |")
    return lines


def read_text(path):
    return path.read_text(errors="replace") if path.exists() else ""


def head_of_entry(out):
    env = read_text(out / "env.txt")
    card = re.search(r"^card: (.*)$", env, re.M)
    commit = re.search(r"^commit: (.*)$", env, re.M)
    when = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
    return [f"## {when}, {card.group(1) if card else 'unknown card'}, "
            f"commit {commit.group(1) if commit else 'unknown'}", ""]


def stage_lines(out):
    stages = read_text(out / "stages.txt").splitlines()
    return ["Stages: " + "; ".join(stages) + ".", ""] if stages else []


CLEAN, CUT_OFF, SKIPPED = "clean", "cut off", "skipped"
OUTCOMES = {0: CLEAN, 124: CUT_OFF, 137: CUT_OFF, 77: SKIPPED}  # exit codes; else it found something


def sanitizer_lines(out):
    """Which suite each tool saw to its end, and which it did not: none of them goes unsaid."""
    lines = ["| compute-sanitizer | clean | found something | cut off by its limit | skipped |",
             "|---|---|---|---|---|"]
    stages = read_text(out / "stages.txt")
    for tool in ("memcheck", "racecheck"):
        of_suite = {}
        for suite, code in re.findall(rf"^{tool}-cuda_(\S+) (?:rc=(\d+)|left out)", stages, re.M):
            of_suite[suite] = OUTCOMES.get(int(code), f"{suite} (rc={code})") if code else SKIPPED
        found = [outcome for outcome in of_suite.values() if outcome not in OUTCOMES.values()]
        cells = [found if which is None else [s for s, outcome in of_suite.items() if outcome == which]
                 for which in (CLEAN, None, CUT_OFF, SKIPPED)]
        shown = [", ".join(sorted(cell)) or "-" for cell in cells]
        lines.append(f"| {tool} | {' | '.join(shown if of_suite else ['-', '-', '-', 'all'])} |")
    return lines + [""]


def keep(folder, entry, baseline):
    """The newest entry first; what a row was before stays where this run did not measure it."""
    ledger = folder / "LEDGER.md"
    head, mark, earlier = ledger.read_text().partition("\n## ")
    ledger.write_text(head.split("\nNo run yet")[0] + "\n" + entry + mark + earlier)
    path = folder / "baseline.json"
    before = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({**before, **baseline}, indent=1) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("baseline", type=pathlib.Path, nargs="?")
    parser.add_argument("--keep", type=pathlib.Path)
    parser.add_argument("--strict", action="store_true")
    arguments = parser.parse_args()
    out = arguments.out
    rows = load_rows(out)
    card = Card(rows)
    baseline = {}
    if arguments.baseline and arguments.baseline.exists():
        baseline = json.loads(arguments.baseline.read_text())
    goals = judge(rows, card)
    lines = (head_of_entry(out) + stage_lines(out) + sanitizer_lines(out) + goal_table(goals) + [""] +
             row_table(rows, card, baseline))
    print("\n".join(lines))
    measured = {r["name"]: r["us"] for r in rows.values() if is_measured(r)}
    (out / "ledger.md").write_text("\n".join(lines) + "\n")
    (out / "baseline.json").write_text(json.dumps(measured, indent=1) + "\n")
    if arguments.keep:
        keep(arguments.keep, "\n".join(lines) + "\n", measured)
    n_short = sum(verdict(v, first, later) == "SHORT" for _, _, v, first, later in goals)
    return 1 if arguments.strict and n_short else 0


if __name__ == "__main__":
    sys.exit(main())
