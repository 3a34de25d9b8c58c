"""Every paper at a scale that runs everything and shows nothing, on tiny problems; finished folders shared by all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest

from admmnet.papers import Reproduced, reproduce
from admmnet.papers.damaskinos2021 import REACHES
from admmnet.papers.driver import Bench
from admmnet.papers.sources import DataSource

Made = Callable[[str], Reproduced]
NORMS: dict[str, Any] = {"norms": [1.0, 8.0], "epsilons": [4.0], "rates": [0.01, 0.1], "test": 500}
SMALL: dict[str, Any] = {
    "song2013": {"seeds": 3, "batches": [1, 5, 10, 50], "points": 40},
    "banco": {"seeds": 2, "steps": 400, "steps_real": 400, **NORMS},
}
COMPARED: dict[str, dict[str, Any]] = {
    "ding2020_effects": {"epsilons": [10.0], "seeds": "0:1"},
    "ding2020_methods": {"epsilons": [1.0], "seeds": "0:2", "tune_seeds": 1},
    "damaskinos2021_methods": {"epsilons": [0.5, 2.0], "seeds": "0:1", "tune_seeds": 1},
    "damaskinos2021_batches": {"seeds": "0:1"},
}
TUNE = {
    "own": ["eta=0.5,rounds=3", "pp-admm.noise_share=0.5:0.8,ipp-admm.noise_share=0.5:0.8"],
    "our": ["rounds=2"],
    "ridge": [
        *("dp-scd.batch=50,dp-scd.clip={clips},dp-scd.epochs=4", "seq-dp-scd.batch=50,seq-dp-scd.epochs=4"),
        *("dp-sgd.batch=50,dp-sgd.clip=0.1:0.3,dp-sgd.learning_rate=1.0,dp-sgd.epochs=4", "sdca.epochs=50"),
        "sgd.learning_rate=0.1:1.0,sgd.epochs=4",
        "sgd.learning_rate=1.0,sgd.batch=50,sgd.epochs=4",
    ],
}  # fmt: skip
TUNE |= {"logistic": [text.replace("0.1:0.3", "0.3:1.0") for text in TUNE["ridge"]], "svm": TUNE["ridge"]}


def tables(file: str, found: dict[str, Any], *variants: str) -> dict[str, Any]:
    """A grid file with few seeds, points and rounds."""
    if file in SMALL:
        return {**SMALL[file]}
    found["compare"] |= COMPARED[file] | ({"seeds": "0:1"} if variants else {})
    for table in (found, *found["place"]):
        if "rounds" in table.get("algorithm", {}):
            table["algorithm"]["rounds"] = 3
    for place in found["place"]:
        for word in ("epsilons", "seeds", "tune_seeds"):
            place.pop(word, None)
        place["vary"] = {name: [values[0], values[-1]] for name, values in place.get("vary", {}).items()}
        if file == "damaskinos2021_batches":
            place["vary"]["batch"] = [20, 100]
        if "tune" in place:
            place["tune"] = TUNE[place["name"].split()[0]]
    return found


def tiny(name: str, data_dir: str | None = None, **numbers: Any) -> DataSource:
    """A small problem for any set."""
    title = {"adult": "Adult", "brazil": "Brazil", "us": "US"}.get(name, name)
    records, features = (400 if name == "brazil" else 500), {"mnist": 15, "kddcup99": 9}.get(name, 4)
    if name in ("ridge", "year-prediction"):
        about: dict[str, Any] = {"records": 600, "test": 120, "draw": numbers.get("draw", 7)}
        return DataSource(f"tiny ridge {about['draw']}", tuple(about.items()), "ridge", stands_for="YearPredictionMSD")
    about = {"records": records, "features": features, "test": 200, "norm": numbers.get("norm", 6.0)}
    return DataSource(f"tiny problem for {title}", tuple(about.items()), "logistic", stands_for=title)


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Made]:
    """The finished folder of a paper; tests leave it as it is. All calls are small from then on."""
    whole = Bench.tables

    @cache
    def find(paper: str) -> Reproduced:
        return reproduce(paper, str(tmp_path_factory.mktemp(paper) / "out"), jobs=1)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            Bench, "tables", lambda bench, file, *variants: tables(file, whole(bench, file, *variants), *variants)
        )
        for paper in ("ding2020", "damaskinos2021", "song2013", "banco"):
            patch.setattr(f"admmnet.papers.{paper}.source", tiny)
        patch.setattr("admmnet.papers.damaskinos2021.REACHES", {name: some[:2] for name, some in REACHES.items()})
        yield find
