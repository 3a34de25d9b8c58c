"""What people write: every form is read, everything else is refused with the value and the remedy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from admmnet.errors import RequestError
from admmnet.experiments.grid import Comparison, Grid
from admmnet.experiments.parsing import Entry, parse_entries, parse_entry, parse_epsilons, parse_seeds, parse_tune


@pytest.mark.parametrize(
    ("text", "entry"),
    [
        ("admm", Entry("admm", "published", "published")),
        ("pp-admm", Entry("pp-admm", "proven", "proven")),
        ("pp-admm:proven:proven", Entry("pp-admm", "proven", "proven")),
        ("ipp-admm:published", Entry("ipp-admm", "published", "published")),
        ("ipp-admm:published:proven", Entry("ipp-admm", "published", "proven")),
    ],
)
def test_entries_are_read_and_written(text: str, entry: Entry) -> None:
    assert parse_entry(text) == entry
    assert parse_entry(entry.text) == entry
    assert len(entry.text) <= len(text)


def test_seeds_and_epsilons() -> None:
    assert [parse_seeds(text) for text in ("0:4", "3:4", "0, 3,5")] == [(0, 1, 2, 3), (3,), (0, 3, 5)]
    assert parse_epsilons("0.5,1, 1e1") == (0.5, 1.0, 10.0)


@pytest.mark.parametrize(
    ("parse", "flag", "texts"),
    [
        (parse_entry, "--algorithms", ["", "sgdm", "pp-admm:", "pp-admm:exact", "pp-admm:proven:proven:proven"]),
        (parse_entry, "--algorithms", ["PP-ADMM", "admm:proven"]),
        (parse_seeds, "--seeds", ["", "4:4", "5:3", "0:1:2", "a", "1.5", "-1:3", "-1", "0,,1", "0:999999999"]),
        (parse_entries, "pp-admm twice", [("pp-admm", "admm", "pp-admm:proven")]),
        (parse_entries, "no method", [()]),
    ],
)
def test_other_words_are_refused(parse: Callable[[Any], object], flag: str, texts: list[Any]) -> None:
    for text in texts:
        with pytest.raises(RequestError, match=flag):
            parse(text)


def test_tuned_settings_make_a_grid_with_own_values_over_common_ones() -> None:
    entries = parse_entries(["pp-admm", "ipp-admm", "ipp-admm:published"])
    tried = parse_tune(["eta=0.1:auto, rounds=2:3", "ipp-admm.eta=7", "ipp-admm:published.rounds=9"], entries, {})
    assert tried[entries[0]] == (
        (("eta", 0.1), ("rounds", 2)),
        (("eta", 0.1), ("rounds", 3)),
        (("eta", "auto"), ("rounds", 2)),
        (("eta", "auto"), ("rounds", 3)),
    )
    assert tried[entries[1]] == ((("eta", 7.0), ("rounds", 2)), (("eta", 7.0), ("rounds", 3)))
    assert tried[entries[2]] == ((("eta", 7.0), ("rounds", 9)),)
    assert parse_tune([], entries, {}) == dict.fromkeys(entries, ((),))


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("eta", "eta"),
        ("eta=", "eta"),
        ("eta=a:b", "eta"),
        ("rounds=1.5:2", "rounds"),
        ("epsilon=1:2", "settings:"),
        ("delta=1e-5:1e-4", "settings:"),
        ("seed=1:2", "settings:"),
        ("data=a:b", "settings:"),
        ("loss=logistic:huber", "settings:"),
        ("eta=1:1", "twice"),
        ("eta=1:2,eta=3", "twice"),
        ("dvp.eta=1:2", "not compared"),
        ("pp-admm:published.eta=1:2", "not compared"),
        ("rounds=2:3", "leave one of them out"),
    ],
)
def test_other_tuning_is_refused(text: str, what: str) -> None:
    entries = parse_entries(["pp-admm"])
    with pytest.raises(RequestError, match=what):
        parse_tune([text], entries, {"rounds": 5})


def grid(**others: Any) -> Grid:
    values: dict[str, Any] = {"algorithms": ("admm", "pp-admm"), "epsilons": (2.0, 1.0), "seeds": (4, 2)}
    return Grid(Comparison(**(values | {"out": "somewhere"} | others)))


def test_a_grid_has_a_cell_for_each_combination_and_admm_one_a_seed() -> None:
    made = grid()
    cells = [cell for case in made.cases() for cell in made.runs(case, ())]
    assert [made.folder(cell) for cell in cells] == [
        *("runs/admm-2", "runs/admm-4"),
        *("runs/pp-admm-proven-proven-1-2", "runs/pp-admm-proven-proven-1-4"),
        *("runs/pp-admm-proven-proven-2-2", "runs/pp-admm-proven-proven-2-4"),
    ]
    configs = [made.config(cell) for cell in cells]
    assert [(config.algorithm, config.seed) for config in configs[:2]] == [("admm", 2), ("admm", 4)]
    assert [(config.epsilon, config.seed) for config in configs[2:]] == [(1, 2), (1, 4), (2, 2), (2, 4)]
    assert {config.data_seed for config in configs} == {0}


def test_resplit_ties_the_split_to_the_seed() -> None:
    made = grid(resplit=True)
    pairs = [(c.seed, made.config(c).data_seed) for case in made.cases() for c in made.runs(case, ())]
    assert sorted(set(pairs)) == [(2, 2), (4, 4)]
    assert len(pairs) == 6


@pytest.mark.parametrize(
    ("others", "what"),
    [
        ({"epsilons": (1.0, 1.0)}, "--epsilons names 1 twice"),
        ({"seeds": (3, 3)}, "--seeds names 3 twice"),
        ({"seeds": ()}, "--seeds names nothing"),
        ({"algorithms": ("pp-admm",), "epsilons": (-2.0,)}, "pp-admm at epsilon -2: epsilon = -2.0 is not allowed"),
        ({"settings": {"epsilon": 3.0}}, "--epsilons"),
        ({"settings": {"method": "proven"}}, "pp-admm:published"),
        ({"settings": {"account": "x"}}, "simulation"),
        ({"settings": {"out": "x"}}, "-o"),
        ({"settings": {"transport": "mpi"}}, "simulated in one process"),
        ({"settings": {"budgets": {"1": {"epsilon": 2.0}}}}, "every agent"),
        ({"settings": {"gate": "gaussian"}}, "admm: gate = 'gaussian' does not go with"),
        ({"settings": {"rounds": 0}}, "rounds = 0 is not allowed"),
        ({"settings": {"data_seed": 1}, "resplit": True}, "exclude each other"),
        ({"tune_seeds": 0}, "--tune-seeds 0"),
        ({"seeds": (1_000_000,), "tune": ("eta=1:2",)}, "are the trials'"),
        ({"algorithms": ("ipp-admm",), "tune": ("gate_share=0.5:2",)}, "gate_share = 2.0 is not allowed"),
        (
            {"algorithms": ("ipp-admm",), "tune": ("max_releases=8:9",), "settings": {"rounds": 5, "gate": "gaussian"}},
            "with max_releases=8: max_releases = 8 is not allowed",
        ),
    ],
)
def test_wrong_grids_are_refused(others: dict[str, Any], what: str) -> None:
    with pytest.raises(RequestError, match=what):
        grid(**others)


def test_what_is_allowed_beside_it() -> None:
    assert grid(settings={"transport": "local"}).sample.transport == "auto"  # as `admmnet run` has it
    assert grid(seeds=(1_000_000,)).seeds == (1_000_000,)
    assert not grid(tune=("eta=2",)).tuned(Entry("pp-admm", "proven", "proven"))
