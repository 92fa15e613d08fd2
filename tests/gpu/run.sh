#!/usr/bin/env bash
# run.sh [full|quick|dry] - what only a machine with a GPU can show, in one call under ten minutes
# without a network, with nothing installed but CUDA, CMake, ninja and Python with torch and
# transformers: does the backend `cuda` build, give the reference's numbers without memory errors,
# and how fast is it against this card's own ceilings and the goals G1 to G8 (report.py)?
#
# Every stage has its own limit and its text in OUT/STAGE.txt (default build/gpu-out); a stage that
# fails does not keep the later ones from running, except the build. quick leaves out the sanitizers
# and the baselines. dry (in ctest, no device): builds all of it and wants each program to say "no
# device" and exit 77. Exit 0: all stages passed; 77: nothing to build with or to run on.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 2
mode=${1:-full}
BUILD=${BUILD:-$PWD/build/gpu} OUT=${OUT:-$PWD/build/gpu-out} rc=0
NO_DEVICE=77
rm -rf "$OUT"
mkdir -p "$OUT"

# stage NAME SECONDS COMMAND...: one line of result, also to OUT/stages.txt.
stage() {
    local name=$1 limit=$2 from=$SECONDS status
    shift 2
    timeout -k 5 "$limit" "$@" >"$OUT/$name.txt" 2>&1
    status=$?
    echo "$name rc=$status $((SECONDS - from))s" | tee -a "$OUT/stages.txt"
    return $status
}

programs() {
    find "$BUILD/test" -maxdepth 1 -type f -executable -name 'cuda_*' | sort
}

build() {
    local werror=OFF # of the compilers known here only
    [ "$mode" = dry ] && werror=ON
    cmake --preset gpu -B "$BUILD" -DMILEPOST_WERROR=$werror &&
        cmake --build "$BUILD" -j "$(nproc)" --target kernel-test
}

if ! command -v "${NVCC:-nvcc}" >/dev/null && [ ! -x /usr/local/cuda/bin/nvcc ]; then
    echo "no CUDA toolkit: skipped"
    exit $NO_DEVICE
fi
export -f build
export BUILD mode
if ! stage build 400 bash -c build; then
    tail -30 "$OUT/build.txt"
    exit 1
fi

if [ "$mode" = dry ]; then
    if nvidia-smi -L 2>/dev/null | grep -q GPU; then
        echo "this machine has a GPU: run without dry"
        exit $NO_DEVICE
    fi
    for program in $(programs); do
        stage "$(basename "$program")" 60 "$program"
        status=$?
        if [ $status -ne $NO_DEVICE ] || ! grep -q 'no device' "$OUT/$(basename "$program").txt"; then
            echo "$program: exit $status, want $NO_DEVICE and 'no device'"
            rc=1
        fi
    done
    exit $rc
fi

for program in $(programs); do
    stage "$(basename "$program")" 60 "$program" || rc=1
done
exit $rc
