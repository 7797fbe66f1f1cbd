#!/usr/bin/env bash
# Make or refresh a virtual environment: environment.sh FOLDER CONSTRAINTS REQUIREMENT...
# Anything missing is said in one sentence on stderr; the exit code is then 1.
set -euo pipefail

folder=$1 constraints=$2
shift 2

say() { printf '%s\n' "$*" >&2; }
stop() { say "bayou: $*"; exit 1; }

is_recent() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

find_python() {
    local candidate found
    local -a candidates=("${PYTHON:-python3}")
    # One that was named is meant, and no other.
    if [ -z "${PYTHON:-}" ]; then
        candidates+=(python3.13 python3.12 python3.11)
    fi
    for candidate in "${candidates[@]}"; do
        if command -v "$candidate" >/dev/null 2>&1 && is_recent "$candidate"; then
            printf '%s' "$candidate"
            return
        fi
    done
    candidate=${candidates[0]}
    found="there is no '$candidate'"
    if command -v "$candidate" >/dev/null 2>&1; then
        found="'$candidate' is $("$candidate" --version 2>&1 | head -n 1 || true)"
    fi
    stop "Python 3.11 or newer is needed, and $found: install it, or name one with" \
        "'make PYTHON=/path/to/python3.11'."
}

check_disk() {
    local free_kib
    free_kib=$(df -Pk . | awk 'NR == 2 { print $4 }')
    if [ "${free_kib:-0}" -lt 2500000 ]; then
        stop "installing needs 2.5 GB of free disk, $((free_kib / 1024)) MB are free here:" \
            "make room, or clone to another disk."
    fi
}

if [ ! -x "$folder/bin/python" ] || ! "$folder/bin/python" -m pip --version >/dev/null 2>&1; then
    python=$(find_python)
    check_disk
    size=
    if grep -q '^pyspark==' "$constraints"; then size=": PySpark alone is a 400 MB download"; fi
    say "Setting up $folder. The first time it takes a few minutes$size."
    "$python" -m venv --clear "$folder" >/dev/null 2>&1 ||
        stop "'$python -m venv $folder' failed: install Python's venv module" \
            "(Debian and Ubuntu: apt install python3-venv), then run make again."
elif ! is_recent "$folder/bin/python"; then
    stop "$folder is of $("$folder/bin/python" --version), 3.11 or newer is needed:" \
        "remove $folder and run make again."
else
    say "Installing into $folder."
fi

# The constraints hold for the build's own environment too: older pip reads the first variable
# there, newer pip the second.
export PIP_CONSTRAINT=$constraints PIP_BUILD_CONSTRAINT=$constraints PIP_DISABLE_PIP_VERSION_CHECK=1
# Without compiling: Python compiles the modules that are imported, which are few of all packages.
"$folder/bin/python" -m pip install --quiet --no-compile "$@" ||
    stop "pip could not install the packages (its own words are above):" \
        "check the network and pip's index setting, then run make again."
