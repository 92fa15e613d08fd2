"""Runs the public JSON-Schema-Test-Suite (draft 2020-12) through `milepost-verifier check --cases`
and prints one table row per file: tests, right, refused at load, unscored, wrong.

usage: schema_suite.py SUITE_DIR [VERIFIER]     SUITE_DIR holds tests/draft2020-12
A schema that the check refuses (a remote reference, for example) counts its tests as refused, never
as right. format/*.json run with format=assert, the rest as the specification's default."""
import json
import os
import re
import subprocess
import sys
import tempfile


class Number(str):
    """A number as the suite writes it: a double would lose digits."""


def text(value):
    if isinstance(value, Number):
        return str(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(k)}:{text(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(text, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def escape(s):
    for plain, escaped in (("\\", "\\\\"), ("\n", "\\n"), ("\t", "\\t"), ("\r", "\\r")):
        s = s.replace(plain, escaped)
    return s


def run_group(verifier, group, options):
    """(right, refused, undecided, [wrong descriptions], message of the refusal)"""
    rows = ["kind\toutput\treference\texpected\tsource"]
    for test in group["tests"]:
        want = "pass" if test["valid"] else "fail"
        rows.append("\t".join([f"jsonschema:{options}", escape(text(test["data"])),
                               escape(text(group["schema"])), want, "suite"]))
    with tempfile.NamedTemporaryFile("w", suffix=".tsv", newline="\n", encoding="utf-8") as f:
        f.write("\n".join(rows) + "\n")
        f.flush()
        p = subprocess.run([verifier, "check", "--cases", f.name], capture_output=True, text=True)
    if "total:" not in p.stdout:
        return 0, len(group["tests"]), 0, [], p.stderr.strip()
    wrong, undecided = [], 0
    for line, rest in re.findall(r"^line (\d+): (.*)$", p.stdout, re.M):
        if "got inconclusive" in rest:
            undecided += 1
            continue
        wrong.append(f"{group['description']} / {group['tests'][int(line) - 2]['description']}: "
                     f"{rest[:100]}")
    return len(group["tests"]) - len(wrong) - undecided, 0, undecided, wrong, ""


def main():
    suite, verifier = sys.argv[1], (sys.argv[2:] or ["build/release/bin/milepost-verifier"])[0]
    base = os.path.join(suite, "tests", "draft2020-12")
    total, details = [0] * 5, []
    print("| file | tests | right | refused | unscored | wrong |\n|---|---|---|---|---|---|")
    for folder, _, names in sorted(os.walk(base)):
        for name in sorted(n for n in names if n.endswith(".json")):
            path = os.path.join(folder, name)
            short = os.path.relpath(path, base)
            options = "unknown_keywords=ignore"
            if "format/" in short or "format-assertion" in short:
                options += ",format=assert"
            groups = json.load(open(path, encoding="utf-8"), parse_int=Number, parse_float=Number)
            row = [0] * 5
            for group in groups:
                right, refused, undecided, wrong, why = run_group(verifier, group, options)
                row = [row[0] + len(group["tests"]), row[1] + right, row[2] + refused,
                       row[3] + undecided, row[4] + len(wrong)]
                details += [f"wrong: {short}: {w}" for w in wrong]
                if why:
                    details.append(f"refused: {short}: {group['description']}: {why[-160:]}")
            print(f"| {short[:-5]} | " + " | ".join(map(str, row)) + " |")
            total = [a + b for a, b in zip(total, row)]
    print("| **all** | " + " | ".join(map(str, total)) + " |")
    print("\n".join(details), file=sys.stderr)


main()
