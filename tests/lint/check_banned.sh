#!/usr/bin/env bash
# check_banned.sh - calls that overflow, lose errors or start shells; unfinished work; paths of one
# machine; a file without a head comment.
. "$(dirname "$0")/lint.sh"

calls='\b(strcpy|strcat|sprintf|vsprintf|strtok|gets|atoi|atol|atof|rand|srand|system|popen|alloca|tmpnam|mktemp)\s*\('
marks="TO""DO|FIX""ME|HA""CK\b|place""holder"
paths="(^|[^A-Za-z0-9_.])/(wo""rk|ho""me|ro""ot|Us""ers)/[A-Za-z0-9_]"

for file in $(sources c h cu cc); do
    while IFS= read -r hit; do
        finding "$file:${hit%%:*}: banned call: $(sed 's/^[0-9]*:\s*//' <<<"$hit")"
    done < <(code_of "$file" | grep -nP "$calls")
    head -c 2 "$file" | grep -qE '^(/\*|//)' || finding "$file:1: no head comment (purpose, invariant, thread)"
done

texts=$(sources c h cu cc sh py yaml yml json sql md html js css txt; ls README.md CMakeLists.txt .ci/run 2>/dev/null)
while IFS= read -r hit; do
    finding "$hit (unfinished, or a path of one machine)"
done < <(grep -nP "$marks|$paths" $texts /dev/null | cut -c1-160)
report lint.banned "$(sources c h cu cc | wc -l) C files, $(wc -l <<<"$texts") texts"
