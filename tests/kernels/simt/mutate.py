#!/usr/bin/env python3
"""Mutation test of the kernels: does a test notice when a barrier, fence, wait or bound is missing?

Every .cu of kernels/cuda and every header with device code (but the wrappers of single
instructions) is rewritten so that each mutation is switched on by its number at run time:
    __syncthreads();      ->  { if (!mutant(7)) __syncthreads(); }
    if (i >= n) return;   ->  if (!mutant(8) && (i >= n)) return;
    a && i < n            ->  a && (mutant(9) || (i < n))
    for (...; i < n; ...) ->  for (...; (mutant(10) ? i <= n : i < n); ...)
One compilation then serves all mutants of a build. Each runs in the tests of the emulator's suites
that reach it (simt.NAME.check, simt.NAME.fast), the cheapest first; the first failure or report ends
it. New kernels and new suites need no entry here. A mutant that no test notices needs a line in
mutants.tsv: its key as printed, a tab, and why the removed part is redundant. Better: a test.

    mutate.py BUILD          all mutants (about half an hour of one core)
    mutate.py BUILD --quick  three mutants of one .cu, chosen by the sources' content
    mutate.py --list         keys without building; any word more: only keys with it
    --seen FILE              what is caught is noted there and not tried again until its file changes
    --argued                 also those of mutants.tsv: is one caught after all?
Exit 0: all caught or argued. 77: nothing to build with."""

import argparse
import concurrent.futures
import hashlib
import json
import os
import re
import resource
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
KERNELS = ROOT / "kernels" / "cuda"
ARGUED = Path(__file__).with_name("mutants.tsv")
# One instruction a function: their device bodies are asm, compared on a device by tests/gpu.
WRAPPERS = {"dialect.h", "ptx.h", "hopper.h", "number.h"}

# Suites, the cheapest first; one that is named as the kernel before all others.
QUICK = ["route", "peers", "fused", "traffic", "mix", "model", "draw", "ops", "attend"]

CALL = re.compile(r"\b(\w*(?:sync|fence|wait|arrive|commit|expect)\w*)\s*(?:<[^<>;()]*>)?\(")
RELATION = re.compile(r" (<|>|<=|>=) ")
ONE_THREAD = re.compile(r"\b(lane|threadIdx\.x[^=]*|first) == 0\b")
CONSTANT = re.compile(r"^[\s()\-+*/]*(?:[A-Z0-9_]+(?:::)?|\d+u?|\(\w+\)|[\s()\-+*/])+$")

RUNTIME = r"""
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
extern void cmocka_set_test_filter(const char *pattern);
enum { MAX_MUTANTS = 1 << 14 };
static unsigned chosen;
static unsigned char *reached; /* shared with processes that a test starts */
__attribute__((constructor)) static void begin(void)
{
    const char *n = getenv("MILEPOST_MUTANT");
    chosen = n ? (unsigned)strtoul(n, NULL, 10) : 0;
    reached = mmap(NULL, MAX_MUTANTS, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (reached == MAP_FAILED)
        abort();
    cmocka_set_test_filter(getenv("MILEPOST_MUTANT_TEST"));
}
bool simt_mutant(unsigned n)
{
    reached[n] = 1;
    return n == chosen;
}
__attribute__((destructor)) static void end(void)
{
    const char *path = getenv("MILEPOST_MUTANTS_REACHED");
    FILE *f = path ? fopen(path, "w") : NULL;
    for (unsigned i = 0; f && i < MAX_MUTANTS; i++)
        if (reached[i])
            fprintf(f, "%u\n", i);
    if (f)
        fclose(f);
}
"""


def blank(text):
    """Comments, strings and preprocessor lines as spaces, so that positions stay."""
    pattern = r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\])*"|(?m:^[ ]*#(?:\\\n|[^\n])*)'
    return re.sub(pattern, lambda m: re.sub(r"[^\n]", " ", m.group()), text, flags=re.S)


def closing(text, at):
    """Position of what closes the bracket at `at`."""
    pairs = {"(": ")", "{": "}", "[": "]"}
    depth = 0
    for i in range(at, len(text)):
        if text[i] in pairs:
            depth += 1
        elif text[i] in ")}]":
            depth -= 1
            if depth == 0:
                return i
    raise ValueError("unbalanced brackets")


def functions(text):
    """(name, start, end) of each body of device code."""
    end = 0
    for m in re.finditer(r"__device__|__global__", text):
        if m.start() < end:
            continue
        brace, semicolon = text.find("{", m.end()), text.find(";", m.end())
        if brace < 0 or 0 <= semicolon < brace:
            continue
        names = re.findall(r"(\w+)\s*\(", re.sub(r"__launch_bounds__\([^)]*\)", "",
                                                 text[m.end():brace]))
        end = closing(text, brace)
        yield names[0], brace + 1, end


