#!/usr/bin/env python3
"""Does report.py judge? Runs it over made-up measurements of a card that copies 4 TB/s and multiplies
at 800 TFLOP/s, a little above, at and below each goal. Only the standard library."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
COPY, BF16 = 4.0e6, 8.0e8  # bytes and operations a microsecond


def row(name, us, n_bytes=0.0, flops=0.0, tok_s=0.0):
    return {"name": name, "us": us, "bytes": n_bytes, "flops": flops, "tok_s": tok_s}


CEILINGS = [row("copy", 100, 100 * COPY), row("read", 100, 105 * COPY),
            row("bf16 product", 100, 0, 100 * BF16), row("fp8 product", 100, 0, 190 * BF16)]


def decode(model, dtype, batch, share, context=256):
    """A step that takes so long that its bytes are `share` of the copy bandwidth."""
    return row(f"decode {model} {dtype} batch {batch} context {context}", 1000, 1000 * COPY * share)


class Report(unittest.TestCase):
    def run_report(self, rows, *options, baseline=None, raw=None, stages=""):
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder)
            (out / "ceilings.json").write_text(json.dumps({"kind": "ceilings", "rows": CEILINGS}))
            (out / "model.json").write_text(json.dumps({"kind": "model", "rows": rows}))
            (out / "env.txt").write_text("card: NVIDIA TEST\ncommit: abc123\n")
            (out / "stages.txt").write_text("build rc=0 3s\nptx rc=1 2s\n" + stages)
            if raw:
                (out / "cut.json").write_text(raw)
            arguments = [sys.executable, HERE / "report.py", out]
            if baseline:
                (out / "before").write_text(json.dumps(baseline))
                arguments.append(out / "before")
            done = subprocess.run([*arguments, *options], capture_output=True, text=True)
            self.ledger = (out / "ledger.md").read_text()
            self.baseline = json.loads((out / "baseline.json").read_text())
            self.code, self.text = done.returncode, done.stdout
            return done.stdout

    def verdicts(self, goal):
        """What stands behind every line of a goal."""
        lines = [line.strip("| ").split(" | ") for line in self.text.splitlines()
                 if line.startswith(f"| {goal} |")]
        self.assertTrue(lines, f"no line for {goal}")
        return [line[-1] for line in lines]

    def test_without_measurements_nothing_is_met(self):
        self.run_report([])
        for number in range(1, 9):
            self.assertEqual(set(self.verdicts(f"G{number}")), {"not measured"})

    def test_shares_of_the_copy_bandwidth(self):
        for goal, model, dtype, first, later in (("G1", "synth-8b", "bf16", .85, .90),
                                                 ("G2", "synth-1b", "bf16", .70, .80),
                                                 ("G8", "synth-30b-a3b", "q4_0", .45, .65)):
            for share, want in ((first - .01, "SHORT"), (first + .001, "met"),
                                (later + .001, "met, the later goal too")):
                self.run_report([decode(model, dtype, 1, share)])
                self.assertEqual(self.verdicts(goal), [want], f"{goal} at {share}")

    def test_eight_and_four_bits_have_their_own_goals(self):
        self.run_report([decode("synth-8b", "q8_0", 1, .60), decode("synth-8b", "fp8", 1, .71),
                         decode("synth-8b", "q4_0", 1, .60)])
        self.assertEqual(self.verdicts("G3"), ["SHORT", "met", "met"])

    def test_the_floor_is_the_larger_of_moving_and_computing(self):
        name = "decode synth-8b bf16 batch 64 context 1024"
        self.run_report([row(name, 1000, 700 * COPY, 100 * BF16)])
        self.assertEqual(self.verdicts("G4")[0], "met")
        self.run_report([row(name, 1000, 100 * COPY, 700 * BF16)])
        self.assertEqual(self.verdicts("G4")[0], "met")
        self.run_report([row(name, 1000, 600 * COPY, 600 * BF16)])
        self.assertEqual(self.verdicts("G4"), ["SHORT", "not measured"])

    def test_prompts_count_operations(self):
        name = "prefill synth-8b bf16 8192 tokens"
        for share, want in ((.59, "SHORT"), (.61, "met"), (.76, "met, the later goal too")):
            self.run_report([row(name, 1e5, 1, 1e5 * BF16 * share, 8192 / .1)])
            self.assertEqual(self.verdicts("G5"), [want, "not measured"])
            self.run_report([row(name + " by cublaslt", 1e5, 1, 1e5 * BF16 * share, 8192 / .1)])
            self.assertEqual(self.verdicts("G5"), ["not measured", want])

    def test_transformers_are_compared_by_time(self):
        ours = decode("synth-8b", "bf16", 1, .9)
        eager, static = ("transformers " + way + " synth-8b bf16 batch 1" for way in ("eager", "static"))
        self.run_report([ours, row(eager, 2900), row(static, 1050)])
        self.assertEqual(self.verdicts("G6"), ["SHORT", "met"])
        self.run_report([ours, row(eager, 5100), row(static, 990)])
        self.assertEqual(self.verdicts("G6"), ["met, the later goal too", "SHORT"])

    def test_serving_is_steps_and_prompts_together(self):
        """256 x 1000 tokens: prompts at 50,000 tok/s take 5.12 s, 1000 steps of 20 ms 20 s: 10,191
        tok/s, 57% of 17,744."""
        step = row("decode synth-8b q8_0 batch 256 context 1500", 20000, 1, 1, 12800)
        prompt = row("prefill synth-8b q8_0 8192 tokens", 163840, 1, 1, 50000)
        text = self.run_report([step, prompt])
        self.assertEqual(self.verdicts("G7"), ["met"])
        self.assertIn("| 0.57 |", text)
        self.run_report([dict(step, us=30000), prompt])
        self.assertEqual(self.verdicts("G7"), ["SHORT"])

    def test_change_against_before(self):
        name = "decode synth-8b bf16 batch 1 context 256"
        self.run_report([decode("synth-8b", "bf16", 1, .9)], baseline={name: 800.0})
        line = next(line for line in self.text.splitlines() if name in line)
        self.assertIn("+25.0%", line)
        self.assertIn("90.0%", line)
        self.assertEqual(self.baseline[name], 1000)

    def test_strict_fails_on_a_short_goal_only(self):
        self.run_report([decode("synth-8b", "bf16", 1, .86)], "--strict")
        self.assertEqual(self.code, 0)
        self.run_report([decode("synth-8b", "bf16", 1, .84)], "--strict")
        self.assertEqual(self.code, 1)

    def test_without_ceilings_there_are_no_shares(self):
        global CEILINGS
        kept, CEILINGS = CEILINGS, []
        try:
            self.run_report([decode("synth-8b", "bf16", 1, .9)])
            self.assertEqual(self.verdicts("G1"), ["not measured"])
        finally:
            CEILINGS = kept

    def test_a_file_that_was_cut_off_loses_only_its_rows(self):
        self.run_report([decode("synth-8b", "bf16", 1, .9)], raw='{"kind": "model", "rows": [')
        self.assertEqual(self.code, 0)
        self.assertEqual(self.verdicts("G1"), ["met, the later goal too"])

    def test_the_ledger_says_where_and_what_failed(self):
        self.run_report([decode("synth-8b", "bf16", 1, .5)])
        for words in ("NVIDIA TEST", "abc123", "ptx rc=1", "SHORT"):
            self.assertIn(words, self.ledger)

    def test_every_suite_of_a_sanitizer_is_named(self):
        def cells(tool):
            line = next(line for line in self.text.splitlines() if line.startswith(f"| {tool} |"))
            return line.strip("| ").split(" | ")[1:]
        self.run_report([], stages="memcheck-cuda_ops rc=0 9s\nmemcheck-cuda_mix rc=9 4s\n"
                        "memcheck-cuda_draw rc=0 9s\nracecheck-cuda_ops rc=124 50s\n"
                        "racecheck-cuda_mix rc=137 50s\nracecheck-cuda_draw left out: no time\n")
        self.assertEqual(cells("memcheck"), ["draw, ops", "mix (rc=9)", "-", "-"])
        self.assertEqual(cells("racecheck"), ["-", "-", "mix, ops", "draw"])
        self.run_report([])
        self.assertEqual(cells("memcheck"), ["-", "-", "-", "all"])

    def test_runs_are_kept_the_newest_first(self):
        with tempfile.TemporaryDirectory() as folder:
            kept = pathlib.Path(folder)
            head = (HERE / "LEDGER.md").read_text().partition("\n## ")[0]
            (kept / "LEDGER.md").write_text(head)
            for share in (.86, .91):
                self.run_report([decode("synth-8b", "bf16", 1, share)], "--keep", folder)
            ledger = (kept / "LEDGER.md").read_text()
            self.assertEqual(ledger.count("\n## "), 2)
            self.assertLess(ledger.index("| 0.91 |"), ledger.index("| 0.86 |"))
            self.assertTrue(ledger.startswith("# Runs on a GPU\n\nEach entry"))
            self.assertNotIn("No run yet", ledger)
            baseline = json.loads((kept / "baseline.json").read_text())
            self.assertEqual(baseline["decode synth-8b bf16 batch 1 context 256"], 1000)


if __name__ == "__main__":
    unittest.main()
