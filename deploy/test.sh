#!/usr/bin/env bash
# test.sh - installs, builds and runs every test: release, then ASan+UBSan, then TSan (engine).
#
# The last line counts all suites: "N passed, N failed, N skipped". Exit 0 only if none failed and
# at least one passed. MILEPOST_SUITES="release asan tsan" chooses. Tests of Gemma 3 run in release; an
# empty MILEPOST_TEST_MODEL_GEMMA leaves them out (253 MB less), a failed download too.
. "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

passed=0 failed=0 skipped=0
started=$(date +%s)

# The interpreter with the tests' packages, outside the tree, made once per requirements file.
python_for_tests() {
    local venv log
    venv=$CACHE/venv-$(sha256sum "$ROOT/deploy/requirements-test.txt" | cut -c1-12)
    log=$CACHE/venv.log
    if [ ! -e "$venv/ready" ]; then
        say "installing the tests' Python packages in $venv"
        rm -rf "$venv"
        python3 -m venv "$venv" >"$log" 2>&1 &&
            "$venv/bin/pip" install --quiet --disable-pip-version-check --retries 5 --timeout 60 \
                -r "$ROOT/deploy/requirements-test.txt" >>"$log" 2>&1 ||
            { tail -20 "$log" >&2; die "could not install deploy/requirements-test.txt, see $log"; }
        touch "$venv/ready"
    fi
    printf '%s\n' "$venv/bin/python3"
}

count_of() {
    sed -n "s/.*<testsuite[^>]*$2=\"\([0-9]*\)\".*/\1/p; /^[[:space:]]*$2=\"/s/.*$2=\"\([0-9]*\)\".*/\1/p" \
        "$1" | head -1
}

# run_suite PRESET [ctest arguments]: build, run, add to the totals.
run_suite() {
    local preset=$1 junit=$ROOT/build/$1/junit.xml total bad left
    shift
    if ! (build "$preset"); then
        failed=$((failed + 1))
        return
    fi
    say "testing $preset"
    rm -f "$junit"
    (cd "$ROOT" && ctest --preset "$preset" -j "$(nproc)" --output-junit "$junit" "$@") || true
    total=$(count_of "$junit" tests) bad=$(count_of "$junit" failures) left=$(count_of "$junit" skipped)
    if [ -z "$total" ]; then
        say "ctest of $preset left no result"
        failed=$((failed + 1))
        return
    fi
    passed=$((passed + total - bad - left)) failed=$((failed + bad)) skipped=$((skipped + left))
    say "$preset: $((total - bad - left)) passed, $bad failed, $left skipped;" \
        "$(($(date +%s) - started)) s so far"
}

install_packages packages.txt packages-test.txt
become_caller "$ROOT/deploy/test.sh" "$@"
mkdir -p "$CACHE"
MILEPOST_TEST_PYTHON=$(python_for_tests)
MILEPOST_TEST_MODEL=$("$ROOT/deploy/fetch_model.sh")
: "${MILEPOST_TEST_MODEL_GEMMA=$("$ROOT/deploy/fetch_model.sh" gemma3-270m || true)}"
export MILEPOST_TEST_PYTHON MILEPOST_TEST_MODEL MILEPOST_TEST_MODEL_GEMMA
# intercept_memmem: the interceptor reads the whole text at each call, which makes searches quadratic.
export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_stack_use_after_return=1:strict_string_checks=1:intercept_memmem=0}
export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}
export TSAN_OPTIONS=${TSAN_OPTIONS:-second_deadlock_stack=1:suppressions=$ROOT/tests/tsan.supp}
for suite in ${MILEPOST_SUITES:-release asan tsan}; do
    case $suite in
    tsan) run_suite tsan -R 'engine|e2e.api' ;;
    *) run_suite "$suite" ;;
    esac
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
