#!/usr/bin/env bash
# What is too long for every change: the figures of all papers with --quick, timed, attacks and audits of privacy with
# many trials, the long cases of tests/nightly.txt, scikit-learn's checks of all estimators, the commands of all pages,
# the mutants of each folder's mutants.py, which its tests must see, and killed runs by the hundred.
# ADMMNET_DATA=DIR launch/nightly.sh [options of `admmnet reproduce`]; the real data sets are in DIR
# OUT=FOLDER for the figures (default runs/nightly-DATE); KILLS=N for the killed runs a transport (default 200, 0 for
# none), AUDITS=N for N times the trials of every change (default 10, 0 for none).
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/_env.sh"
make_environment mpich,test
export PATH="$venv/bin:$PATH" OPENBLAS_NUM_THREADS=1
out=${OUT:-$root/runs/nightly-$(date +%F)} kills=${KILLS:-200} audits=${AUDITS:-10}
[ ! -e "$out" ] || {
    echo "$out is there already, and what is measured once is not measured again: remove it, or set OUT" >&2
    exit 2
}
times=()
for paper in ding2020 damaskinos2021 song2013 banco; do
    start=$SECONDS
    admmnet reproduce "$paper" --quick "$@" -o "$out/$paper"
    times+=("$paper $((SECONDS - start))")
done
printf '%s s\n' "${times[@]}" | tee "$out/times.txt"
cd "$root"
if [ "$audits" != 0 ]; then
    ADMMNET_AUDITS=$audits python -m pytest tests/auditing tests/attacks/test_messages.py
    python -m tests.benchmarks.audit -o "$out/audits" --confidence 0.999999 --times 0.2
    ADMMNET_TEST_LARGE=1 python -m pytest tests/privacy/test_audit.py tests/theorems/test_{radius,certificate}.py
fi
ADMMNET_NIGHTLY=1 python -m pytest tests -m nightly
ADMMNET_LIES=all python -m pytest tests/attacks/test_liars.py tests/attacks/test_liars_later.py
python -m tests.benchmarks.relay soak 1800
ADMMNET_CHECKS=all python -m pytest tests/estimators/test_estimators.py
ADMMNET_PAGES=all python -m pytest tests/processes/test_documented_commands.py
ADMMNET_EDITS=5000 python -m pytest tests/record/test_manifest.py
python -m tests.mutate --jobs "$(nproc)"
[ "$kills" = 0 ] && exit
ADMMNET_NIGHTLY=1 ADMMNET_KILLS=$kills exec python -m pytest tests/processes/test_resume.py
