"""What processes tell each other of their arguments, what private runs keep to themselves; attempts at masked sums."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from msgspec import structs
from msgspec.structs import replace
from scipy.sparse import csr_array

from admmnet import RunConfig, run
from admmnet.data import DataSettings, load
from admmnet.data.given import Given
from admmnet.errors import RequestError, RunError
from admmnet.identity.keys import Identity, statement
from admmnet.masking import Attempt
from admmnet.record.journal import JOURNAL
from admmnet.running.arguments import agreed, numbered, public_settings, resumed_config
from admmnet.running.rounds import Attempts, agree_on_masks
from admmnet.transport import World
from admmnet.transport.hosts import make_network
from admmnet.transport.zmq.meeting import Start
from admmnet.types import NEVER, Total
from tests.people_runs import Stop, stopping, write_people
from tests.transport.test_network_file import plain

X = np.random.default_rng(0).standard_normal((20, 3))
y = np.where(X[:, 0] > 0.0, 1, 0)


class Pair(World):
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


def test_other_records_are_found() -> None:
    for one, other in (
        (Given("arrays", (X, y)), Given("arrays", (X + 1e-12, y))),
        (Given("arrays", (X, y)), Given("arrays", (X, 1 - y))),
        (Given("arrays", (X, list("ab" * 10))), Given("arrays", (X, list("ba" * 10)))),
        (Given("arrays", (csr_array(X), y)), Given("arrays", (csr_array(2 * X), y))),
        (Given("frame", FRAME), Given("frame", FRAME[::-1])),
        (Given("frame", FRAME), Given("frame", FRAME.replace("u", "w"))),
        (Given("frame", FRAME), Given("frame", FRAME.rename(columns={"a": "c"}))),
        (Given("arrays", own={0: (X, y), 1: (X, y)}), Given("arrays", own={0: (X, y), 1: (X, 1 - y)})),
    ):
        second = {"own": [], "told": told(other, seed=0, label="y")}
        with pytest.raises(RequestError, match="process 1 was given other records than process 0") as caught:
            ask(Pair(second), one, seed=0, label="y")
        assert caught.value.shared


def test_the_same_records_held_otherwise_are_the_same() -> None:
    """What is no array is refused when it is read."""
    words = np.array(["a", "b"] * 10)
    for one, other in (
        ((X, y), (np.asfortranarray(X), y.astype(float))),
        ((X, words), (X, words.astype(object))),
        ((object(), y), (object(), y)),
    ):
        assert told(Given("arrays", one), seed=0) == told(Given("arrays", other), seed=0)


def test_agents_with_shards_are_those_of_all_processes() -> None:
    given: Any = Given("arrays", own={0: (X, y)}, whole=False)
    first, settings = Pair(), {"seed": 0, "topology": "path:2"}
    assert ask(first, given, **settings) == {0}
    assert ask(Pair({"own": [1], "told": first.told["told"]}), given, **settings) == {0, 1}


def test_shards_number_the_agents() -> None:
    for known, agents, named, found in (({0, 1, 2}, None, False, 3), ({0, 1}, 2, False, 2), ({0, 1}, None, True, None)):
        assert numbered(known, agents, named=named) == found
    for known, agents, named, told in (
        ({0, 2}, None, False, "no process has a shard of agent 1: give one an agent, 0 to 2"),
        ({0, 1}, 3, False, "no process has a shard of agent 2: give one an agent, 0 to 2"),
        ({0, 2}, None, True, "no process has a shard of agent 1: give one an agent, 0 to 2"),
        ({0, 1, 2}, 2, False, "shards has agent 2, and the agents are 0 to 1: leave it out"),
    ):
        with pytest.raises(RequestError, match=told) as caught:
            numbered(known, agents, named=named)
        assert caught.value.shared


# no digest of records is told to other processes in a private run, or lies in its folder: guesses could be tried

AGENTS = 3


def contents(files: list[str]) -> Iterator[bytes]:
    """Files, the arrays in them and as methods see them, their rows, alone and with their labels."""
    pairs = list[tuple[Any, Any]]()
    for file in files:
        yield Path(file).read_bytes()
        with np.load(file) as arrays:
            pairs.append((arrays["X"], arrays["y"]))
    records = load(DataSettings(data=files[0], test=files[1]), AGENTS, range(AGENTS))
    for X, y in (*pairs, *records.shards.values(), (records.X_test, records.y_test)):
        labels = np.ascontiguousarray(y, dtype=np.float64)
        yield from (X.tobytes(), y.tobytes(), labels.tobytes(), X.tobytes() + y.tobytes())
        yield from (start + X.tobytes() + labels.tobytes() for start in (b"", repr(X.shape).encode()))
        yield from (row.tobytes() for row in X)
        yield from (row.tobytes() + label.tobytes() for row, label in zip(X, labels, strict=True))


def found(folder: Path, config: RunConfig, told: list[str]) -> set[str]:
    """Where the first 8 bytes of a digest stand, raw or in hexadecimal: in files, or in words to others."""
    digests = [hashlib.sha256(content).digest()[:8] for content in contents([str(config.data), str(config.test)])]
    kept = [path for name in ("run", "account") for path in (folder / name).rglob("*") if path.is_file()]
    places = {str(path.relative_to(folder)): path.read_bytes() for path in kept}
    places |= {"told": "".join(told).encode(), "agent": json.dumps(public_settings(config)).encode()}  # on its own host
    assert len(places) > 6
    return {name for name, data in places.items() if any(one in data or one.hex().encode() in data for one in digests)}


@pytest.mark.parametrize("private", [True, False])
def test_a_private_run_tells_and_keeps_no_digest_of_records(
    private: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The power of the search: of a simulation's public records hosts compare files, and what is planted is found."""
    told, real = list[str](), World.gather

    def gather(world: World, value: Any, topic: str = "ready") -> list[Any]:
        told.append(json.dumps(value))
        return real(world, value, topic)

    monkeypatch.setattr(World, "gather", gather)
    data, test = write_people(tmp_path / "a.npz", 90, 2), write_people(tmp_path / "b.npz", 40, 3)
    mode = {"account": str(tmp_path / "account"), "whiten": "on"} if private else {"seed": 0}
    settings: dict[str, Any] = {"algorithm": "pp-admm", "agents": AGENTS, "rounds": 4, "epsilon": 20.0, **mode}
    config = RunConfig(data=data, test=test, out=str(tmp_path / "run"), **settings)
    with pytest.raises(Stop):
        run(config, on_round=stopping(1))
    if private:
        journal = (tmp_path / "run" / JOURNAL).read_bytes()
        records = load(DataSettings(data=data, test=test), AGENTS, range(AGENTS))
        with np.load(data) as arrays:
            values = np.unique(
                [*arrays["X"].ravel(), *(x for X, _ in records.shards.values() for x in X[:, :-1].ravel())]
            )
        assert not any(value.tobytes() in journal for value in values)
        assert found(tmp_path, config, told) == set()
        run(resumed_config(tmp_path / "run"))
        assert found(tmp_path, config, told) == set()
        return
    assert found(tmp_path, config, told) == {"agent"}
    planted = hashlib.sha256(Path(data).read_bytes()).digest()
    (tmp_path / "run" / "raw").write_bytes(planted[:8])
    assert found(tmp_path, config, [*told, planted.hex()[:16]]) == {"agent", "told", "run/raw"}


