#!/usr/bin/env bash
# up.sh - from a bare Debian 12 to a running Milepost: packages, build, model, start.
. "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

usage() {
    cat <<USAGE
Usage: deploy/up.sh [--model FILE] [--demo] [option of 'milepost up']...

Installs deploy/packages.txt, builds release, fetches the default model (98 MB, checksum pinned),
starts engine, verifier and controller and stays until Ctrl-C, which stops all three.

  --model MODEL  serve your own GGUF file, or by name: smollm2 (the default), gemma3-270m (253 MB,
                 pretrained: completions; chat with --set engine.chat_template=gemma)
  --demo         run the demonstration instead, exit 0 or 1 (under 6 minutes on 2 cores)
  --help         this text
  others         passed on: --port N, --set key=value, --config FILE ... (milepost up --help)

Environment: MILEPOST_CACHE (model; default ~/.cache/milepost).
USAGE
}

model= demo= pass=()
arguments=("$@")
while [ $# -gt 0 ]; do
    case $1 in
    --help | -h) usage; exit 0 ;;
    --demo) demo=1 ;;
    --model) [ $# -ge 2 ] || die "--model needs a file or a name"; model=$2; shift ;;
    --model=*) model=${1#*=} ;;
    *) pass+=("$1") ;;
    esac
    shift
done
known=
case $model in smollm2 | gemma3-270m) known=$model model= ;; esac
if [ -n "$model" ]; then
    [ -r "$model" ] || die "cannot read the model file $model"
    model=$(realpath "$model")
fi

install_packages packages.txt
become_caller "$ROOT/deploy/up.sh" ${arguments[@]+"${arguments[@]}"}
build release
[ -n "$model" ] || model=$("$ROOT/deploy/fetch_model.sh" ${known:+"$known"})
cd "$ROOT"
if [ -n "$demo" ]; then
    exec build/release/bin/milepost demo --model "$model" ${pass[@]+"${pass[@]}"}
fi
exec build/release/bin/milepost up --model "$model" ${pass[@]+"${pass[@]}"}
