"""Seeded runs give what they gave when their fingerprints were stored (`pins.json`; `renew.py` renews it).

Charges and counts must agree on every machine, vectors bit for bit on a machine like the one that made the file:
the same libraries and kernels (`fingerprint.machine`). Elsewhere sums are rounded in another order, and solves take
that back up to their gradient norm (1e-8, published forms 10^-3.5). With OpenBLAS's kernels for Nehalem, Sandy Bridge,
Haswell and Skylake-X, with and without numpy's vector instructions, the numbers differed by 1.1e-8 of the norm at
most, while 0.1 % more gamma or epsilon, hidden under the noise, moves them by 5e-5.
"""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from admmnet import read_run
from admmnet.solvers.kernel import chosen
from tests.processes.launch import mpirun

from .fingerprint import STORED, changes, fingerprint, machine, placed, run_setting
from .settings import ELSEWHERE, SETTINGS, Setting

TOLERANCE = 1e-5
"""Of the numbers, relative to the norm: 1000 times what other kernels were seen to do."""
FILE: dict[str, Any] = json.loads(STORED.read_text(encoding="utf-8"))
RENEW = "if that is meant: python -m tests.pins.renew"


def test_the_file_has_every_setting() -> None:
    assert list(FILE["pins"]) == list(SETTINGS), f"a setting is new or gone; {RENEW}"


@pytest.mark.parametrize("name", SETTINGS)
def test_pin(name: str, tmp_path: Path) -> None:
    if SETTINGS[name].values["kernel"] == "c" and chosen("auto") != "c":
        pytest.skip("the compiled kernel is not built here")
    found = changes(FILE["pins"][name], run_setting(SETTINGS[name], tmp_path), TOLERANCE)
    if FILE["machine"] != machine():
        found = [what for what in found if what != "model"]
    read_run(tmp_path / "run")
    assert not found, f"{name} gives other {', '.join(found)}; {RENEW} {shlex.quote(name)}"


@pytest.mark.parametrize(
    ("name", "changed", "seen"),
    [
        ("pp-admm", {"epsilon": 5.005}, ["model", "charges", "numbers"]),
        ("pp-admm", {"rounds": 7}, ["model", "charges", "events", "releases", "numbers"]),
        ("gamma by hand", {"gamma": 0.4004}, ["model", "numbers"]),
        ("dp-scd", {"seed": 8}, ["model", "numbers"]),
    ],
)
def test_a_changed_run_is_seen(name: str, changed: dict[str, Any], seen: list[str], tmp_path: Path) -> None:
    other = run_setting(Setting({**SETTINGS[name].values, **changed}), tmp_path)
    found = changes(FILE["pins"][name], other, TOLERANCE)
    assert [what.split()[0] for what in found] == seen


@pytest.mark.processes
def test_ranks_give_the_same(tmp_path: Path) -> None:
    expected, settings = {}, {}
    for name in ELSEWHERE:
        (tmp_path / name).mkdir()
        expected[name] = run_setting(SETTINGS[name], tmp_path / name)
        settings[name] = placed(SETTINGS[name].values, tmp_path / name)
    file = tmp_path / "settings.json"
    file.write_text(json.dumps(settings), encoding="utf-8")
    ended = mpirun(3, "-m", "tests.processes.many_runs", str(file), str(tmp_path / "ranks"))
    assert ended.code == 0, ended.err
    for name in ELSEWHERE:
        assert fingerprint(tmp_path / "ranks" / name) == expected[name], name
