#!/usr/bin/env bash
# The main job on a fresh machine: makes .venv, installs, and runs five agents under mpirun.
# Options go to the run: launch/demo.sh --epsilon 2 --seed 0
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/_env.sh"
make_environment mpich,plot
export PATH="$venv/bin:$PATH"
exec mpirun -n "${RANKS:-5}" python -m admmnet run "$@"
