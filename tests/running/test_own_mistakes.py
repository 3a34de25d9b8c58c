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
ASKED = "        answer = yield Ask(self.question(agent.id, agent.state.theta, agent.plan.noise))\n"
MISTAKES: dict[str, tuple[str, str, str]] = {  # what is replaced, by what, and what is said
    "no generator": (
        SOURCE[SOURCE.index("    def propose") :],
        "    def propose(self, agent, round):\n        return agent.state.theta\n",
        r"m5\.py:\d+, propose: returns ndarray: it must be a generator",
    ),
    "a typing error": (
        STEP,
        "        return agent.state.theata - gradient\n",
        r"m5\.py:20, moved: AttributeError: .*theata",
    ),
    "another shape": (
        STEP,
        "        return (agent.state.theta - gradient)[:-1]\n",
        r"m5\.py:\d+, propose: returns float64 of shape \(4,\): it must be None, or finite float64 of shape \(5,\)",
    ),
    "a list": (STEP, "        return list(agent.state.theta)\n", r"m5\.py:\d+, propose: returns list: it must be None"),
    "complex numbers": (STEP, "        return agent.state.theta + 1j\n", r"m5\.py:\d+, propose: returns complex128 of"),
    "no number": (
        STEP,
        "        return agent.state.theta * np.log(-1.0 - gradient * gradient)\n",
        r"m5\.py:(\d+, propose: returns|20, moved: RuntimeWarning)",
    ),
    "noise of another plan": (
        ASKED,
        ASKED.replace("agent.plan.noise", "0.5 * agent.plan.noise"),
        r"m5\.py:14, propose: asks gaussian .*which no planned event covers",
    ),
    "a question of another width": (
        ASKED,
        ASKED.replace("agent.state.theta,", "agent.state.theta[:-1],"),
        r"m5\.py:14, propose: .*point",
    ),
    "no measurement": (
        ASKED,
        "        answer = yield self.question(agent.id, agent.state.theta, agent.plan.noise)\n",
        r"m5\.py.*propose",
    ),
    "a plan of nothing": (
        STEP,
        STEP + "\n    def plan(self, agent, target):\n        return None\n",
        r"m5\.py:\d+, plan: returns NoneType: it must be an AgentPlan",
    ),
    "a model of nothing": (
        STEP,
        STEP + "\n    def model(self, agent):\n        pass\n",
        r"m5\.py:\d+, model: returns NoneType: it must be finite float64",
    ),
    "a model of no number": (
        STEP,
        STEP + "\n    def model(self, agent):\n        return agent.state.theta * np.nan\n",
        r"m5\.py:\d+, model: returns float64 of shape \(5,\), not all of it finite: it must be finite",
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
    wrong, right, said = MISTAKES[mistake]
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
