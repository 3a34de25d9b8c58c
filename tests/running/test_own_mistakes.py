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

from admmnet.holder.answers import Ask, Released
from admmnet.holder.measurements import NoisyGradient
from admmnet.methods.dp_dsgd import DPDSGD


class Mine(DPDSGD):
    name = "mine"

    def propose(self, agent, round):
        answer = yield Ask(self.question(agent.id, agent.state.theta, agent.plan.noise))
        if not isinstance(answer, Released):
            return None
        return self.moved(agent, answer.value)

    def moved(self, agent, gradient):
        return agent.state.theta - 0.5 * gradient
'''
STEP = "        return agent.state.theta - 0.5 * gradient\n"
ASKS = "self.question(agent.id, agent.state.theta, agent.plan.noise)"


def moves(value: str) -> tuple[str, str]:
    """Another step."""
    return STEP, f"        return {value}\n"


def adds(method: str, body: str) -> tuple[str, str]:
    """A further method."""
    return STEP, f"{STEP}\n    def {method}:\n        {body}\n"


PROPOSE = SOURCE[SOURCE.index("    def propose") :]
NO_GENERATOR = PROPOSE, "    def propose(self, agent, round):\n        return np.ones(5)\n"
NO_NUMBER = moves("agent.state.theta * np.log(-1.0 - gradient * gradient)")
LINE = r"m5\.py:\d+, "
MISTAKES: dict[str, tuple[tuple[str, str], str]] = {  # what is replaced, by what, and what is said
    "no generator": (NO_GENERATOR, LINE + "propose: returns ndarray: it must be a generator"),
    "a typing error": (moves("agent.state.theata - gradient"), r"m5\.py:20, moved: AttributeError: .*theata"),
    "another shape": (
        moves("(agent.state.theta - gradient)[:-1]"),
        LINE + r"propose: returns float64 of shape \(4,\): it must be None, or finite float64 of shape \(5,\)",
    ),
    "a list": (moves("list(agent.state.theta)"), LINE + "propose: returns list: it must be None"),
    "complex numbers": (moves("agent.state.theta + 1j"), LINE + "propose: returns complex128 of"),
    "no number": (NO_NUMBER, r"m5\.py:(\d+, propose: returns|20, moved: RuntimeWarning)"),
    "noise of another plan": (
        (ASKS, ASKS.replace("agent.plan.noise", "0.5 * agent.plan.noise")),
        r"m5\.py:14, propose: asks gaussian .*which no planned event covers",
    ),
    "a question of another width": ((ASKS, ASKS.replace("theta,", "theta[:-1],")), r"m5\.py:14, propose: .*point"),
    "no measurement": ((f"Ask({ASKS})", ASKS), r"m5\.py.*propose"),
    "a plan of nothing": (
        adds("plan(self, agent, target)", "return None"),
        LINE + "plan: returns NoneType: it must be an AgentPlan",
    ),
    "a model of nothing": (
        adds("model(self, agent)", "pass"),
        LINE + "model: returns NoneType: it must be finite float64",
    ),
    "a model of no number": (
        adds("model(self, agent)", "return agent.state.theta * np.nan"),
        LINE + r"model: returns float64 of shape \(5,\), not all of it finite: it must be finite",
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
    begun = (tmp_path / "run" / "ledger").exists()
    assert begun == isinstance(caught.value, RunError) or "which no planned event covers" in said


def test_what_is_right_runs(people: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, SOURCE, monkeypatch)
    assert run(**settings(people)).summary["rounds"] == 8
