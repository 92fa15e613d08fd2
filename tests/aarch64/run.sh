#!/bin/bash
# tests/aarch64/run.sh [REGEX]: builds for 64-bit ARM what the tests that need no other process are made
# of (the kernels of each backend, the emulator and its switch of fibers, the engine) and runs them
# under user-mode emulation; with REGEX only those tests, and only their programs are built. Exit 77
# where the packages are missing. For a throwaway Debian 12 (the foreign -dev packages may take the
# place of the machine's own; a chroot needs /proc mounted):
#   dpkg --add-architecture arm64 && apt-get update
#   apt-get install $(tests/aarch64/run.sh --packages)
set -eu
cd "$(dirname "$0")/../.."
packages="cmake ninja-build pkg-config gcc-aarch64-linux-gnu g++-aarch64-linux-gnu qemu-user-static
libjs-chart.js libexttextcat-data $(grep -E '^lib.*-dev$' deploy/packages.txt | sed 's/$/:arm64/')"
if [ "${1:-}" = --packages ]; then
    echo $packages
    exit
fi
missing=
for package in $packages; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q ' installed' || missing="$missing $package"
done
[ -z "$missing" ] || { echo "skipped, missing:$missing; the head of $0 says how to install them"; exit 77; }
build=$PWD/build/aarch64
# The variants that differ in how accesses are watched, and full suites of the tensor ops, take hours here.
wanted=${1:-'^(unit|kernels|generator)\.|^golden\.logits\.tiny|^simt\.(number|emulator|ptx\.fast|comm\.fast|route|mix\.fast|peers|ops\.fast)'}
# verifier_core.cases and .number bound the time of a row, which emulation multiplies.
unwanted='unit\.verifier_core\.(cases|number)|kernels\.budget'
cmake --preset release -B "$build" -DCMAKE_TOOLCHAIN_FILE="$PWD/tests/aarch64/toolchain.cmake"
# A test's own limit is for a processor, not for its emulation.
find "$build" -name CTestTestfile.cmake -exec sed -i 's/ TIMEOUT "[0-9]*"/ TIMEOUT "7200"/' {} +
ctest --test-dir "$build" -N -V -R "$wanted" -E "$unwanted" |
    sed -n "s|.*Test command: .*\"$build/\([^\"]*\)\".*|\1|p; t; s|.*Test command: $build/\([^ ]*\).*|\1|p" |
    sort -u | xargs ninja -C "$build"
ctest --test-dir "$build" -j"$(nproc)" --output-on-failure -R "$wanted" -E "$unwanted"
