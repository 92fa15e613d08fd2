#!/usr/bin/env bash
# check_size.sh - functions of at most 60 lines, files of at most 600, headers of at most 200.
# With a reason in allow.txt a function may have up to 120 lines.
. "$(dirname "$0")/lint.sh"

functions=$(mktemp)
trap 'rm -f "$FINDINGS" "$ALLOWED" "$functions"' EXIT
sources c h | xargs ctags-universal -x --language-force=C --c-kinds=f \
    --_xformat='%F %N %n %{end}' >"$functions" || exit 2
sources cc cu | xargs ctags-universal -x --language-force=C++ --c++-kinds=f \
    --_xformat='%F %N %n %{end}' >>"$functions" || exit 2

while read -r file name first last; do
    lines=$((last - first + 1))
    [ "$lines" -le 60 ] && continue
    if [ "$lines" -le 120 ] && is_allowed "$file:$name"; then
        continue
    fi
    finding "$file:$first: function $name has $lines lines; at most 60 (phases as functions)"
done <"$functions"

while read -r lines file; do
    [ "$file" = total ] && continue
    limit=600
    [[ $file == *.h ]] && limit=200
    [ "$lines" -le $limit ] || is_allowed "$file" ||
        finding "$file: $lines lines; at most $limit (move the second noun out)"
done < <(sources c h cu cc py sh css js | xargs wc -l)

while read -r key reason; do
    case $key in '#'* | '') continue ;; esac
    file=${key%%:*}
    [ -n "$reason" ] || finding "allow.txt: $key has no reason"
    [ -e "$file" ] || finding "allow.txt: $key names no file"
    [ "$file" = "$key" ] || grep -qw -- "${key#*:}" "$file" 2>/dev/null ||
        finding "allow.txt: $key names nothing in $file"
done <"$ALLOW"

# Median and tail of the function lengths, as a measure of the house style.
awk '{ print $4 - $3 + 1 }' "$functions" | sort -n | awk '
    { n[NR] = $1; if ($1 > 45) long++ }
    END { if (NR) printf "function lines: median %d, p90 %d, longest %d, over 45: %d of %d\n",
                  n[int((NR + 1) / 2)], n[int(NR * 0.9 + 0.5)], n[NR], long, NR }'
report lint.size "$(wc -l <"$functions") functions"
