# Sourced by the other scripts: makes .venv beside pyproject.toml once, and again when pyproject.toml, the
# constraints on versions or what is compiled change.
# Sets $root and $venv. Needs Python 3.11 or newer with venv; PYTHON=/path/to/python chooses another one.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
venv=$root/.venv
files_in_memory() {  # what tests write need not outlast the machine: waiting for its disk took half of their time
    if [ -z "${TMPDIR:-}" ] && [ -w /dev/shm ] && [ "$(df -Pk /dev/shm | awk 'END { print $4 }')" -gt 2000000 ]; then
        export TMPDIR=/dev/shm
    fi
}
make_environment() {  # make_environment EXTRAS
    local extras=$1 python=${PYTHON:-python3} stamp
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
        echo "admmnet needs Python 3.11 or newer; $python is $("$python" --version 2>&1). Set PYTHON to a newer one." >&2
        return 2
    }
    if [ -n "${PYTHON:-}" ] && [ -x "$venv/bin/python" ] && [ "$("$venv/bin/python" --version)" != "$("$python" --version)" ]; then
        echo "$venv has $("$venv/bin/python" --version), PYTHON asks for $("$python" --version): remove $venv first." >&2
        return 2
    fi
    stamp="$extras $(cat "$root/pyproject.toml" "$root/launch/constraints.txt" "$root/launch/_env.sh" | cksum)"
    [ ! -f "$root/admmnet/solvers/_kernel.c" ] || stamp+=" $(cksum < "$root/admmnet/solvers/_kernel.c")"
    if [ ! -f "$venv/stamp-$extras" ] || [ "$(cat "$venv/stamp-$extras")" != "$stamp" ]; then
        [ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
        echo "installing admmnet[$extras] into .venv ..." >&2
        "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-compile \
            --constraint "$root/launch/constraints.txt" \
            --config-settings editable_mode=compat --editable "$root[$extras]"  # type checkers find the package, too
        "$venv/bin/python" -m compileall -q -j 0 "$venv/lib" > /dev/null 2>&1 || true  # pip would do it on one core
        echo "$stamp" > "$venv/stamp-$extras"
    fi
    # where PYTHONDONTWRITEBYTECODE is set, as in many images, every process would compile the package anew
    "$venv/bin/python" -m compileall -q "$root/admmnet" > /dev/null 2>&1 || true
}
