"""Theorems 3.4 and 3.5 of Ding et al. 2020 with a = Delta = 0: docs/methods.md eq. (110)."""

from __future__ import annotations

import json
import math

import pytest

from admmnet.cli import run_command_line
from admmnet.methods.sample_complexity import Goal, needed

GOAL = Goal(0.2, 1.5, 0.05)
NOISE = {"beta": 1e-4, "sigma1": 1e-3, "sigma2": 1e-4, "width": 20}


def test_both_theorems_as_they_are_printed() -> None:
    log, d = math.log(20.0), 20
    found = needed(GOAL, **NOISE)  # type: ignore[arg-type]
    square = 0.2**2 / (2 * 1.5**2)
    hidden = 1e-4 * 0.2 * math.sqrt(2 * d * log) / 1.5**2 + 2 * 1e-3**2 * d * log
    assert found.without_noise == pytest.approx(log / (square - 1e-4))
    assert found.private == pytest.approx(log / (square - 1e-4 - hidden))
    plain = needed(GOAL, 0.0, 0.0, 0.0, 20)
    assert plain.without_noise == plain.private == pytest.approx(2 * 1.5**2 * log / 0.2**2)  # Zhang, Zhu 2017
    assert plain.least == plain.least_ever == 0.0


def test_below_the_least_excess_nothing_is_promised() -> None:
    least = needed(GOAL, **NOISE).least  # type: ignore[arg-type]
    for factor in (1.0 - 1e-9, 1.0 + 1e-9):
        at = needed(GOAL._replace(accuracy=least * factor), **NOISE)  # type: ignore[arg-type]
        assert (at.private is None) is (factor < 1.0)
    no_objective = {**NOISE, "sigma1": 0.0}
    assert needed(GOAL, **NOISE).least_ever == needed(GOAL, **no_objective).least < least  # type: ignore[arg-type]


def test_at_the_papers_settings_the_private_theorem_promises_less_than_saying_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = "calibrate --algorithm pp-admm --method published --topology ring:5 --records 7000 --features 105"
    words += " --delta 1e-4 --sample-complexity 0.1"
    assert run_command_line([*words.split(), "--json"]) == 0
    for agent in json.loads(capsys.readouterr().out)["agents"]:
        found = agent["sample_complexity"]
        again = needed(Goal(0.1, 1.0, 0.05), 10.0**-3.5, agent["sigma1"], agent["sigma2"], 105)
        assert found == {"accuracy": 0.1, "norm": 1.0, "failure": 0.05, **again._asdict()}
        assert found["private"] is None
        assert found["least_ever"] > math.log(2.0), "the loss of a model of zeros"
    assert run_command_line(words.split()) == 0
    out = capsys.readouterr().out
    assert "private -, least 5.75" in out
    for sentence in ("where a dash stands, nothing is promised", "nothing about an excess loss below least, nor"):
        assert sentence in out
    assert "V is a constant that the paper leaves open; its a and Delta are taken to be 0" in out


@pytest.mark.parametrize("words", ["", "--algorithm dvp --method published", "--algorithm pp-admm"])
def test_other_methods_are_refused(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["calibrate", *words.split(), "--sample-complexity", "0.1"]) == 2
    assert "goes with --algorithm pp-admm --method published" in capsys.readouterr().err


@pytest.mark.parametrize("flag", ["--sample-complexity", "--reference-norm", "--failure"])
def test_what_is_no_number_is_refused(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["calibrate", "--algorithm", "pp-admm", "--method", "published", "--sample-complexity", "0.1"]
    assert run_command_line([*words, flag, "nan"]) == 2
    assert f"{flag} nan is not allowed" in capsys.readouterr().err
