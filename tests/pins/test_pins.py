"""Seeded runs give what they gave when their fingerprints were stored (`pins.json`; `renew.py` renews it).

Charges and counts must agree on every machine, vectors bit for bit on a machine like the one that made the file:
the same libraries and kernels (`renew.machine`). Elsewhere sums are rounded in another order, and solves take
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

from admmnet.methods import METHODS
from admmnet.solvers.certificate import chosen

from .renew import STORED, changes, fingerprint, machine
from .settings import SETTINGS

TOLERANCE = 1e-5
"""Of the numbers, relative to the norm: 1000 times what other kernels were seen to do."""
FILE: dict[str, Any] = json.loads(STORED.read_text(encoding="utf-8"))
RENEW = "if that is meant: python -m tests.pins.renew"


def test_the_file_has_every_setting_and_each_method_one() -> None:
    assert list(FILE["pins"]) == list(SETTINGS), f"a setting is new or gone; {RENEW}"
    assert {values["algorithm"] for values in SETTINGS.values()} == set(METHODS.own)


@pytest.mark.parametrize("name", SETTINGS)
def test_pin(name: str, tmp_path: Path) -> None:
    if SETTINGS[name]["kernel"] == "c" and chosen("auto") != "c":
        pytest.skip("the compiled kernel is not built here")
    found = changes(FILE["pins"][name], fingerprint(SETTINGS[name], tmp_path / "run"), TOLERANCE)
    if FILE["machine"] != machine():
        found = [what for what in found if what != "model"]
    assert not found, f"{name} gives other {', '.join(found)}; {RENEW} {shlex.quote(name)}"


@pytest.mark.parametrize(
    ("name", "changed", "seen"),
    [
        ("pp-admm", {"epsilon": 5.005}, ["model", "charges", "numbers"]),
        ("gamma by hand", {"gamma": 0.4004}, ["model", "numbers"]),
        ("dp-scd", {"seed": 8}, ["model", "numbers"]),
    ],
)
def test_a_changed_run_is_seen(name: str, changed: dict[str, Any], seen: list[str], tmp_path: Path) -> None:
    other = fingerprint(SETTINGS[name] | changed, tmp_path / "run")
    assert [what.split()[0] for what in changes(FILE["pins"][name], other, TOLERANCE)] == seen
