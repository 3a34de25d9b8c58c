#!/usr/bin/env bash
# Lint, types and tests in an environment of its own: launch/test.sh [--quick] [pytest options]
# --quick, meant for two minutes on 2 cores, leaves out all tests that start processes, and the folders that are named
# below: whole grids and papers, attacks and audits of many trials, pages and pictures.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/_env.sh"
cd "$root"
chosen=()
if [ "${1:-}" = --quick ]; then
    shift
    chosen=(-m "not processes")
    for folder in attacks auditing docs estimators experiments papers pins report theorems; do
        chosen+=("--ignore=tests/$folder")
    done
fi
make_environment mpich,test
files_in_memory
unset PYTHONDONTWRITEBYTECODE  # without byte code every worker and every process would compile the tests anew
export PATH="$venv/bin:$PATH" OPENBLAS_NUM_THREADS=1  # the machine's cores go to ranks, not to BLAS
ruff check .
ruff format --check .
mypy & types=$!
python -m pytest --collect-only --quiet "${chosen[@]}" "$@" > /dev/null 2>&1 || true  # else every worker compiles all tests anew
workers=$(python -c 'import os; print(min(8, os.cpu_count() + 3))')  # tests of processes wait much
tested=0
python -m pytest --numprocesses "$workers" --dist loadfile --no-loadscope-reorder "${chosen[@]}" "$@" || tested=$?
wait "$types"
exit "$tested"
