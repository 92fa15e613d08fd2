# setup.sh - steps that up.sh and test.sh share: packages, cache folder, build. Sourced, not run.
#
# Every step is idempotent and says what it does; one that is already done costs under a second.
# Nothing asks a question.

set -euo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
CACHE=${MILEPOST_CACHE:-${XDG_CACHE_HOME:-${HOME:-/var/tmp}/.cache}/milepost}

say() {
    printf '== %s\n' "$*" >&2
}

die() {
    printf 'error: %s\n' "$*" >&2
    exit 1
}

# Runs a command as root: directly, or through sudo without asking.
as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo -n "$@" || sudo "$@"
    else
        die "'$*' needs root, and there is no sudo; run this script once as root"
    fi
}

# missing_packages LIST...: names in these files of deploy/ that are not installed.
missing_packages() {
    local wanted
    wanted=$(cd "$ROOT/deploy" && sed 's/#.*//' "$@" | xargs)
    # shellcheck disable=SC2086
    comm -23 <(printf '%s\n' $wanted | sort) \
        <(dpkg-query -W -f='${db:Status-Status} ${Package}\n' 2>/dev/null |
            sed -n 's/^installed //p' | sort -u)
}

install_packages() { # LIST...
    command -v dpkg-query >/dev/null ||
        die "this script installs Debian packages (see deploy/packages.txt); on another system" \
            "install their equivalents and build with cmake --preset release"
    local missing
    missing=$(missing_packages "$@" | xargs)
    [ -z "$missing" ] && return 0
    say "installing packages: $missing"
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300 \
        -o Acquire::Retries=3 update >&2 || say "apt-get update failed; going on with the old lists"
    # shellcheck disable=SC2086
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300 \
        -o Acquire::Retries=3 install --no-install-recommends $missing >&2 ||
        die "apt-get could not install: $missing"
}

# Under sudo, everything after the packages runs as the person who called, if the folder is theirs:
# no files of root are left in it.
become_caller() {
    if [ "$(id -u)" -ne 0 ] || [ "${SUDO_UID:-0}" -eq 0 ] ||
        [ "$(stat -c %u "$ROOT")" -ne "$SUDO_UID" ]; then
        return 0
    fi
    local uid=$SUDO_UID gid=$SUDO_GID home
    home=$(getent passwd "$uid" | cut -d: -f6)
    unset SUDO_UID SUDO_GID SUDO_USER SUDO_COMMAND
    HOME=$home exec setpriv --reuid="$uid" --regid="$gid" --init-groups -- "$@"
}

# build PRESET: configure and compile; a finished build costs a second (ninja configures again by
# itself when a CMakeLists.txt or the set of files has changed).
build() {
    local preset=$1 log=$ROOT/build/$1.log jobs
    jobs=$(nproc)
    mkdir -p "$ROOT/build"
    say "building $preset (log: build/$preset.log)"
    [ -e "$ROOT/build/$preset/build.ninja" ] ||
        (cd "$ROOT" && cmake --preset "$preset" >"$log" 2>&1) ||
        { tail -30 "$log" >&2; die "cmake --preset $preset failed, see $log"; }
    if [ -t 2 ]; then
        (cd "$ROOT" && NINJA_STATUS='[%f/%t] ' cmake --build --preset "$preset" -j "$jobs" 2>&1 |
            tee -a "$log" >&2) || die "the $preset build failed, see $log"
    else
        (cd "$ROOT" && cmake --build --preset "$preset" -j "$jobs" >>"$log" 2>&1) ||
            { tail -40 "$log" >&2; die "the $preset build failed, see $log"; }
    fi
}