def operands(text, start, end):
    """Where the operands of the outermost && or || of text[start:end] lie, and which of both."""
    depth, parts, sign, at = 0, [], "", start
    for i in range(start, end):
        depth += (text[i] in "([{") - (text[i] in ")]}")
        if depth == 0 and text[i:i + 2] in ("&&", "||"):
            if sign and sign != text[i:i + 2]:
                return [(start, end)], ""
            sign = text[i:i + 2]
            parts.append((at, i))
            at = i + 2
    return parts + [(at, end)], sign


def trim(text, start, end):
    while text[start].isspace():
        start += 1
    while text[end - 1].isspace():
        end -= 1
    return start, end


class Mutant:
    def __init__(self, file, function, kind, start, end, before, after):
        self.file, self.function, self.kind = file, function, kind
        self.start, self.end, self.before, self.after = start, end, before, after
        self.number = self.line = 0
        self.key = self.result = ""


def is_bound(fragment):
    return bool(RELATION.search(fragment) or ONE_THREAD.search(fragment))


def mutants_of_condition(add, text, start, end, alone):
    """alone: what to make of a condition of one operand: 'true', 'false' or 'wider'."""
    parts, sign = operands(text, start, end)
    for a, b in parts:
        a, b = trim(text, a, b)
        if not is_bound(text[a:b]):
            continue
        want = {"&&": "true", "||": "false"}.get(sign, alone)
        if want == "true":
            add("bound", a, b, "(simt_mutant(%d) || (", "))")
        elif want == "false":
            add("bound", a, b, "(!simt_mutant(%d) && (", "))")
        elif not CONSTANT.match(RELATION.split(text[a:b])[-1]):
            wider = re.sub(r" ([<>]) ", r" \1= ", text[a:b], count=1)
            if wider != text[a:b]:
                add("bound", a, b, f"(simt_mutant(%d) ? {wider} : ", ")")


def find_calls(add, text, start, end):
    for m in CALL.finditer(text, start, end):
        name, last = m.group(1), closing(text, m.end() - 1) + 1
        if name.startswith("ld_acquire"):
            continue
        if not re.search(r"[;{})]\s*$", text[start - 1:m.start()]) or text[last] != ";":
            continue
        kind = "barrier" if "sync" in name else "fence" if "fence" in name else "wait"
        add(kind, m.start(), last + 1, "{ if (!simt_mutant(%d)) ", " }")
    for m in re.finditer(r"\bld_acquire\(", text[start:end]):
        a = start + m.start()
        b = closing(text, start + m.end() - 1)
        pointer = text[start + m.end():b]
        add("fence", a, b + 1, f"(simt_mutant(%d) ? *({pointer}) : ", ")")


def find_conditions(add, text, start, end):
    for m in re.finditer(r"\b(if|while|for)\s*\(", text[start:end]):
        a = start + m.end()
        b = closing(text, a - 1)
        if m.group(1) == "for":
            semicolons = [i for i in range(a, b) if text[i] == ";"]
            if len(semicolons) == 2 and text[semicolons[0] + 1:semicolons[1]].strip():
                mutants_of_condition(add, text, semicolons[0] + 1, semicolons[1], "wider")
        elif m.group(1) == "while":
            mutants_of_condition(add, text, a, b, "wider")
        else:
            leaves = re.match(r"\s*(return|continue|break)\b", text[b + 1:])
            mutants_of_condition(add, text, a, b, "false" if leaves else "true")


def start_of_expression(text, start, at):
    """Of what ends before `at`: after the bracket, separator or assignment that opens it."""
    depth, i = 0, at - 1
    while i >= start:
        depth += (text[i] in ")]}") - (text[i] in "([{")
        is_assignment = text[i] == "=" and text[i - 1] not in "<>=!" and text[i + 1] != "="
        is_colon = text[i] == ":" and ":" not in (text[i - 1], text[i + 1])
        if depth < 0 or depth == 0 and (text[i] in ",;{?" or is_assignment or is_colon):
            break
        i -= 1
    word = re.match(r"\s*return\b", text[i + 1:at])
    return i + 1 + (word.end() if word else 0)


def end_of_expression(text, at):
    depth = 0
    while depth > 0 or not (text[at] in ",;)]?}" or
                            text[at] == ":" and ":" not in (text[at - 1], text[at + 1])):
        depth += (text[at] in "([{") - (text[at] in ")]}")
        at += 1
    return at


