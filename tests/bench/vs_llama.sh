#!/usr/bin/env bash
# vs_llama.sh [options] - Milepost beside llama.cpp on this machine: same file, same cores, same
# prompts, interleaved. --check judges the gates and exits 1 with the figures that fall short.
# 'vs_llama.sh --help' lists the options; tests/bench/vs_llama/ is the program.
set -e
here=$(cd "$(dirname "$0")" && pwd)
exec "${MILEPOST_TEST_PYTHON:-python3}" -B "$here/vs_llama" "$@"
