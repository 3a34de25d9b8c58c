"""Usual mistakes of a method's author: each is told before the run or in its first rounds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from admmnet import RunError, run
from admmnet.errors import AdmmnetError
from admmnet.methods import METHODS

SOURCE = '''\
"""A method of an author."""

import numpy as np

from admmnet.holder.measurements import NoisyGradient
from admmnet.methods.agents import Said
from admmnet.methods.dp_dsgd import DPDSGD


class Mine(DPDSGD):
    name = "mine"

    def propose(self, agents, round):
        told = yield agents.ask(NoisyGradient, agents.theta, agents.plan.noise)
        return Said(self.moved(agents, told.value), told.said)

    def moved(self, agents, gradients):
        return agents.theta - 0.5 * gradients
'''
STEP = "        return agents.theta - 0.5 * gradients\n"
ASKS = "agents.ask(NoisyGradient, agents.theta, agents.plan.noise)"


def moves(value: str) -> tuple[str, str]:
    """Another step."""
    return STEP, f"        return {value}\n"


def adds(method: str, body: str) -> tuple[str, str]:
    """A further method."""
    return STEP, f"{STEP}\n    def {method}:\n        {body}\n"


PROPOSE = SOURCE[SOURCE.index("    def propose") :]
NO_GENERATOR = PROPOSE, "    def propose(self, agents, round):\n        return np.ones((4, 5))\n"
NO_NUMBER = moves("agents.theta * np.log(-1.0 - gradients * gradients)")
LINE = r"m5\.py:\d+, "
MISTAKES: dict[str, tuple[tuple[str, str], str]] = {  # what is replaced, by what, and what is said
    "no generator": (NO_GENERATOR, LINE + "propose: returns ndarray: it must be a generator"),
    "a typing error": (moves("agents.theata - gradients"), r"m5\.py:18, moved: AttributeError: .*theata"),
    "another shape": (
        moves("(agents.theta - gradients)[:, :-1]"),
        LINE + r"propose: returns float64 of shape \(\d, 4\): it must be None, or finite float64 of shape \(\d, 5\)",
    ),
    "a list": (moves("list(agents.theta)"), LINE + "propose: returns list: it must be None"),
    "complex numbers": (moves("agents.theta + 1j"), LINE + "propose: returns complex128 of"),
    "no number": (NO_NUMBER, r"m5\.py:(\d+, propose: returns|18, moved: RuntimeWarning)"),
    "a question of another width": ((ASKS, ASKS.replace("theta,", "theta[:, :-1],")), r"m5\.py:14, propose: .*point"),
    "fewer questions than agents": (
        (ASKS, ASKS.replace("theta,", "theta[:-1],")),
        r"m5\.py:14, propose: NoisyGradient: there must be a vector, number and bool for each of",
    ),
    "fewer bools than agents": (
        ("told.said)", "told.said[:-1])"),
        LINE + "propose: returns Said: it must be None, an array with a row",
    ),
    "no question": ((ASKS, "agents.theta"), r"m5\.py.*propose: yields ndarray: it must yield agents\.ask"),
    "a plan of nothing": (
        adds("plan(self, agent, target)", "return None"),
        LINE + "plan: returns NoneType: it must be an AgentPlan",
    ),
    "a model of nothing": (
        adds("models(self, agents)", "pass"),
        LINE + "models: returns NoneType: it must be finite float64",
    ),
    "a model of no number": (
        adds("models(self, agents)", "return agents.theta * np.nan"),
        LINE + r"models: returns float64 of shape \(\d, 5\), not all of it finite: it must be finite",
    ),
}


def write(folder: Path, source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "m5.py").write_text(source, encoding="utf-8")
    monkeypatch.chdir(folder)
    monkeypatch.setattr(METHODS, "_loaded", {k: v for k, v in METHODS._loaded.items() if "m5" not in k})


def settings(people: str) -> dict[str, Any]:
    given = {"algorithm": "m5.py:Mine", "data": people, "seed": 0, "rounds": 8, "topology": "ring:4"}
    return given | {"out": "run"}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_told(mistake: str, people: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (wrong, right), said = MISTAKES[mistake]
    assert wrong in SOURCE
    write(tmp_path, SOURCE.replace(wrong, right), monkeypatch)
    with pytest.raises(AdmmnetError, match=said) as caught:
        run(**settings(people))
    assert "\n" not in str(caught.value)
    assert (tmp_path / "run" / "ledger").exists() == isinstance(caught.value, RunError)


def test_what_is_right_runs(people: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, SOURCE, monkeypatch)
    assert run(**settings(people)).summary["rounds"] == 8
