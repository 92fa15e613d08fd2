#!/usr/bin/env bash
# run.sh [full|quick|dry] - what only a machine with a GPU can show, in one call under ten minutes
# without a network, with nothing installed but CUDA, CMake, ninja and Python with torch and
# transformers: does the backend `cuda` build, give the reference's numbers without memory errors,
# and how fast is it against this card's own ceilings and the goals G1 to G8 (report.py)?
#
#   bash tests/gpu/run.sh              LOGS=build/gpu-out, LIMIT=585 seconds in all
#
# Every stage has its own limit and its text in LOGS/STAGE.txt; with OUT set, five files go there at
# the end: report, ledger entry, stages, numbers, and all of LOGS in one archive. A stage that fails does not keep the later
# ones from running, except the build. What teaches most comes first, so that a call that is cut off
# has taught something. quick leaves out sanitizers, baselines and the larger models. dry (in ctest, no
# device): builds all of it, wants each program to say "no device" and exit 77, and lets the benches
# run on the reference. full notes what it found in tests/gpu/LEDGER.md and baseline.json.
# Exit 0: all stages passed; 77: nothing to build with or to run on.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 2
mode=${1:-full}
BUILD=${BUILD:-$PWD/build/gpu} LOGS=${LOGS:-$PWD/build/gpu-out} LIMIT=${LIMIT:-585} rc=0
NO_DEVICE=77 LEAST_SECONDS=5
AT_ONCE=8 SANITIZER_SECONDS=50 # of one suite under one tool
SANITIZER=$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)
BENCH=$BUILD/test/engine-bench
export BUILD mode
mkdir -p "$LOGS"
rm -f "$LOGS"/*.txt "$LOGS"/*.json "$LOGS"/*.md

# Also when the call is cut off.
give_back() {
    [ -n "${OUT:-}" ] || return 0
    mkdir -p "$OUT"
    tar -czf "$OUT/logs.tar.gz" -C "$LOGS" .
    cp "$LOGS"/report.txt "$LOGS"/ledger.md "$LOGS"/stages.txt "$LOGS"/baseline.json "$OUT" 2>/dev/null
}
trap give_back EXIT
trap 'exit 124' TERM INT

# stage NAME SECONDS COMMAND...: one line of result, also to stages.txt.
stage() {
    local name=$1 limit=$2 from=$SECONDS status left=$((LIMIT - SECONDS))
    shift 2
    if [ "$left" -lt $LEAST_SECONDS ]; then
        echo "$name left out: no time" | tee -a "$LOGS/stages.txt"
        return 1
    fi
    [ "$limit" -gt "$left" ] && limit=$left
    timeout -k 5 "$limit" "$@" >"$LOGS/$name.txt" 2>&1
    status=$?
    echo "$name rc=$status $((SECONDS - from))s" | tee -a "$LOGS/stages.txt"
    return $status
}

# A stage whose end is shown at once when it fails, and which makes the whole run fail.
check() {
    stage "$@" && return
    rc=1
    tail -n 12 "$LOGS/$1.txt" 2>/dev/null | sed 's/^/    /'
}

suites() {
    find "$BUILD/test" -maxdepth 1 -type f -executable -name 'cuda_*' ! -name cuda_ptx | sort
}

# sanitize SECONDS COMMAND...: every suite under each tool of compute-sanitizer (COMMAND), several at
# a time, since nothing is measured. Each has a line in stages.txt, also the one that got no time.
sanitize() (
    until=$((SECONDS + $1))
    [ $until -lt "$LIMIT" ] && LIMIT=$until
    for tool in memcheck racecheck; do
        for suite in $(suites) "$BUILD/test/cuda_ptx"; do
            [ "$(jobs -rp | wc -l)" -ge $AT_ONCE ] && wait -n
            stage "$tool-$(basename "$suite")" $SANITIZER_SECONDS "${@:2}" --tool $tool --error-exitcode 9 \
                --target-processes all "$suite" &
        done
    done
    wait
)

# Found something: neither clean nor out of time.
sanitizers_failed() {
    grep -E '^(memcheck|racecheck)-[^ ]+ rc=' "$LOGS/stages.txt" | grep -Ev ' rc=(0|124|137) '
}

# What a toolkit without them lacks (NCCL, cuBLAS), as torch brought it.
wheels() {
    python3 -c 'import glob, nvidia
print(";".join(sorted(d for p in nvidia.__path__ for d in glob.glob(p + "/*/"))))' 2>/dev/null
}

build() {
    local werror=OFF # of the compilers known here only
    [ "$mode" = dry ] && werror=ON
    cmake --preset gpu -B "$BUILD" -DMILEPOST_WERROR=$werror "-DCUDA_WHEELS=$(wheels)" &&
        cmake --build "$BUILD" -j "$(nproc)" --target kernel-test ptx-test engine-bench
}

environment() {
    echo "card: $(nvidia-smi --query-gpu=name --format=csv,noheader | head -1)"
    echo "commit: $(git rev-parse --short HEAD 2>/dev/null || echo unknown)"
    nvidia-smi
    nvidia-smi --query-gpu=clocks.sm,clocks.mem,clocks.max.sm,power.limit,temperature.gpu --format=csv
    nvcc --version || /usr/local/cuda/bin/nvcc --version
    g++ --version | head -1
    nproc
    free -g | head -2
    ls /usr/local/cuda/lib64 2>/dev/null | grep -E 'cudart|cublas|nccl'
    wheels
    python3 -c 'import torch, transformers; print(torch.__version__, transformers.__version__)'
}

