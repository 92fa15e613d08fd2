#!/bin/bash
# tests/aarch64/run.sh [REGEX]: builds everything for 64-bit ARM and runs the tests that need no other
# process, under emulation. For a throwaway Debian 12 (the foreign -dev packages may take the place
# of the machine's own):
#   dpkg --add-architecture arm64 && apt-get update
#   apt-get install cmake ninja-build pkg-config gcc-aarch64-linux-gnu g++-aarch64-linux-gnu \
#     qemu-user-static libjs-chart.js libexttextcat-data $(tests/aarch64/run.sh --packages)
set -eu
cd "$(dirname "$0")/../.."
if [ "${1:-}" = --packages ]; then
    grep -E '^lib.*-dev$|^libcmocka' deploy/packages.txt | sed 's/$/:arm64/' | tr '\n' ' '
    exit
fi
missing=
for program in aarch64-linux-gnu-gcc aarch64-linux-gnu-g++ qemu-aarch64-static cmake ninja; do
    command -v "$program" >/dev/null || missing="$missing $program"
done
[ -z "$missing" ] || { echo "missing:$missing; the head of $0 says how to install them" >&2; exit 1; }
cmake --preset release -B build/aarch64 \
    -DCMAKE_TOOLCHAIN_FILE="$PWD/tests/aarch64/toolchain.cmake"
cmake --build build/aarch64
# verifier_core.cases and .number bound the time of a row, which emulation multiplies.
ctest --test-dir build/aarch64 -j"$(nproc)" --output-on-failure --timeout 900 \
    -R "${1:-^(unit|kernels|generator)\.|^golden\.logits\.tiny}" -E 'unit\.verifier_core\.(cases|number)'
