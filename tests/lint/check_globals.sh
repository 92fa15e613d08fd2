#!/usr/bin/env bash
# check_globals.sh BUILD - no writable object with static storage outside main.c and tests: read
# from the symbol tables of the static libraries, so that no macro hides one.
. "$(dirname "$0")/lint.sh"

build=${1:?usage: check_globals.sh BUILD-FOLDER}
count=0
while read -r file symbol; do
    count=$((count + 1))
    is_allowed "$file:${symbol%.*}" && continue
    finding "$file: writable global $symbol; state belongs to an object that someone owns"
done < <(find "$build" -name '*.c.o' -not -path '*_test.c.o' -not -path '*/tests/*' -not -name 'main.c.o' | sort |
    while read -r object; do
        source=$(sed -E 's|CMakeFiles/[^/]+\.dir/||; s|\.o$||' <<<"${object#"$build"/}")
        [ -e "$source" ] || continue
        objdump -t "$object" | awk -v s="$source" '
            $2 ~ /O/ || $3 ~ /O/ {
                for (i = 1; i <= NF; i++)
                    if ($i ~ /^\.(bss|data|tbss|tdata)(\.|$)/ && $i !~ /^\.data\.rel\.ro/)
                        print s, $NF
            }'
    done)
report lint.globals "$count writable objects"
