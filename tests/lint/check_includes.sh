#!/usr/bin/env bash
# check_includes.sh - includes.txt holds who may include whom; headers form no cycle; the pure
# folders do no I/O, read no clock and draw no randomness of their own.
. "$(dirname "$0")/lint.sh"

files=$(sources c h cu cc)
edges=$(grep -Hno '^#include "[^"]*"' $files | sed 's/#include "//; s/"$//')

# Every include against the longest fitting row. A row's own folder is always allowed.
while IFS= read -r line; do
    finding "$line"
done < <(awk -F: '
    FILENAME ~ /includes.txt$/ {
        if ($1 ~ /^#/ || NF < 2) next
        rule[$1] = $2
        next
    }
    function row_of(path) {
        while (!(path in rule) && sub(/\/[^\/]*$/, "", path)) {}
        return path
    }
    {
        file = $1; target = $3
        row = row_of(file)
        if (file ~ /(_test|\/main)\.c$/) sub(/\/.*$/, "", row)
        if (!(row in rule)) { print file ":" $2 ": no row in includes.txt fits"; next }
        if (index(target, row "/") == 1) next
        n = split(rule[row], allowed, " ")
        for (i = 1; i <= n; i++) if (index(target, allowed[i]) == 1) next
        print file ":" $2 ": " row " may not include " target " (tests/lint/includes.txt)"
    }' tests/lint/includes.txt <(printf '%s\n' "$edges"))

# Headers including each other in a circle.
printf '%s\n' "$edges" | awk -F: '$1 ~ /\.h$/ { print $1, $3 }' | tsort >/dev/null 2>"$ALLOWED.c" ||
    finding "headers include each other: $(tr '\n' ' ' <"$ALLOWED.c")"
rm -f "$ALLOWED.c"

# A quoted include names a path from the root, so that it can be found and checked.
while IFS=: read -r file line target; do
    [ -z "$target" ] || [ -e "$target" ] || [[ $target != */* ]] || [[ $target == *generated* ]] ||
        finding "$file:$line: $target is not a path from the root"
done < <(printf '%s\n' "$edges")

pure='\b(fopen|open|read|write|printf|fprintf|puts|send|recv|socket|time|clock|clock_gettime|clock_mono|clock_wall|gettimeofday|getenv|rng_entropy|log_event|sqlite3_[a-z]+|db_[a-z]+|pthread_[a-z]+|random|getrandom)\s*\('
for file in $(sources c h | grep -E '^controller/(stats|policies|experiments)/|^controller/policy' | grep -v _test.c); do
    while IFS= read -r hit; do
        finding "$file:$hit: not pure (no I/O, clock or own randomness in statistics and policies)"
    done < <(code_of "$file" | grep -nP "$pure|#\s*include <(time|unistd|fcntl|pthread|sqlite3|sys/.*)\.h>|#include \"\"" | grep -v '#include ""')
done

# An architecture knows no device: it reaches kernels through ops.h only.
for file in $(sources c h | grep -E '^engine/model/arch_'); do
    while IFS= read -r hit; do
        finding "$file:$hit: an architecture may know no device"
    done < <(grep -nE '#include "kernels/(ref|cpu|cuda|simt|comm)/' "$file")
done
report lint.includes "$(printf '%s\n' "$files" | wc -l) files"
