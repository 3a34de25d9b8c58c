"""The last files that an agent gives in a start in which nothing is left but the end: others than it can have."""

from __future__ import annotations

import base64
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from admmnet.errors import CheckFailed, StartEnded
from admmnet.record.finish import away_of, model_of
from admmnet.record.folder import model_bytes
from admmnet.record.forms import StartEntry
from admmnet.running.ending import LONGEST, finish
from admmnet.transport import Begun


class World:
    """Agent 0 of two; agent 1 says these words, one after the other."""

    rank, size = 0, 2
    start = Begun("a" * 64, 3, (0, 1), ((0, 1),), "finish", "d" * 64)

    def __init__(self, *words: Any) -> None:
        self.words = list(words)

    def gather(self, value: Any) -> list[Any]:
        return [value, self.words.pop(0)]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((None,), "no agent that is there has"),
        ((True, None), "does not say how long"),
        ((True, {"metrics.csv": "1"}), "does not say how long"),
        ((True, {"metrics.csv": LONGEST + 1}), f"each at most {LONGEST} bytes"),
        ((True, {"metrics.csv": 1, "ledger/agent-000.jsonl": 1}), "gives a file 'ledger/agent-000.jsonl', which is"),
        ((True, {"metrics.csv": 1}, base64.b64encode(b"x").decode()), "gives other last files than those"),
        ((True, {"metrics.csv": 1}, 7), "gives other last files than those"),
    ],
)
def test_what_an_agent_gives_as_the_last_files_is_looked_at(words: Any, told: str, tmp_path: Path) -> None:
    world: Any = World(*words)
    with pytest.raises(StartEnded, match=told) as caught:
        finish(world, tmp_path)
    assert caught.value.process == (1 if words[0] else None)
    assert not world.words


def test_a_liar_says_any_number_of_rounds() -> None:
    spans = [(0, [0, 1]), (3, [0]), (7, [0]), (5, [0]), (9, [0, 1]), (11, [0])]
    starts = [StartEntry(number=k, members=who, round=at, rule="go on", cause="") for k, (at, who) in enumerate(spans)]
    assert away_of(starts, 2**53, 2) == {"1": ["3-8", f"11-{2**53 - 1}"]}


@pytest.mark.parametrize("content", [b"", b"PK", np.array(["a"]), np.ones((2, 3), np.float32), np.ones(3)], ids=str)
def test_models_that_are_none_are_refused_in_one_way(content: Any) -> None:
    data = io.BytesIO()
    np.savez(data, theta=content, consensus=np.ones(3))
    model = content if isinstance(content, bytes) else data.getvalue()
    with pytest.raises(CheckFailed, match=r"model.npz"):
        model_of({"model.npz": model}, "somewhere")


@pytest.mark.parametrize("screened", [False, True])
def test_the_average_beside_the_models_is_theirs(screened: bool) -> None:
    """The agents sign the models alone, and predictions are made with the average."""
    theta = np.random.default_rng(0).standard_normal((6, 30))
    theta[5] += 1e3
    data = model_bytes(theta, ["x"] * 30, aggregate="screened" if screened else "mean")
    assert model_of({"model.npz": data}, "somewhere")["theta"].tobytes() == theta.tobytes()
    other = io.BytesIO()
    np.savez(other, theta=theta, consensus=np.full(30, 7.0))
    with pytest.raises(CheckFailed, match="consensus is no mean of the models"):
        model_of({"model.npz": other.getvalue()}, "somewhere")