def find_choices(add, text, start, end):
    """c ? a : b becomes a."""
    for m in re.finditer(r"\?", text[start:end]):
        b = start + m.start()
        mutants_of_condition(add, text, start_of_expression(text, start, b), b, "true")


def find_values(add, text, start, end, found):
    """Comparisons elsewhere: `bool is_inside = i < n`, an argument."""
    for m in RELATION.finditer(text, start, end):
        a = start_of_expression(text, start, m.start())
        b = end_of_expression(text, m.end())
        is_statement = re.search(r"\b(for|if|while)\s*\($", text[:a]) or text[a - 1] == ";"
        if is_statement or any(f.start <= m.start() < f.end for f in found):
            continue
        mutants_of_condition(add, text, a, b, "true")


def find_mutants(path):
    text = blank(path.read_text())
    found = []
    for name, start, end in functions(text):
        def add(kind, a, b, before, after):
            found.append(Mutant(path.name, name, kind, a, b, before, after))
        find_calls(add, text, start, end)
        find_conditions(add, text, start, end)
        find_choices(add, text, start, end)
        find_values(add, text, start, end, found)
    found.sort(key=lambda m: (m.start, -m.end))
    seen = {}
    for m in found:
        m.line = text.count("\n", 0, m.start) + 1
        fragment = " ".join(text[m.start:m.end].split())
        m.key = f"{m.file} {m.function}: {fragment}"
        seen[m.key] = seen.get(m.key, 0) + 1
        if seen[m.key] > 1:
            m.key += f" #{seen[m.key]}"
    return found


def rewrite(text, mutants):
    inserts = []
    for m in mutants:
        before = m.before.replace("%d", str(m.number))
        inserts.append((m.start, 1, -m.end, before))
        inserts.append((m.end, 0, -m.start, m.after))
    for at, _, _, piece in sorted(inserts, reverse=True):
        text = text[:at] + piece + text[at:]
    return 'extern "C" bool simt_mutant(unsigned n);\n#line 1\n' + text


def headers_of(path):
    """All of kernels/cuda that it includes."""
    names = set(re.findall(r'#include "kernels/cuda/(\w+\.h)"', path.read_text()))
    return names.union(*(headers_of(KERNELS / n) for n in names))


def all_mutants():
    files = sorted(KERNELS.glob("*.cu"))
    files += sorted(p for p in KERNELS.glob("*.h")
                    if p.name not in WRAPPERS and "__device__" in p.read_text())
    mutants = [m for path in files for m in find_mutants(path)]
    for i, m in enumerate(mutants):
        m.number = i + 1
    return mutants


def read_argued(mutants):
    argued, keys, errors = {}, {m.key for m in mutants}, []
    for i, line in enumerate(ARGUED.read_text().splitlines()):
        if not line or line.startswith("#"):
            continue
        key, _, why = line.partition("\t")
        if not why.strip():
            errors.append(f"{ARGUED.name}:{i + 1}: no tab and argument after the key")
        elif key not in keys:
            errors.append(f"{ARGUED.name}:{i + 1}: no such mutant any more, remove the line: {key}")
        argued[key] = why
    return argued, errors


class Build:
    """Objects and suites with mutants, from the commands of an existing build."""

    def __init__(self, build, scratch):
        self.build, self.scratch = Path(build).resolve(), Path(scratch)
        self.compile = json.loads((self.build / "compile_commands.json").read_text())
        runtime = self.scratch / "mutant.c"
        runtime.write_text(RUNTIME)
        self.runtime = self.scratch / "mutant.o"
        subprocess.run(["cc", "-O2", "-c", runtime, "-o", self.runtime], check=True)

    def sources(self, mutants):
        folder = self.scratch / "kernels" / "cuda"
        folder.mkdir(parents=True, exist_ok=True)
        for file in {m.file for m in mutants}:
            text = (KERNELS / file).read_text()
            (folder / file).write_text(rewrite(text, [m for m in mutants if m.file == file]))

    def object(self, file, variant):
        """Compiles a .cu, mutated or not, against mutated headers; the path and what it replaces."""
        library = "simt_kernels_check" if variant == "check" else "simt_kernels"
        for entry in self.compile:
            words = shlex.split(entry["command"])
            if Path(entry["file"]).name != file or f"/{library}.dir/" not in entry["command"]:
                continue
            source = self.scratch / "kernels" / "cuda" / file
            if not source.exists():
                source.write_text((KERNELS / file).read_text())
            out = self.scratch / f"{file}.{variant}.o"
            old, at = words[words.index("-o") + 1], words.index("-o")
            words = words[:at] + ["-o", str(out), "-c", str(source), "-w", "-g0"]
            words.insert(next(i for i, w in enumerate(words) if w[0] == "-"), f"-I{self.scratch}")
            subprocess.run(words, cwd=self.build, check=True)
            return out, old
        raise SystemExit(f"{file} is not compiled by this build")

    def suites(self, variant):
        show = subprocess.run(["ctest", "--show-only=json-v1"], cwd=self.build, check=True,
                              capture_output=True, text=True)
        for test in json.loads(show.stdout)["tests"]:
            m = re.fullmatch(rf"simt\.(\w+)\.{variant}", test["name"])
            if m and m.group(1) != "emulator" and "command" in test:  # else it is not built
                yield m.group(1), Path(test["command"][0])

    def link(self, program, objects):
        name = str(program.relative_to(self.build))
        show = subprocess.run(["ninja", "-t", "commands", name], cwd=self.build, check=True,
                              capture_output=True, text=True)
        words = shlex.split(show.stdout.strip().splitlines()[-1])
        words = [w for w in words if w not in (":", "&&")]
        replaced = {old for _, old in objects}
        out = self.scratch / program.name
        words[words.index("-o") + 1] = str(out)
        words = [w for w in words if w not in replaced]
        words[1:1] = [str(o) for o, _ in objects] + [str(self.runtime)]
        subprocess.run(words, cwd=self.build, check=True)
        return out


