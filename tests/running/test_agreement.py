"""What processes tell each other of their arguments: shapes, and in simulations digests."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from msgspec.structs import replace
from scipy.sparse import csr_array

from admmnet.config.run_config import RunConfig
from admmnet.data.given import Given
from admmnet.errors import RequestError
from admmnet.running.agreement import agreed, numbered
from admmnet.running.handshake import public_settings
from admmnet.transport.local import LocalWorld

X = np.random.default_rng(0).standard_normal((20, 3))
y = np.where(X[:, 0] > 0.0, 1, 0)


class Pair(LocalWorld):
    """The first of two processes; the second says what ``other`` says, by default the same."""

    name, size = "mpi", 2

    def __init__(self, other: Any = None) -> None:
        super().__init__()
        self.told: Any = None
        self._other = other

    def gather(self, value: Any, topic: str = "ready") -> list[Any]:
        self.told = json.loads(json.dumps(value))
        return [self.told, self.told if self._other is None else self._other]


def ask(world: Pair, given: Given | None, **settings: Any) -> set[int] | None:
    """Compare what a process was given."""
    config = RunConfig(**({"data": given.kind} if given else {}) | settings)
    own = {name: getattr(config, name) for name in ("transport", "account", "no_account", "out", "resume")}
    shown = public_settings(config, digests=config.simulation) | own
    return agreed(world, given, lambda: shown, simulation=config.simulation)


def told(given: Given | None, **settings: Any) -> dict[str, Any]:
    """What a process tells of its arguments."""
    world = Pair()
    assert ask(world, given, **settings) is None
    found: dict[str, Any] = world.told["told"]
    assert all(re.fullmatch("[0-9a-f]{16}", value) for value in found.values())
    return found


def disagree(one: Given, other: Given, **settings: Any) -> str:
    """What is said of two processes that were given these."""
    second = {"own": [], "told": told(other, **settings)}
    with pytest.raises(RequestError) as caught:
        ask(Pair(second), one, **settings)
    assert caught.value.shared
    return str(caught.value)


def test_nothing_of_private_records_is_told_but_their_shapes() -> None:
    one, other = Given("arrays", (X, y), test=(X[:5], y[:5])), Given("arrays", (2 * X, -y), test=(X[5:10], y[5:10]))
    private: dict[str, Any] = {"test": "arrays", "no_account": True}
    assert told(one, **private) == told(other, **private)
    longer = told(replace(one, pool=(X[:19], y[:19]), test=(X[:6], y[:6])), **private)
    changed = {name for name, value in told(one, **private).items() if value != longer[name]}
    assert changed == {"records", "test records"}
    simulated = [told(given, test="arrays", seed=0) for given in (one, other)]
    assert {name for name, value in simulated[0].items() if value != simulated[1][name]} == changed


def test_a_file_of_private_records_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    found: list[list[dict[str, Any]]] = []
    for text in ("a,y\n1,0\n2,1\n", "a,y\n1,0\n2,0\n"):
        path.write_text(text)
        private = [told(None, data=str(path), no_test=True, no_account=True)]
        private += [told(None, data="{agent}.csv", test=str(path), no_account=True)]
        found.append([*private, told(None, data=str(path), seed=0)])
    assert [one == other for one, other in zip(*found, strict=True)] == [True, True, False]


FRAME = pd.DataFrame({"a": X[:, 0], "b": ["u", "v"] * 10, "y": y})


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Given("arrays", (X, y)), Given("arrays", (X + 1e-12, y))),
        (Given("arrays", (X, y)), Given("arrays", (X, 1 - y))),
        (Given("arrays", (X, list("ab" * 10))), Given("arrays", (X, list("ba" * 10)))),
        (Given("arrays", (csr_array(X), y)), Given("arrays", (csr_array(2 * X), y))),
        (Given("frame", FRAME), Given("frame", FRAME[::-1])),
        (Given("frame", FRAME), Given("frame", FRAME.replace("u", "w"))),
        (Given("frame", FRAME), Given("frame", FRAME.rename(columns={"a": "c"}))),
        (Given("arrays", own={0: (X, y), 1: (X, y)}), Given("arrays", own={0: (X, y), 1: (X, 1 - y)})),
    ],
)
def test_other_records_are_found(one: Given, other: Given) -> None:
    assert "process 1 was given other records than process 0" in disagree(one, other, seed=0, label="y")


def test_the_same_records_held_otherwise_are_the_same() -> None:
    """What is no array is refused when it is read."""
    words = np.array(["a", "b"] * 10)
    for one, other in (
        ((X, y), (np.asfortranarray(X), y.astype(float))),
        ((X, words), (X, words.astype(object))),
        ((object(), y), (object(), y)),
    ):
        assert told(Given("arrays", one), seed=0) == told(Given("arrays", other), seed=0)


@pytest.mark.parametrize("own", [None, 1, ["1"], [-1], [True]])
def test_a_process_that_does_not_say_whose_shards_it_has_is_named(own: Any) -> None:
    given: Any = Given("arrays", own={0: (X, y)}, whole=False)
    first, settings = Pair(), {"seed": 0, "topology": "path:2"}
    assert ask(first, given, **settings) == {0}
    same = first.told["told"]
    assert ask(Pair({"own": [1], "told": same}), given, **settings) == {0, 1}
    with pytest.raises(RequestError, match="process 1 does not say which agents it has shards of") as caught:
        ask(Pair({"own": own, "told": same}), given, **settings)
    assert caught.value.shared


@pytest.mark.parametrize(
    ("known", "agents", "named", "found"),
    [
        ({0, 1, 2}, None, False, 3),
        ({0, 1}, 2, False, 2),
        ({0, 1}, None, True, None),
        ({0, 2}, None, False, "no process has a shard of agent 1: give one an agent, 0 to 2"),
        ({0, 1}, 3, False, "no process has a shard of agent 2: give one an agent, 0 to 2"),
        ({0, 2}, None, True, "no process has a shard of agent 1: give one an agent, 0 to 2"),
        ({0, 1, 2}, 2, False, "shards has agent 2, and the agents are 0 to 1: leave it out"),
    ],
)
def test_shards_number_the_agents(known: set[int], agents: int | None, named: bool, found: int | str | None) -> None:
    if not isinstance(found, str):
        assert numbered(known, agents, named=named) == found
        return
    with pytest.raises(RequestError, match=found) as caught:
        numbered(known, agents, named=named)
    assert caught.value.shared
