#!/usr/bin/env bash
# run.sh FILE... - pytest with the tests' interpreter; exit code 77 (skipped) when there is none.
python=${MILEPOST_TEST_PYTHON:-}
if [ -z "$python" ]; then
    echo "skipped: no Python with the tests' packages (set MILEPOST_TEST_PYTHON; deploy/test.sh does)"
    exit 77
fi
exec "$python" -B -m pytest -q -rs -x -p no:cacheprovider "$@"
