#!/usr/bin/env python3
"""What each CUDA kernel may cost: registers, spills, stack, shared memory, widths of its accesses.

    budget.py FOLDER           compares what nvcc left in FOLDER with kernels/cuda/budget.tsv
    budget.py FOLDER --update  writes that file; its diff belongs into the commit of the kernel

FOLDER is BUILD/kernels/cuda: objects, with PTX in plain text, and beside each what `ptxas -v` said.
Worse than the budget fails; better is told only. Registers are counted in eights, as the hardware
hands them out. Another nvcc than the file's may choose other registers: then only spills, stack and
missing kernels fail. Exit 77: no objects here."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUDGET = ROOT / "kernels" / "cuda" / "budget.tsv"
COLUMNS = ["registers", "spill", "stack", "shared", "wide", "narrow"]
HEAD = """# What tests/kernels/budget.py allows each kernel (sm_90; update: budget.py BUILD/kernels/cuda --update).
# registers: at most, in eights; spill, stack, shared: bytes at most; wide: global accesses of 8 and 16
# bytes in the PTX, at least; narrow: those of 1 to 4 bytes, at most.
# draw spills: 1024 threads to a block leave each 64 registers, and fewer threads would read a row slower.
"""
ACCESS = re.compile(r"\b(?:ld|st)\.global[\w.:]*?(?:\.v(\d))?\.[busf](\d+)\b")


def eights(n):
    return (n + 7) // 8 * 8


def from_ptxas(text, out):
    for part in text.split("Compiling entry function '")[1:]:
        name = part.split("'")[0]
        numbers = {key: int(m.group(1)) if (m := re.search(pattern, part)) else 0
                   for key, pattern in (("registers", r"Used (\d+) registers"),
                                        ("stack", r"(\d+) bytes stack frame"),
                                        ("shared", r"(\d+) bytes smem"))}
        numbers["registers"] = eights(numbers["registers"])
        numbers["spill"] = sum(int(n) for n in re.findall(r"(\d+) bytes spill", part))
        out.setdefault(name, {"wide": 0, "narrow": 0}).update(numbers)


def from_ptx(text, out):
    for part in re.split(r"\.entry\s+", text)[1:]:
        name = re.match(r"\w+", part)
        if not name or name.group() not in out:
            continue
        counts = {"wide": 0, "narrow": 0}
        for m in ACCESS.finditer(part.split(".func")[0]):
            n_bytes = int(m.group(1) or 1) * int(m.group(2)) // 8
            counts["wide" if n_bytes >= 8 else "narrow"] += 1
        out[name.group()].update(counts)


def readable(names):
    """milepost_cuda::attend<3, 8>(attend_args) -> attend<3,8>"""
    done = subprocess.run(["c++filt"], input="\n".join(names), capture_output=True, text=True,
                          check=True).stdout.splitlines()
    short = [re.sub(r"\(\w+\)(?=[\d-])", "", d) for d in done]
    return [re.sub(r"^(void )?(\w+::)*|\(.*$| ", "", d) for d in short]


def measured(folder):
    kernels = {}
    for report in sorted(folder.glob("*.o.ptxas")):
        if not Path(ROOT / "kernels" / "cuda" / report.name.replace(".o.ptxas", ".cu")).exists():
            continue
        from_ptxas(report.read_text(), kernels)
        from_ptx(report.with_suffix("").read_bytes().decode("latin-1"), kernels)
    return dict(sorted(zip(readable(kernels), kernels.values())))


def nvcc_version():
    for nvcc in ("nvcc", "/usr/local/cuda/bin/nvcc"):
        try:
            text = subprocess.run([nvcc, "--version"], capture_output=True, text=True).stdout
        except OSError:
            continue
        return re.search(r"V[\d.]+", text).group()
    return "?"


def update(kernels):
    lines = [f"# nvcc {nvcc_version()}", "\t".join(["kernel"] + COLUMNS)]
    lines += ["\t".join([name] + [str(k[c]) for c in COLUMNS]) for name, k in kernels.items()]
    BUDGET.write_text(HEAD + "\n".join(lines) + "\n")
    print(f"{len(kernels)} kernels in {BUDGET.relative_to(ROOT)}")


def allowed():
    text = BUDGET.read_text()
    rows = [line.split("\t") for line in text.splitlines() if line and line[0] != "#"][1:]
    version = re.search(r"# nvcc (\S+)", text).group(1)
    return {r[0]: dict(zip(COLUMNS, map(int, r[1:]))) for r in rows}, version


def compare(kernels):
    budget, version = allowed()
    is_same = version == nvcc_version()
    worse, better = [], 0
    for name in sorted(kernels.keys() | budget.keys()):
        if name not in budget or name not in kernels:
            worse.append(f"{name}: " + ("no budget yet" if name in kernels else "no such kernel"))
            continue
        for c in COLUMNS if is_same else ("spill", "stack"):
            got, limit = kernels[name][c], budget[name][c]
            is_worse = got < limit if c == "wide" else got > limit
            better += got != limit and not is_worse
            if is_worse:
                worse.append(f"{name}: {c} {got}, the budget is {limit}")
    if not is_same:
        print(f"nvcc {nvcc_version()}, the budget is of {version}: spills and stack compared only")
    print(f"{len(kernels)} kernels, {len(worse)} findings, {better} numbers better than the budget")
    return worse


def main():
    folder = Path(sys.argv[1])
    kernels = measured(folder)
    if not kernels:
        print(f"no reports of ptxas in {folder}: built without a CUDA toolkit")
        return 77
    if "--update" in sys.argv:
        update(kernels)
        return 0
    worse = compare(kernels)
    for line in worse:
        print(line)
    if worse:
        print("Meant? python3 tests/kernels/budget.py BUILD/kernels/cuda --update, and commit the "
              "diff with its reason.")
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
