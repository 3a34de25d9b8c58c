"""What is decided before the first round, and what processes share of it: records of a machine, words of others."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec import structs

from admmnet import RequestError, RunConfig, run
from admmnet.data import DataSettings, Records, load
from admmnet.data import loading as reading
from admmnet.data.given import Given
from admmnet.data.records import arrays_of
from admmnet.data.source import Source
from admmnet.data.sources import read_source
from admmnet.running import loading
from admmnet.running.arguments import OWN, public_settings
from admmnet.running.entrance import prepare
from admmnet.running.loading import shared
from admmnet.running.plan import Plan
from admmnet.running.rounds import Rounds
from admmnet.solvers.certificate import chosen
from admmnet.transport import World
from tests.wide_files import write_wide

ACCOUNTED: dict[str, Any] = {"account": "account", "seed": None, "simulate": True}
MASKED: dict[str, Any] = {"algorithm": "noisy-gd", "trust": "masked", "colluders": 1}


def test_a_budget_is_of_an_agent_that_there_is_and_delta_is_chosen_for_a_promise_alone(people: str) -> None:
    how: dict[str, Any] = {"topology": "ring:3", "rounds": 1, "seed": 0, "data": people}
    for algorithm, promised in (("admm", False), ("pp-admm", True)):
        plan = prepare(RunConfig(algorithm=algorithm, budgets={"2": {"epsilon": 0.5}}, **how), World())
        assert (plan.config.delta != "auto") is promised
    with pytest.raises(RequestError, match=r"\[privacy.agents.3\]: the agents are numbered 0 to 2"):
        prepare(RunConfig(budgets={"3": {"epsilon": 0.5}}, **how), World())


def test_measurements_of_a_long_run_are_fewer(people: str) -> None:
    """By its planned rounds; of one whose end nobody knows each is measured."""
    for algorithm, length, asked, every in (
        ("admm", {"rounds": 7}, 5, 5),
        ("admm", {"rounds": 35}, "auto", 3),
        ("admm", {"rounds": 7}, "auto", 1),
        ("sgd", {"epochs": 30}, "auto", 1),
    ):
        how: dict[str, Any] = {"algorithm": algorithm, "seed": 0, "data": people, "measure_every": asked, **length}
        assert prepare(RunConfig(**how), World()).config.measure_every == every
    with pytest.raises(RequestError, match="measure_every = 0 is not allowed: it must be a whole number or 'auto'"):
        RunConfig(measure_every=0)


def test_equal_agents_share_loss_and_contract() -> None:
    """So that costs and radii are worked out once: of more sizes of agents than a small cache holds."""
    counts = {i: 2 + i % 70 for i in range(140)}

    def made(*_: Any) -> Records:
        shards = {i: (np.eye(3)[np.arange(n) % 3], np.where(np.arange(n) % 2, 1.0, -1.0)) for i, n in counts.items()}
        return Records("made", shards, counts, *shards[0], ("a", "b", "c"), "public-bounds")

    config = RunConfig(algorithm="pp-admm", topology="ring:140", epsilon=3.0, rounds=1, seed=0, loss_width=0.3)
    plan = prepare(config, World(), made)
    assert plan.loss is plan.loss == plan.method.loss
    assert all(plan.contracts[i] is plan.contracts[i + 70] for i in range(70))


def test_what_hosts_are_told_of_files(tmp_path: Path) -> None:
    """Of a simulation their content, on one disk their paths, of private files nothing."""
    file = tmp_path / "t.csv"
    file.write_text("a,y\n1,0\n")
    for data in (str(file), "{agent}.csv"):
        simulated, private = (RunConfig(data=data, test=str(file), simulate=on, private=not on) for on in (True, False))
        plain = public_settings(simulated, digests=False)
        assert (plain["data"], plain["test"]) == (data, str(file))
        told = public_settings(simulated)
        assert told["test"].startswith("a file with sha256 ")
        assert told["data"].startswith("a file with sha256 ") is (data == str(file))
        secret = public_settings(private)
        assert secret["test"] == secret["data"] == OWN
    assert public_settings(RunConfig(data="census", seed=0))["data"] == "census"
    assert "cannot be read" in public_settings(RunConfig(data=str(tmp_path / "none.csv"), simulate=True))["data"]


def test_shards_of_own_agents_tell_no_scales() -> None:
    """Other processes have other rows: what is read from these would be one agent's own."""
    X, y = np.arange(12.0).reshape(4, 3) + 1.0, np.array([-1, 1, -1, 1])
    settings = DataSettings(data="arrays", split="shards", no_test=True, normalise="columns", data_dependent=True)
    whole = Given("arrays", own={0: (X, y), 1: (X, y)})
    assert set(whole.load(settings, 2, [0]).shards) == {0}
    with pytest.raises(RequestError, match="--normalise columns"):
        structs.replace(whole, whole=False).load(settings, 2, [0, 1])