def run_test(program, number, test="", cpu_s=0, reached=None):
    """'' when it passes, else what told; without a name, all tests of the program."""
    env = dict(os.environ, MILEPOST_MUTANT=str(number))
    if test:
        env["MILEPOST_MUTANT_TEST"] = test
    if reached:
        env["MILEPOST_MUTANTS_REACHED"] = str(reached)

    def limit():
        if cpu_s:
            resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s + 5))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.nice(5)

    p = subprocess.Popen([str(program)], env=env, stdout=subprocess.PIPE, text=True, cwd=ROOT,
                         stderr=subprocess.STDOUT, errors="replace", preexec_fn=limit)
    told = ""
    for line in p.stdout:
        if re.match(r"simt: |ERROR: |\[  ERROR   \]", line):
            told = re.sub(r"^(simt|ERROR): ", "", line.strip())[:110]
            p.kill()
            break
    p.stdout.close()
    code = p.wait()
    return told or ("" if code == 0 else f"ends with {code}")


def cpu_of(work):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    result = work()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return result, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


class Test:
    """One test of a program with mutants, run without any to see that it passes and what it reaches."""

    def __init__(self, name, program, test, scratch):
        self.name, self.program, self.test = f"{name}.{test}", program, test
        reached = scratch / f"{self.name}.reached"
        told, self.cpu_s = cpu_of(lambda: run_test(program, 0, test, reached=reached))
        if told:
            raise SystemExit(f"{self.name} fails without a mutant: {told}")
        self.limit_s = int(3 * self.cpu_s) + 3
        self.reached = {int(n) for n in reached.read_text().split()}

    def reaches(self, mutant):
        return mutant.number in self.reached


class QuickSuite:
    """All tests of a program, unseen: ctest runs it without mutants anyway."""

    def __init__(self, name, program):
        self.name, self.program, self.test, self.limit_s = name, program, "", 60

    def reaches(self, _):
        return True


def tests_of(suite, variant, program, scratch):
    """Each test of the program by itself."""
    name, source = f"{suite}.{variant}", Path(__file__).with_name(f"{suite}_test.c").read_text()
    names = re.findall(r"cmocka_unit_test\w*\((\w+)", source)
    tests = [Test(name, program, n, scratch) for n in names]
    tests = [t for t in tests if t.reached]
    print(f"{name}: {len(tests)} tests, {sum(t.cpu_s for t in tests):.0f} s, reach "
          f"{len(set().union(*(t.reached for t in tests)))} mutants", flush=True)
    return tests


def try_mutants(mutants, tests, jobs, note):
    """The cheapest test first, for all; the next for those that are left."""
    def try_one(test, m):
        told = run_test(test.program, m.number, test.test, test.limit_s)
        if told:
            m.result = f"caught by {test.name}: {told}"
        return m

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for test in tests:
            left = [m for m in mutants if not m.result and test.reaches(m)]
            tries = [pool.submit(try_one, test, m) for m in left]
            for m in (t.result() for t in concurrent.futures.as_completed(tries)):
                if m.result:
                    note(m)
                    print(f"{m.file}:{m.line} {m.kind} {m.key.split(': ', 1)[1]!r} {m.result}",
                          flush=True)
            n = sum(not m.result for m in mutants)
            if left:
                print(f"{test.name}: {len(left)} tried, {n} left", flush=True)


