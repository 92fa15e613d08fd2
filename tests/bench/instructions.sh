#!/usr/bin/env bash
# instructions.sh [MODEL.gguf] - instructions per decoded and per prefilled token, counted by
# callgrind; what other processes do does not change them. Prints rows for instructions.tsv, beside
# this script, which holds the counts of earlier commits: compare before a change is kept.
#
# Valgrind knows no AVX-512, so the AVX2 and the plain loops are counted; they share their source
# with the AVX-512 ones. A count is the difference of two runs of different length, so that loading
# is not in it. Without a model the one of tests/e2e/tiny_model.py is used.
set -e
root=$(cd "$(dirname "$0")/../.." && pwd)
build=${MILEPOST_BUILD:-$root/build/release}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
model=${1:-}
if [ -z "$model" ]; then
    model=$folder/tiny.gguf
    (cd "$root/tests/e2e" && "${MILEPOST_TEST_PYTHON:-python3}" -B -c \
        'import sys, tiny_model; tiny_model.write(sys.argv[1])' "$model")
fi

count() { # SET CASE: instructions of the whole run
    if ! valgrind --tool=callgrind --callgrind-out-file=/dev/null \
        "$build/bench/bench_engine" "$model" 1 "set:$1" "$2" >"$folder/log" 2>&1; then
        tail -n 3 "$folder/log" >&2
        kill $$
    fi
    awk '/Collected/ { print $4 }' "$folder/log"
}

per_token() { # SET SHORT LONG TOKENS
    echo $((($(count "$1" "$3") - $(count "$1" "$2")) / $4))
}

commit=$(git -C "$root" rev-parse --short HEAD 2>/dev/null || echo -)
for set in ${MILEPOST_SETS:-avx2 plain}; do
    # decode: one warm-up step and N more; a prompt runs twice (warm-up), hence 2 x 32 tokens more
    printf '%s\t%s\t%s\tdecode\t%s\n' "$commit" "$(basename "$model")" "$set" \
        "$(per_token "$set" decode:1:0:2 decode:1:0:6 4)"
    printf '%s\t%s\t%s\tprefill\t%s\n' "$commit" "$(basename "$model")" "$set" \
        "$(per_token "$set" prefill:32 prefill:64 64)"
done