@pytest.mark.parametrize(
    ("settings", "most"),
    [({"algorithm": "pp-admm"}, 4), ({"algorithm": "noisy-gd", "trust": "masked", "colluders": 1}, 6)],
)
def test_processes_gather_seldom_before_the_first_round(
    settings: dict[str, Any], most: int, people: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each gather costs a flood, as many delays as the network is wide, before anything is computed."""
    real, before = World.gather, list[str]()

    def gather(self: World, value: Any, topic: str = "ready") -> list[Any]:
        before.append(topic)
        return real(self, value, topic)

    def first(self: Rounds, round: int) -> bool:
        raise KeyboardInterrupt

    monkeypatch.setattr(World, "gather", gather)
    monkeypatch.setattr(Rounds, "run", first)
    with pytest.raises(KeyboardInterrupt):
        run(data=people, topology="ring:4", rounds=2, seed=0, out=tmp_path / "run", **settings)
    assert len(before) == most


class Pair(World):
    """The first of two processes with two agents each; the second says the same of its own, but for ``lie``."""

    name, size = "mpi", 2

    def __init__(self, lie: Callable[[str, Any], Any]) -> None:
        self.lie = lie

    def gather(self, value: Any, topic: str = "ready") -> list[Any]:
        other = json.loads(json.dumps(value))
        for name in ("counts", "width", "tests", "deltas", "values"):
            if isinstance(other, dict) and name in other:
                other[name] = {str(int(i) + 2): said for i, said in other[name].items()}
        return [value, self.lie(topic, other)]


def plan(people: str, lie: Callable[[str, Any], Any], **settings: Any) -> Plan:
    given = {"algorithm": "pp-admm", "topology": "ring:4", "rounds": 2, "data": people, "seed": 0, **settings}
    return prepare(RunConfig(**given), Pair(lie))


def saying(topic: str, name: str, change: Callable[[Any], Any]) -> Callable[[str, Any], Any]:
    """Of agent 2 something else."""

    def lie(at: str, other: Any) -> Any:
        if at == topic:
            other[name]["2"] = change(other[name]["2"])
        return other

    return lie


def test_nobody_is_believed_what_cannot_be(people: str, tmp_path: Path) -> None:
    for topic, name, change, settings, told in (
        ("facts", "counts", lambda n: 0, {}, "number of records"),
        ("facts", "counts", lambda n: 2**40 + 1, {}, "number of records"),
        ("facts", "width", lambda n: n + 1, {}, "agent 2 has 6 features, most have 5"),
        ("facts", "tests", lambda n: n - 1, {}, "agent 2 has 49 test records, most have 50"),
        ("left", "values", lambda rho: 1.0001 * rho, ACCOUNTED, r"budget left \(rho\)"),
        ("left", "values", lambda rho: 1e-10 * rho, ACCOUNTED, r"budget left \(rho\)"),
        ("ratio", "values", lambda share: 2.1 * share, MASKED, "share of sensitivity"),
        ("ratio", "values", lambda share: 0.4 * share, MASKED, "share of sensitivity"),
    ):
        account = {"account": str(tmp_path / "account")} if "account" in settings else {}
        with pytest.raises(RequestError, match=told):
            plan(people, saying(topic, name, change), **settings | account)


def test_the_noise_of_masked_sums_is_that_of_the_strictest(people: str) -> None:
    own = [plan(people, saying("ratio", "values", lambda share, by=by: by * share), **MASKED) for by in (1.5, 1.0, 0.7)]  # type: ignore[misc]
    loose, plain, strict = (found.agents[0].noise for found in own)
    assert loose == plain == pytest.approx(strict / 0.7)
    assert own[2].agents[1].noise == strict


def test_masks_are_bound_to_what_all_have_alike(people: str) -> None:
    def said(**others: Any) -> dict[str, Any]:
        return public_settings(plan(people, lambda topic, other: other, **MASKED | others).config)

    assert said() == said()
    assert said() != said(rounds=3)


@pytest.mark.parametrize(("kernel", "found"), [("c1", "c"), ("numpy", "numpy"), ("c2", "numpy")])
def test_processes_of_a_seeded_run_take_the_kernel_that_all_have(kernel: str, found: str, people: str) -> None:
    def other(topic: str, said: Any) -> Any:
        return said | {"kernel": kernel} if topic == "facts" else said

    if chosen("auto") == "c":
        assert plan(people, other).config.kernel == found
        assert plan(people, other, seed=None, simulate=True).config.kernel == "auto"
    else:
        assert plan(people, other).config.kernel == "numpy"


# the first rank reads records for all of its machine: the others get what they would have read, bit for bit

OWNERS = ((0, 1), (2,), (3, 4))


class Seat(World):
    """A rank of three; what the first one has said is known to all."""

    name, size = "mpi", 3
    said: Any = None

    def __init__(self, rank: int) -> None:
        super().__init__()
        self.rank = rank

    def gather(self, value: Any, topic: str = "ready") -> list[Any]:
        if self.rank == 0:
            Seat.said = value
        return [Seat.said]


@pytest.fixture
def opened() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def bits(records: Records) -> dict[str, Any]:
    """All that there is in records, arrays bit for bit."""
    found = {field.name: getattr(records, field.name) for field in fields(Records)}
    arrays = {"test": (found.pop("X_test"), found.pop("y_test")), **found.pop("shards")}
    return found | {
        str(name): [(one.dtype.str, one.shape, one.tobytes()) for part in pair for one in arrays_of(part)]
        for name, pair in arrays.items()
    }


@pytest.fixture
def csv(tmp_path: Path) -> str:
    stream = np.random.default_rng(0)
    lines = [f"{a:.6g},{'red' if b > 0 else 'blue'},{a + b:.6g}" for a, b in stream.standard_normal((60, 2))]
    file = tmp_path / "made.csv"
    file.write_text("\n".join(["size,colour,outcome", *lines]) + "\n")
    return str(file)


def targets_of(file: str) -> DataSettings:
    columns = {"size": {"kind": "numeric", "low": -3, "high": 3}, "colour": {"kind": "categorical"}}
    schema = {"targets": [-4, 4], "columns": columns}
    return DataSettings(data=file, label="outcome", schema=schema, data_dependent=True)


@pytest.mark.parametrize("kind", ["census", "targets", "sparse", "raw"])
def test_others_get_what_they_would_have_read(
    kind: str, csv: str, tmp_path: Path, opened: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind == "census":
        settings = DataSettings()
    elif kind == "targets":
        settings = targets_of(csv)
    elif kind == "raw":
        settings = targets_of(csv).changed(encode="private")
    else:
        settings = DataSettings(data=write_wide(tmp_path / "wide.libsvm"))
    expected = [load(settings, 5, mine) for mine in OWNERS]
    reads = list[object]()

    def read(given: DataSettings) -> Source:
        reads.append(given)
        return read_source(given)

    monkeypatch.setattr(reading, "read_source", read)
    found = [shared(settings, 5, Seat(rank), OWNERS, opened) for rank in range(3)]
    assert len(reads) == 1
    for agent in (2, 3, 4):  # kept for the optimum of all
        del found[0].shards[agent]
    opened.close()  # as on another machine: there is no file
    found.append(shared(settings, 5, Seat(2), OWNERS, opened))
    for one, other in zip(found, [*expected, expected[2]], strict=True):
        assert bits(one) == bits(other)
    assert len(reads) == 2


def test_on_hosts_and_alone_each_reads_for_itself_and_shards_of_few_records_are_kept(
    csv: str, opened: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = targets_of(csv)
    for name, size in (("zmq", 3), ("mpi", 1)):
        world, Seat.said = Seat(0), None
        world.name, world.size = name, size
        assert sorted(shared(settings, 5, world, OWNERS, opened).shards) == [0, 1]
        assert Seat.said is None
    assert sorted(shared(settings, 5, Seat(0), OWNERS, opened).shards) == [0, 1, 2, 3, 4]
    monkeypatch.setattr(loading, "KEPT", 10)
    assert sorted(shared(settings, 5, Seat(0), OWNERS, opened).shards) == [0, 1]
