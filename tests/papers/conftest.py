"""Every paper at a scale that runs everything and shows nothing, on tiny problems; finished folders shared by all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from admmnet.papers import Reproduced, Request, banco, damaskinos2021, ding2020, reproduce, song2013
from admmnet.papers.sources import DataSource, first_found, made, surveyed

Made = Callable[[str], Reproduced]
RIDGES = (0.5, 2.0)
SCALES: dict[Any, dict[str, Any]] = {
    ding2020: {
        "seeds_effects": 2, "seeds": 2, "seeds_others": 1, "trials": 1, "epsilons_effects": (10.0,),
        "epsilons": (1.0,), "epsilons_curves": (1.0,), "epsilons_others": (10.0,),
        "values": {1: (0.001, 0.9), 2: (10.0**-3.5, 1e-1), 3: (2.0, 10.0), 4: (1e-3, 10.0)},
        "rounds": 3, "etas": (0.5,), "etas_others": (0.5,),
        "rounds_tuned": (3,), "rounds_ours": {True: (2,), False: (2,)},
    },
    damaskinos2021: {
        "seeds": 1, "seeds_ridge": 2, "trials": 1, "epsilons": RIDGES, "epsilons_ridge": RIDGES,
        "ridge": 600, "draws": (7, 8), "clips": 2, "rates": 1,
        "batches": dict.fromkeys(("ridge", "logistic", "svm"), (50,)), "large": (),
        "seeds_figure3": 1, "batches_figure3": (20, 100), "reaches_figure3": (0.01, 0.1),
    },
    song2013: {"seeds": 3, "batches": (1, 5, 10, 50), "sphere": 600, "points": 40},
    banco: {
        "seeds": 2, "seeds_real": 2, "steps": 400, "steps_real": 400, "norms": (1.0, 8.0),
        "epsilons": (4.0,), "rates": (0.01, 0.1), "test": 500,
    },
}  # fmt: skip


def tiny(stands_for: str, records: int = 500, features: int = 4, norm: float = 6.0) -> DataSource:
    title = f"tiny problem for {stands_for}"
    source = made(title, "logistic", records=records, features=features, test=200, norm=norm)
    return surveyed(replace(source, stands_for=stands_for))


def ridges() -> list[DataSource]:
    sources = [made(f"ridge, draw {draw}", "ridge", records=600, test=120, draw=draw) for draw in (7, 8)]
    return [first_found(replace(source, stands_for="YearPredictionMSD")) for source in sources]


SOURCES: dict[str, Callable[..., Any]] = {
    "ding2020._sources": lambda request: (tiny("Adult"), (tiny("Brazil", 400),)),
    "damaskinos2021._sources": lambda scale, request: (ridges(), tiny("Phishing", 600), tiny("Adult", 600)),
    **dict.fromkeys(
        ("song2013.song_sources", "banco.song_sources"),
        lambda folder: [tiny("MNIST", 600, 15, 8.0), tiny("KDDCup99", 600, 9, 8.0)],
    ),
}


@pytest.fixture(scope="session")
def small() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for module, scale in SCALES.items():
            patch.setattr(module, "SCALES", dict.fromkeys(("full", "quick"), scale))
        patch.setattr(damaskinos2021, "EPOCHS", {"ridge": 4, "logistic": 2, "svm": 2})
        for name, sources in SOURCES.items():
            patch.setattr(f"admmnet.papers.{name}", sources)
        yield


@pytest.fixture(scope="session")
def finished(small: None, tmp_path_factory: pytest.TempPathFactory) -> Made:
    """The finished folder of a paper; tests leave it as it is."""

    @cache
    def find(paper: str) -> Reproduced:
        return reproduce(Request(paper, str(tmp_path_factory.mktemp(paper) / "out")), jobs=1)

    return find
