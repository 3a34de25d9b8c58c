"""Theorems 3.4 and 3.5 of Ding et al. 2020 with a = Delta = 0: docs/methods.md eq. (110)."""

from __future__ import annotations

import math
from typing import Any

import pytest

from admmnet.methods.sample_complexity import needed
from tests.command_runs import Admmnet

GOAL = 0.2, 1.5, 0.05
"""A, R, xi."""
NOISE: dict[str, Any] = {"beta": 1e-4, "sigma1": 1e-3, "sigma2": 1e-4, "width": 20}


def test_both_theorems_as_they_are_printed() -> None:
    log, d = math.log(20.0), 20
    found, square = needed(*GOAL, **NOISE), 0.2**2 / (2 * 1.5**2)
    hidden = 1e-4 * 0.2 * math.sqrt(2 * d * log) / 1.5**2 + 2 * 1e-3**2 * d * log
    assert found.without_noise == pytest.approx(log / (square - 1e-4))
    assert found.private == pytest.approx(log / (square - 1e-4 - hidden))
    plain = needed(*GOAL, 0.0, 0.0, 0.0, 20)
    assert plain.without_noise == plain.private == pytest.approx(2 * 1.5**2 * log / 0.2**2)  # Zhang, Zhu 2017
    assert plain.least == plain.least_ever == 0.0
    for factor in (1.0 - 1e-9, 1.0 + 1e-9):  # below the least excess nothing is promised
        at = needed(found.least * factor, *GOAL[1:], **NOISE)
        assert (at.private is None) is (factor < 1.0)
    assert found.least_ever == needed(*GOAL, 1e-4, 0.0, 1e-4, 20).least < found.least


def test_at_the_papers_settings_the_private_theorem_promises_less_than_saying_nothing(admmnet: Admmnet) -> None:
    words = "calibrate --algorithm pp-admm --method published --topology ring:5 --records 7000 --features 105"
    for agent in admmnet.json(*words.split(), "--delta", "1e-4", "--sample-complexity", "0.1")["agents"]:
        found = agent["sample_complexity"]
        again = needed(0.1, 1.0, 0.05, 10.0**-3.5, agent["sigma1"], agent["sigma2"], 105)
        assert found == {"accuracy": 0.1, "norm": 1.0, "failure": 0.05, **again._asdict()}
        assert found["private"] is None
        assert found["least_ever"] > math.log(2.0), "the loss of a model of zeros"


@pytest.mark.parametrize("words", ["", "--algorithm dvp --method published", "--algorithm pp-admm"])
def test_other_methods_are_refused(words: str, admmnet: Admmnet) -> None:
    assert "published" in admmnet.refused("calibrate", *words.split(), "--sample-complexity", "0.1")