# attempts at masked sums, and the agreement on their keys

OWN = [Identity.fresh() for _ in range(2)]
LOW_ORDER = "00" * 32
OF_ALL = (0, 1, 2, 3)


def of(*agents: int) -> Total:
    return Total(np.ones(2, dtype=np.int64), agents)


def test_a_sum_of_all_participants_is_the_sum() -> None:
    attempts = Attempts(range(4), 1)
    for number in (1, 2, 3):
        assert attempts.begin(number) == (number, OF_ALL)
        assert attempts.judge(0, total := of(*OF_ALL), 100.0) is total
    attempts.begin(4)
    assert attempts.judge(4, None, 100.0) is None  # budgets refuse: nothing is void
    assert (attempts.participants, attempts.notes()) == (OF_ALL, ())


def test_a_sum_without_somebody_is_void_and_the_next_is_without_it() -> None:
    attempts = Attempts(range(5), 1)
    attempts.begin(7)
    assert attempts.judge(7, of(0, 1, 3, 4), 100.0, spoken=(0,)) is None
    assert attempts.begin(8) == (2, (0, 1, 3, 4))
    assert attempts.judge(8, of(0, 3, 4), 100.0) is None
    assert attempts.participants == (0, 3, 4)
    # a round without a tree is noted of the trees; a process none of whose agents spoke could not note it here
    assert attempts.judge(9, None, 100.0, spoken=(0,)) is None
    void, missed = attempts.notes()
    assert "2 masked sums were void, the first in round 7" in void
    assert "without agent 1 from round 8 on, agent 2 from round 7 on" in missed


