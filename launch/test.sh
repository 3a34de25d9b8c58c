#!/usr/bin/env bash
# Lint, types and tests in an environment of its own: launch/test.sh [pytest options]
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/_env.sh"
cd "$root"
make_environment mpich,test
export PATH="$venv/bin:$PATH"
ruff check .
ruff format --check .
mypy
exec python -m pytest "$@"