# Registers, stack and spills of each kernel, as ptxas said.
resources() {
    find "$BUILD" -name '*.ptxas' | sort | while read -r file; do
        echo "== $(basename "$file" .o.ptxas)"
        grep -E 'Compiling entry|bytes stack|Used|warning' "$file"
    done
}

# No device here: each program says so, and what needs none runs.
dry() {
    local program name status tool
    for program in $(suites) "$BUILD/test/cuda_ptx" "$BENCH"; do
        name=$(basename "$program")
        stage "$name" 60 "$program" ceilings
        status=$?
        if [ $status -ne $NO_DEVICE ] || ! grep -q 'no device' "$LOGS/$name.txt"; then
            echo "$name: exit $status, want $NO_DEVICE and 'no device'"
            rc=1
        fi
    done
    # A command that runs the program alone stands for the sanitizer; and once there is no time.
    sanitize 60 bash -c 'exec "${@: -1}"' sanitizer
    for program in $(suites) "$BUILD/test/cuda_ptx"; do
        for tool in memcheck racecheck; do
            grep -q "^$tool-$(basename "$program") rc=$NO_DEVICE " "$LOGS/stages.txt" && continue
            echo "$program did not run under $tool"
            rc=1
        done
    done
    sanitize 0 false
    if [ "$(grep -c 'check-cuda_.* left out: no time' "$LOGS/stages.txt")" -ne \
        "$(grep -c 'check-cuda_.* rc=' "$LOGS/stages.txt")" ]; then
        echo "a sanitizer without time was not named"
        rc=1
    fi
    if ninja -C "$BUILD" -t deps | grep -E '/(jansson|event2|zmq|sqlite3|curl|openssl|cmocka)[./]' |
        grep -v gpu/bare; then
        echo "these headers are not on a bare machine"
        rc=1
    fi
    check reference 60 "$BENCH" model --backend ref --model synth-tiny --batch 1@20,3@8 --prompt 20 \
        --small --json "$LOGS/reference.json"
    check report 30 python3 tests/gpu/report.py "$LOGS"
    grep -E '^\| (mem|race)check ' "$LOGS/report.txt"
    exit $rc
}

if ! command -v nvcc >/dev/null && [ ! -x /usr/local/cuda/bin/nvcc ]; then
    echo "no CUDA toolkit: skipped"
    exit $NO_DEVICE
fi
for program in cmake ninja g++ python3; do
    command -v "$program" >/dev/null || { echo "$program is missing: nothing can be built"; exit $NO_DEVICE; }
done
export -f wheels build environment resources
has_gpu=no
nvidia-smi -L 2>/dev/null | grep -q GPU && has_gpu=yes
if [ "$mode" = dry ] && [ $has_gpu = yes ]; then
    echo "this machine has a GPU: run without dry"
    exit $NO_DEVICE
elif [ "$mode" != dry ] && [ $has_gpu = no ]; then
    echo "nvidia-smi lists no GPU: only 'dry' runs here"
    exit $NO_DEVICE
fi
[ "$mode" = dry ] || stage env 40 bash -c environment
build_limit=400
[ "$mode" = dry ] && LIMIT=1500 build_limit=1200 # two busy cores
if ! stage build $build_limit bash -c build; then
    grep -E -A5 'error|FAILED' "$LOGS/build.txt" | head -60
    tail -n 5 "$LOGS/build.txt"
    exit 1
fi
stage resources 10 bash -c resources
[ "$mode" = dry ] && dry

# A model's steps: NAME MODEL DTYPE SECONDS BATCHES PROMPT [option...].
steps() {
    check "$1" "$4" "$BENCH" model --model "$2" --dtype "$3" --batch "$5" --prompt "$6" "${@:7}" \
        --json "$LOGS/$1.json"
}

# Is our model of the device right? Are its results? How fast can it be?
check ptx 30 "$BUILD/test/cuda_ptx"
for suite in $(suites); do
    check "$(basename "$suite")" 60 "$suite"
done
check ceilings 40 "$BENCH" ceilings --json "$LOGS/ceilings.json"
steps 8b-bf16 synth-8b bf16 80 1@256,64@1024,256@1024 8192
check kernels 60 "$BENCH" kernels --json "$LOGS/kernels.json"
steps 8b-cublaslt synth-8b bf16 60 1@256 8192 --gemm cublaslt
steps 1b-bf16 synth-1b bf16 40 1@256,8@256,64@1024,256@1024 8192
if [ "$mode" = full ]; then
    sanitize 100 "$SANITIZER"
    sanitizers_failed && rc=1
    steps 8b-q4_0 synth-8b q4_0 50 1@256,8@256,64@1024 0
    steps 8b-fp8 synth-8b fp8 60 1@256,8@256,64@1024 0
    steps 8b-q8_0 synth-8b q8_0 60 1@256,8@256,256@1500 8192
    steps 30b-a3b synth-30b-a3b q4_0 60 1@256,8@256 0
    check baseline 150 python3 tests/gpu/hf_baseline.py --budget 100 --json "$LOGS/hf.json"
fi
stage clocks 10 nvidia-smi --query-gpu=clocks.sm,clocks.mem,temperature.gpu --format=csv
LIMIT=$((LIMIT + 30))
keep=
[ "$mode" = full ] && keep="--keep tests/gpu"
check report 20 python3 tests/gpu/report.py "$LOGS" tests/gpu/baseline.json $keep
cat "$LOGS/report.txt"
echo "total $SECONDS s rc=$rc${keep:+; tests/gpu/LEDGER.md and baseline.json are to be committed}"
exit $rc
