#!/usr/bin/env bash
# check_complexity.sh - cyclomatic complexity (McCabe, modified: a switch counts once) at most 15.
# With a reason in allow.txt up to 40.
. "$(dirname "$0")/lint.sh"

count=0
while read -r modified _ _ first _ where; do
    count=$((count + 1))
    [ "$modified" -le 15 ] && continue
    file=${where%%(*}
    name=${where##*: }
    if [ "$modified" -le 40 ] && is_allowed "$file:$name"; then
        continue
    fi
    finding "$file:$first: function $name has complexity $modified; at most 15 (table, or split)"
done < <(sources c h cu cc | xargs pmccabe)
report lint.complexity "$count functions"