def test_who_took_part_and_was_left_out_does_not_go_on() -> None:
    """Only the agents of this process know that they took part; a silent one is left out without an error."""
    attempts = Attempts(range(5), 1)
    attempts.begin(7)
    with pytest.raises(RunError, match="agent 1 took part in the masked sum of round 7 and was left out"):
        attempts.judge(7, of(0, 3, 4), 100.0, spoken=(1,))


@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize("number", [100, 101, -101, -(2**63), 2**63 - 1])
def test_a_sum_whose_masks_have_not_cancelled_is_none(number: int, fixed: bool) -> None:
    """On hosts, where nobody goes missing within a start, it is a liar's: void, and the same agents go on."""
    attempts, total = Attempts(range(4), 1, fixed=fixed), Total(np.array([100, number]), OF_ALL)
    attempts.begin(3)
    if number == 100:
        assert attempts.judge(3, total, 100.0) is total
    elif fixed:
        assert attempts.judge(3, total, 100.0) is attempts.judge(4, of(0, 1), 100.0, spoken=(3,)) is None
        assert (attempts.void, attempts.begin(5)) == ([3, 4], (2, OF_ALL))
    else:
        with pytest.raises(RunError, match="the masks of round 3 did not cancel"):
            attempts.judge(3, total, 100.0)


def test_too_few_are_asked_nothing() -> None:
    attempts = Attempts(range(4), 2)
    attempts.begin(0)
    assert attempts.judge(0, of(0, 1, 2), 100.0) is None
    assert attempts.begin(1) == attempts.begin(2) == (1, ())
    assert "from round 1 on fewer than 4 agents were left" in attempts.notes()[-1]


class Masked(World):
    """Process 0 of agents 0 and 1 over ZeroMQ, as which ``rank`` gathers; process 1, of agents 2 and 3, tells this."""

    def __init__(self, told: Any = None, rank: int = 0, start: str = "ab" * 32) -> None:
        self.told, self.rank, self.said = told, rank, dict[str, Any]()
        own = [structs.replace(peer, identity=key.public) for peer, key in zip(plain(2)[0], OWN, strict=True)]
        self.network, self.identity = make_network("path:2", [(0, 1)], own, "ipc://relay"), OWN[rank]
        self.start = Start(start, start, [0, 1], [(0, 1)], "go on", NEVER, start, "", {})

    def gather(self, value: Any, topic: str = "ready") -> list[Any]:
        assert topic == "masks"
        self.said = json.loads(json.dumps(value))["values"]
        return [json.loads(json.dumps(value)), {"values": self.told}]


def words(start: str = "ab" * 32) -> dict[str, Any]:
    """What process 1 tells of agents 2 and 3."""
    world = Masked(rank=1, start=start)
    with pytest.raises(RequestError):  # of the other process, which says nothing here
        agree_on_masks(world, [(0, 1), (2, 3)], "", 1)
    return world.said


def test_masks_of_an_agreement_cancel() -> None:
    masks, first = agree_on_masks(World(), [OF_ALL], "", 1), Attempt(1, OF_ALL, 1)
    assert not np.asarray(sum(one.words(first, b"", 9) for one in masks.values())).any()
    assert sorted(agree_on_masks(Masked(words()), [(0, 1), (2, 3)], "", 1)) == [0, 1]


def test_a_key_that_its_agent_has_not_signed_for_this_start_is_refused() -> None:
    """And one of low order, with which masks would be zeros."""
    first, second = words().values()
    low = [LOW_ORDER, OWN[1].sign(statement("key for masks", "ab" * 32, 3, LOW_ORDER)).hex()]
    for one, other, match in (
        ([words()["2"][0], first[1]], second, "agent 2 says that its key for masks"),  # another key
        ([first[0], second[1]], second, "agent 2 says that its key for masks"),  # another signature
        (words("cd" * 32)["2"], second, "agent 2 says that its key for masks"),  # of an earlier start
        ([1, 2], second, "agent 2 says that its key for masks"),
        (None, second, "agent 2 says that its key for masks"),
        (first, low, "agent 3 gives a key for masks that hides nothing"),
    ):
        with pytest.raises(RequestError, match=match):
            agree_on_masks(Masked({"2": one, "3": other}), [(0, 1), (2, 3)], "", 1)
