"""Accounts of several folders: what they come to together, and what the second folder is said to be."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from admmnet import RequestError, RunConfig, run
from admmnet.privacy.budget import Totals
from admmnet.privacy.contract import Contract
from admmnet.privacy.events import DiscreteGaussian, Event, Gaussian, Laplace, SubsampledGaussian
from admmnet.privacy.ledger import audit
from admmnet.privacy.together import added, largest
from admmnet.record import format
from tests.command_runs import Admmnet

from .accounts import Place

EVENTS: tuple[Event, ...] = (
    Gaussian(1.0, 9.0),
    DiscreteGaussian(1.0, 8.0, 2.0**-6, 3),
    DiscreteGaussian(1.0, 20.0, 2.0**-6, 3, agents=5, colluders=2),
    DiscreteGaussian(1.0, 30.0, 2.0**-6, 3, agents=5, colluders=1),
    Laplace(1.0, 15.0),
)
FIGURES = ("rho", "xi", "curve", "mu_squared", "kappa")


def of(*events: Event) -> Totals:
    return Totals.of([(event, 1) for event in events], "proven")


@pytest.mark.parametrize("seed", range(20))
def test_totals_of_parts_are_those_of_all_their_events(seed: int) -> None:
    draw = random.Random(seed)
    parts = [draw.choices(EVENTS[: draw.choice((2, 4, 5))], k=draw.randrange(4)) for _ in range(3)]
    whole, sum_ = of(*(event for part in parts for event in part)), added([of(*part) for part in parts])
    most = largest([of(*part) for part in parts])
    for name in FIGURES:
        np.testing.assert_allclose(getattr(sum_, name), getattr(whole, name), rtol=1e-12)
        expected = np.max([getattr(of(*part), name) for part in parts], axis=0)
        np.testing.assert_array_equal(getattr(most, name), expected)
    assert sum_.colluders == whole.colluders
    for alone in (False, True):
        one, other = (Contract.reading(1e-5).spent(totals, alone=alone) for totals in (sum_, whole))
        assert (one is None and other is None) or one == pytest.approx(other, rel=1e-9)


def test_published_costs_add_up_unless_one_has_none() -> None:
    one, two = Totals.of([(Gaussian(1.0, 9.0), 1)], "published"), Totals.of([(Gaussian(1.0, 4.0), 2)], "published")
    assert added([one, two]).rho_published == pytest.approx((one.rho_published or 0.0) + (two.rho_published or 0.0))
    assert added([one, of(Gaussian(1.0, 4.0)), two]).rho_published is None


def test_an_event_that_is_alone_keeps_its_reading() -> None:
    event = SubsampledGaussian(2.0, 0.1, 20, "poisson")
    for join in (added, largest):
        assert join([of(), of(event)]).epsilon_proven(1e-5) == of(event).epsilon_proven(1e-5)
    assert added([of(event), of(event)]).epsilon_proven(1e-5) > of(event).epsilon_proven(1e-5)
    assert added([]).epsilon_proven(1e-5) == 0.0


def two_forms(place: Place) -> list[str]:
    """Accounts of the same records as an npz and as a csv, of deltas 1e-4 and 1e-3."""
    place.run("npz")
    with np.load(place.data) as data:
        table = np.column_stack([data["X"], data["y"]])
    csv = place.folder / "people.csv"
    np.savetxt(csv, table, delimiter=",", header="a,b,c,d,label", comments="")
    form: dict[str, Any] = {"data": str(csv), "label": "label", "simulate": True, "topology": "path:3"}
    form |= {"rounds": 3, "algorithm": "noisy-gd", "delta": 1e-3}
    with pytest.raises(RequestError) as refused:
        run(RunConfig(account=str(place.account), out=str(place.folder / "csv"), **form))
    words = str(refused.value)
    assert "if these are the same records in another form, give them as they were" in words
    assert "it starts from zero, but costs of the same records in both add up" in words
    other = place.folder / "other"
    run(RunConfig(account=str(other), out=str(place.folder / "csv"), **form))
    return [str(place.account), str(other)]


def test_folders_are_shown_by_themselves_and_together(place: Place, admmnet: Admmnet) -> None:
    folders = two_forms(place)
    books = [[audit.read(Path(folder) / f"agent-00{i}.jsonl", account=True) for folder in folders] for i in range(3)]
    found = admmnet.json("account", "show", *folders)
    assert list(found["folders"]) == folders
    assert [len(entries) for entries in found["folders"].values()] == [3, 3]
    for own, line in zip(books, found["together"], strict=True):
        whole = of(*(event for book in own for _, event, _ in book.events))
        assert line["delta"] == 1e-3
        assert line["total"]["epsilon_spent"] == pytest.approx(whole.epsilon_proven(1e-3), rel=1e-9)
        assert line["total"]["epsilon_spent"] > max(book.totals.epsilon_proven(1e-3) for book in own)
    shown = admmnet.ok("account", "show", *folders).out
    assert all(f"{folder}:" in shown for folder in folders)
    assert "together: if an agent's records are the same in all folders; at the largest delta" in shown
    last = [line.split() for line in shown.splitlines() if line.split()[:1] in (["0"], ["1"], ["2"])][-3:]
    for row, line in zip(last, found["together"], strict=True):
        assert row[2] == format.epsilon(line["total"]["epsilon_spent"])
        assert float(row[2]) >= line["total"]["epsilon_spent"] * (1.0 - 1e-8)
    assert admmnet.json("account", "show", folders[0]) == found["folders"][folders[0]]


def test_folders_that_do_not_add_up_are_refused(place: Place, admmnet: Admmnet) -> None:
    """Other agents, another relation, another mode, one folder twice, and runs to be held against several."""
    place.run("first")
    usual: dict[str, Any] = {"data": place.data, "rounds": 2, "delta": 1e-4}
    others: dict[str, dict[str, Any]] = {
        "agents": {"topology": "path:4", "algorithm": "pp-admm", "simulate": True},
        "relation": {"algorithm": "dp-sgd", "simulate": True},
        "mode": {"topology": "path:3", "algorithm": "pp-admm", "private": True, "no_test": True},
    }
    for name, settings in others.items():
        own = {key: value for key, value in usual.items() if key != "rounds" or name != "relation"}
        folder = place.folder / name
        run(RunConfig(account=str(folder), out=str(place.folder / f"run-{name}"), **own, **settings))
    for words, message in (
        (["agents"], r"agents '0, 1, 2' there, '0, 1, 2, 3' here; show each by itself"),
        (["mode"], "mode 'simulation' there, 'private' here"),
        (["account"], "is named twice"),
        (["./account"], "is named twice"),
        (["nothing"], "nothing holds no account"),
        (["agents", "--against", "first"], "agents is no run folder"),
    ):
        places = [word if word.startswith("--") else f"{place.folder}/{word}" for word in words]
        assert message in admmnet.refused("account", "show", place.account, *places)
    single = place.folder / "single"
    run(RunConfig(algorithm="banco", account=str(single), out=str(place.folder / "run-single"), simulate=True,
                  data=place.data, delta=1e-4))  # fmt: skip
    for one, other in ((single, place.folder / "relation"), (place.folder / "relation", single)):
        kinds = [audit.read(folder / "agent-000.jsonl", account=True).header["adjacency"] for folder in (one, other)]
        assert kinds[0] != kinds[1]
        assert f"relation '{kinds[0]}' there, '{kinds[1]}' here" in admmnet.refused("account", "show", one, other)


def test_runs_are_held_against_one_folder_as_before(place: Place, admmnet: Admmnet) -> None:
    runs = [str(place.run(name, epsilon=epsilon).folder) for name, epsilon in (("one", 1.0), ("two", 2.0))]
    for words in (["--against", *runs], ["--against", runs[0], "--against", runs[1]]):
        admmnet.ok("account", "show", place.account, *words)
    place.file(1).write_bytes(b"".join(place.file(1).read_bytes().splitlines(keepends=True)[:-1]))
    assert "lacks charges" in admmnet.refused("account", "show", place.account, "--against", *runs, code=1)