class Seen:
    """Mutants known to be caught, in a file that outlives an interrupted run."""

    def __init__(self, path, mutants):
        self.path, known = path, {}
        if path and path.exists():
            known = dict(line.split("\t", 1) for line in path.read_text().splitlines())
        self.version = {m.file: hashlib.sha256((KERNELS / m.file).read_bytes()).hexdigest()[:16]
                        for m in mutants}
        for m in mutants:
            m.result = known.get(self.key(m), "")

    def key(self, m):
        return f"{m.key} {self.version[m.file]}"

    def note(self, m):
        if self.path:
            with open(self.path, "a") as f:
                f.write(f"{self.key(m)}\t{m.result}\n")


def report(mutants, argued, started):
    counts = {"caught": 0, "argued": 0, "survived": 0}
    bad = []
    for m in mutants:
        is_caught = m.result.startswith("caught")
        state = "caught" if is_caught else "argued" if m.key in argued else "survived"
        counts[state] += 1
        if state == "survived":
            bad.append(f"{m.file}:{m.line}: {m.result or 'survived'}: {m.key}")
        elif is_caught and m.key in argued:
            print(f"{ARGUED.name}: is caught after all, the line can go: {m.key}")
    print(f"{len(mutants)} mutants: " + ", ".join(f"{n} {s}" for s, n in counts.items())
          + f"; {time.time() - started:.0f} s")
    return bad


def choose(mutants, argued):
    """Three mutants of one .cu: another sample whenever a kernel changes."""
    seed = hashlib.sha256(b"".join(p.read_bytes() for p in sorted(KERNELS.glob("*.cu")))).digest()
    open_ones = [m for m in mutants if m.key not in argued and m.file.endswith(".cu")]
    files = sorted({m.file for m in open_ones})
    file = files[seed[0] % len(files)]
    mine = [m for m in open_ones if m.file == file]
    return [mine[(seed[1] + i * len(mine) // 3) % len(mine)] for i in range(min(3, len(mine)))]


def test(o, mutants, chosen, argued):
    started = time.time()
    seen = Seen(o.seen, chosen)
    left = [m for m in chosen if not m.result and (o.argued or m.key not in argued)]
    with tempfile.TemporaryDirectory(prefix="milepost-mutants-") as folder:
        scratch = Path(folder)
        b = Build(o.build, scratch)
        b.sources(left)
        touched = {m.file for m in left}
        files = sorted(p.name for p in KERNELS.glob("*.cu") if touched & (headers_of(p) | {p.name}))
        for variant in ["check"] if o.quick else ["check", "fast"]:
            wanted = [(n, p) for n, p in b.suites(variant)
                      if not o.suites or f"{n}.{variant}" in o.suites.split(",")]
            if not left or not wanted:
                continue
            objects = [b.object(f, variant) for f in files]
            programs = {n: b.link(p, objects) for n, p in wanted}
            if o.quick:
                names = sorted(QUICK, key=lambda n: not files[0].startswith(n))
                tests = [QuickSuite(n, programs[n]) for n in names if n in programs]
            else:
                tests = [t for n, p in programs.items() for t in tests_of(n, variant, p, scratch)]
                tests.sort(key=lambda t: t.cpu_s)
            try_mutants(left, tests, o.jobs, seen.note)
            left = [m for m in left if not m.result]
    return report(chosen, argued, started)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("build", nargs="?")
    parser.add_argument("words", nargs="*", help="only keys with one of these")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seen", type=Path)
    parser.add_argument("--argued", action="store_true")
    parser.add_argument("--suites", default="", help="only these: ops.check,model.fast")
    o = parser.parse_args()
    mutants = all_mutants()
    argued, bad = read_argued(mutants)
    if o.list:
        words = o.words + ([o.build] if o.build else [])
        for m in mutants:
            if not words or any(w in m.key for w in words):
                print(f"{m.kind}\t{m.key}\tline {m.line}")
        return 0
    if not o.build or not (Path(o.build) / "build.ninja").exists():
        print("no ninja build given")
        return 77
    chosen = [m for m in mutants if not o.words or any(w in m.key for w in o.words)]
    if o.quick:
        chosen = choose(mutants, argued)
    bad += test(o, mutants, chosen, argued)
    for line in bad:
        print(line)
    if bad:
        print(f"A survivor wants a test that notices it, or a line in {ARGUED.relative_to(ROOT)}: "
              "the key (after the file's line), a tab, why it is redundant.")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
