# lint.sh - shared by the checks of this folder: which files are ours, and how a finding is told.
#
# Sourced, not run. A check calls `finding` per violation and `report NAME` at its end; the exit
# status of report is that of the check. Works on a plain directory, with or without git.

set -u -o pipefail
export LC_ALL=C
ROOT=${MILEPOST_ROOT:-$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)}
ALLOW=$ROOT/tests/lint/allow.txt
FINDINGS=$(mktemp)
ALLOWED=$(mktemp)
trap 'rm -f "$FINDINGS" "$ALLOWED"' EXIT
cd "$ROOT" || exit 2

# Our files with one of the given extensions, sorted, relative to the root.
sources() {
    local name_is=() ext
    for ext in "$@"; do
        name_is+=(-o -name "*.$ext")
    done
    { find common schemas kernels engine verifier controller tests deploy -type f \
        \( "${name_is[@]:1}" \) -not -path '*/__pycache__/*' 2>/dev/null || true; } | sort
}

# C code without comments, same number of lines.
code_of() {
    awk '
        { out = ""; line = $0
          while (length(line) > 0) {
              if (in_comment) {
                  at = index(line, "*/")
                  if (at == 0) { line = ""; break }
                  line = substr(line, at + 2); in_comment = 0; continue
              }
              if (match(line, /"([^"\\]|\\.)*"|\/\*|\/\//) == 0) { out = out line; break }
              token = substr(line, RSTART, RLENGTH)
              out = out substr(line, 1, RSTART - 1)
              line = substr(line, RSTART + RLENGTH)
              if (token == "//") break
              if (token == "/*") in_comment = 1
              else out = out "\"\""
          }
          print out }' "$1"
}

# is_allowed KEY: an entry "KEY  reason" stands in allow.txt; counted.
is_allowed() {
    awk -v key="$1" '$1 == key && NF > 1 { found = 1 } END { exit !found }' "$ALLOW" || return 1
    echo "$1" >>"$ALLOWED"
}

finding() {
    printf '%s\n' "$*" >>"$FINDINGS"
}

report() {
    local found allowed
    found=$(wc -l <"$FINDINGS")
    allowed=$(sort -u "$ALLOWED" | wc -l)
    cat "$FINDINGS"
    sort -u "$ALLOWED" | sed 's/^/allowed: /'
    echo "$1: $found findings, $allowed allowed by tests/lint/allow.txt, ${2:-} looked at"
    [ "$found" -eq 0 ]
}
