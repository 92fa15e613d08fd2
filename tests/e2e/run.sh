#!/usr/bin/env bash
# run.sh FILE... - pytest with the tests' interpreter; exit code 77 (skipped) when there is none, or
# when a program of MILEPOST_NEEDS is missing (deploy/packages-test.txt, which deploy/test.sh installs).
python=${MILEPOST_TEST_PYTHON:-}
if [ -z "$python" ]; then
    echo "skipped: no Python with the tests' packages (set MILEPOST_TEST_PYTHON; deploy/test.sh does)"
    exit 77
fi
for program in ${MILEPOST_NEEDS:-}; do
    command -v "$program" >/dev/null || { echo "skipped: no $program (see deploy/packages-test.txt)"; exit 77; }
done
exec "$python" -B -m pytest -q -rs -x -p no:cacheprovider "$@"
