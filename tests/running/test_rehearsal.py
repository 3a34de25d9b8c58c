"""Usual mistakes of a method's author: each is told before the run, with file, line and function."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from admmnet import RequestError, RunError, run
from admmnet.methods import METHODS
from admmnet.running import rehearsal
from tests.command_runs import Admmnet

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
        r"m5\.py:\d+, propose: returns float64 of shape \(\d+,\): it must be None, or finite float64",
    ),
    "no number": (
        STEP,
        "        return agent.state.theta * np.log(-1.0 - gradient * gradient)\n",
        r"m5\.py:(\d+, propose: returns|20, moved: RuntimeWarning)",
    ),
    "a refusal is not expected": (
        "        if not isinstance(answer, Released):\n            return None\n",
        "",
        r"m5\.py:18, moved: TypeError",
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
    "a neighbour that was lost": (
        STEP,
        STEP
        + "\n    def absorb(self, agent, own, inbox):\n"
        + "        agent.state.theta = own + sum(inbox[j] for j in agent.neighbours)\n",
        r"m5\.py:\d+, absorb: TypeError",
    ),
    "a model of nothing": (
        STEP,
        STEP + "\n    def model(self, agent):\n        pass\n",
        r"m5\.py:\d+, model: returns NoneType: it must be finite float64",
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
def test_a_mistake_is_told_with_its_line(
    mistake: str, people: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong, right, said = MISTAKES[mistake]
    assert wrong in SOURCE
    write(tmp_path, SOURCE.replace(wrong, right), monkeypatch)
    with pytest.raises(RequestError, match=said) as caught:
        run(**settings(people))
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "run" / "ledger").exists()  # nothing has begun


def test_what_is_right_runs(people: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, admmnet: Admmnet) -> None:
    write(tmp_path, SOURCE, monkeypatch)
    told = admmnet.ok("rehearse", "m5.py:Mine", "--data", people, "--simulate", "--rounds", "8").out
    assert "nothing wrong in the first and last of 8 rounds of 5 agents" in told
    assert run(**settings(people)).summary["rounds"] == 8


def test_the_command_says_what_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, admmnet: Admmnet) -> None:
    wrong, right, said = MISTAKES["a typing error"]
    write(tmp_path, SOURCE.replace(wrong, right), monkeypatch)
    assert re.search(said, admmnet.refused("rehearse", "m5.py:Mine"))


def test_without_a_rehearsal_it_ends_the_run_with_the_line(
    people: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the first and last rounds do not show ends a later one, and is told as the author's, too."""
    late = STEP.replace(
        "        return", "        if agent.releases == 6:\n            raise ValueError('late')\n        return"
    )
    write(tmp_path, SOURCE.replace(STEP, late), monkeypatch)
    with pytest.raises(RunError, match=r"m5\.py:21, moved: ValueError: late"):
        run(**settings(people))


def test_the_rehearsal_is_what_tells_it_before(people: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong, right, _ = MISTAKES["a typing error"]
    write(tmp_path, SOURCE.replace(wrong, right), monkeypatch)
    monkeypatch.setattr(rehearsal, "_rounds", lambda *given, **others: None)
    with pytest.raises(RunError, match=r"m5\.py:20, moved: AttributeError"):
        run(**settings(people))
    assert (tmp_path / "run" / "ledger").exists()


@pytest.mark.parametrize("name", ["pp-admm", "ipp-admm", "noisy-gd", "ssp", "dp-dsgd", "r-admm", "dvp", "admm"])
@pytest.mark.parametrize("private", [False, True])
def test_our_own_methods_pass(name: str, private: bool, people: str, admmnet: Admmnet) -> None:
    mode = ["--private", "--no-test"] if private else ["--seed", "0"]
    if private and name == "admm":
        return
    admmnet.ok("rehearse", name, "--data", people, *mode, "--agents", "7")
