#!/usr/bin/env bash
# Agents over several hosts by MPI: launch/mpi-hosts.sh HOSTS [run options]; HOSTS as launch/hosts.example.
# MPI sends everything in clear: on a network that others use, take docs/hosts.md.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/_env.sh"

hosts=${1:-}
[ -n "$hosts" ] && [ -r "$hosts" ] || {
    echo "usage: launch/mpi-hosts.sh HOSTS [run options]; HOSTS has one host[:ranks] a line, see launch/hosts.example" >&2
    exit 2
}
shift
# name:ranks, comments and blank lines dropped; a bare name is one rank
list=$(sed -e 's/#.*//' -e 's/[[:space:]]//g' -e '/^$/d' -e '/:/!s/$/:1/' "$hosts")
bad=$(grep -Ev '^[A-Za-z0-9._-]+:[1-9][0-9]*$' <<< "$list" | head -n 1 || true)
[ -n "$list" ] || bad="no host"
[ -z "$bad" ] || {
    echo "$hosts: $bad: a line is host or host:ranks" >&2
    exit 2
}
ranks=$(awk -F: '{ sum += $2 } END { print sum }' <<< "$list")

# the environment lies in this folder, so a disk that the hosts share carries it, and the run folder, to all of them
make_environment mpich
export PATH="$venv/bin:$PATH" OPENBLAS_NUM_THREADS=1  # a host's cores go to ranks, not to BLAS
here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT
echo "$list" > "$here/hosts"
mpirun -f "$here/hosts" -n "$ranks" "$venv/bin/python" -m admmnet run "$@"
