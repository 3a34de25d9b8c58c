#!/usr/bin/env bash
# Lint, types and tests in an environment of its own: launch/test.sh [pytest options]
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/_env.sh"
cd "$root"
make_environment mpich,test
files_in_memory
unset PYTHONDONTWRITEBYTECODE  # without byte code every worker and every process would compile the tests anew
export PATH="$venv/bin:$PATH" OPENBLAS_NUM_THREADS=1  # the machine's cores go to ranks, not to BLAS
ruff check .
ruff format --check .
mypy & types=$!
python -m pytest --collect-only --quiet "$@" > /dev/null 2>&1 || true  # else every worker compiles all tests anew
workers=$(python -c 'import os; print(min(8, os.cpu_count() + 3))')  # tests of processes wait much
tested=0
python -m pytest --numprocesses "$workers" --dist loadfile --no-loadscope-reorder "$@" || tested=$?
wait "$types"
exit "$tested"
