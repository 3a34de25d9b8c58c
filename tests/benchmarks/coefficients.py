"""The stated noise of coefficients over its spread, docs/algorithms.md sec. 10.

    python -m tests.benchmarks.coefficients [SEEDS] [NAME ...]

Every method runs with many noise seeds on the same 900 records of 10 features that occur and 10 that never do; census
takes the names ``census-METHOD``. Quotients of root mean squares: 1 is exact, more is a bound.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from admmnet import RunConfig, run
from admmnet.predict.model import Model, read_model
from admmnet.predict.noise import noise_of

from .common import row

SCHEMAS: dict[str, dict[str, Any]] = {
    "binary": {"features": 20},
    "classes": {"features": 20, "labels": ["a", "b", "c"]},
    "real": {"features": 20, "targets": [-1, 1]},
}
RING: dict[str, Any] = {"topology": "ring:5"}
MASKED: dict[str, Any] = {"trust": "masked", "colluders": 1}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    **{f"{name} {task}": (task, {"algorithm": name, **RING}) for name in ("noisy-gd", "ssp") for task in SCHEMAS},
    **{f"{name} masked": ("binary", {"algorithm": name, **MASKED, **RING}) for name in ("noisy-gd", "ssp")},
    **{
        name: ("binary", {"algorithm": name, **RING})
        for name in ("pp-admm", "ipp-admm", "dvp", "m-admm", "r-admm", "r-admm-gaussian")
    },
    **{
        f"{name} published": ("binary", {"algorithm": name, "method": "published", **RING})
        for name in ("pp-admm", "dvp", "m-admm", "r-admm")
    },
    "pp-admm output": ("binary", {"algorithm": "pp-admm", "release": "output", **RING}),
    **{
        f"pp-admm {answer}": ("binary", {"algorithm": "pp-admm", "answer": answer, **RING})
        for answer in ("last", "tail", "gossip")
    },
    **{f"pp-admm {spec}": ("binary", {"algorithm": "pp-admm", "topology": spec}) for spec in ("star:6", "path:6")},
    "pp-admm zipf": ("binary", {"algorithm": "pp-admm", "split": "zipf:1", **RING}),
    **{name: ("binary", {"algorithm": name}) for name in ("dp-sgd", "dp-scd", "song-sgd")},
    "dp-sgd real": ("real", {"algorithm": "dp-sgd"}),
    "dp-sgd hinge": ("binary", {"algorithm": "dp-sgd", "loss": "hinge"}),
}


def records(folder: Path) -> None:
    """Write the files of all tasks."""
    stream = np.random.default_rng(0)
    X = np.zeros((1000, 20))
    X[:, :10] = stream.standard_normal((1000, 10))
    score = X[:, 0] - X[:, 1] + 0.5 * X[:, 2] + 0.5 * stream.standard_normal(1000)
    y = {
        "binary": np.where(score > 0.0, 1, -1),
        "classes": np.array(["a", "b", "c"])[np.digitize(score, [-0.7, 0.7])],
        "real": np.clip(score / 4.0, -1.0, 1.0),
    }
    for task, labels in y.items():
        np.savez(folder / f"{task}.npz", X=X, y=labels)


def settings(name: str, folder: Path) -> dict[str, Any]:
    """Settings of a case."""
    if name.startswith("census-"):
        return {"algorithm": name.removeprefix("census-")}  # random graphs, by the seed
    task, own = CASES[name]
    data = {"data": str(folder / f"{task}.npz"), "schema": SCHEMAS[task], "test_fraction": 0.1}
    return {**data, "epsilon": 3.0, "delta": 1e-4, **own}


def quotients(models: list[Model], agent: int | None) -> list[float]:
    """Stated over measured: of features that never occur (census: all), and of those that do."""
    stated = noise_of(models[0], agent).deviation
    assert stated is not None
    spread = np.std([model.vector(agent) for model in models], axis=0, ddof=1)
    parts = (slice(10, 20), slice(0, 10)) if spread.shape[-1] == 21 else (slice(None),)
    pairs = [(np.atleast_2d(stated)[:, part], np.atleast_2d(spread)[:, part]) for part in parts]
    return [float(np.sqrt(np.mean(one**2) / np.mean(other**2))) for one, other in pairs]


def main(seeds: int, names: list[str]) -> None:
    """Print a row a case."""
    print(row("case", "never occur", "occur", "agent 0", "occur"))
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        records(folder)
        for name in names or CASES:
            models = []
            for seed in range(seeds):
                out = folder / name.replace(":", "-") / str(seed)
                run(RunConfig(**settings(name, folder), seed=seed, out=str(out)))
                models.append(read_model(out))
            found = [*quotients(models, None), *quotients(models, 0)]
            print(row(name, *(f"{value:.2f}" for value in found)), flush=True)


if __name__ == "__main__":
    given = sys.argv[1:]
    main(int(given[0]) if given else 200, given[1:])
