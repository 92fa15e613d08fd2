#!/usr/bin/env bash
# check_format.sh - .clang-format decides; `clang-format-14 -i FILE` mends.
. "$(dirname "$0")/lint.sh"

while IFS= read -r line; do
    finding "$line"
done < <(sources c h cu cc | xargs -P 2 -n 16 clang-format-14 --dry-run -Werror 2>&1 |
    grep -E '^[^ ]+:[0-9]+:[0-9]+: error' | cut -d: -f1,2 | sort -u |
    awk -F: '{ n[$1]++; if (!first[$1]) first[$1] = $2 }
             END { for (f in n) printf "%s:%s: not formatted, %d places (clang-format-14 -i)\n", f, first[f], n[f] }')
report lint.format "$(sources c h cu cc | wc -l) files"
