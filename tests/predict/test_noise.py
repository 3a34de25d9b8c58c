"""The stated noise of coefficients against its spread over seeds, on the same records.

Two thirds of the features never occur: their coefficients are noise alone, and of those the stated standard deviation
is exact, or so to first order. So it is tested on both sides. With 10 seeds and 24 such features the variance has 216
degrees of freedom and a relative standard deviation of 0.096: a quotient beyond 1 +- 0.3 is 3.1 deviations off, a false
alarm in 1 of 500 a case, while 0.7 or 1.3 times the noise gives 0.49 and 1.69. Other features are told to have no
more. Seeds are fixed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

from admmnet import RunConfig, run
from admmnet.holder import SimulatedHolder
from admmnet.holder.problem import SINGLE_SITE_LOSSES
from admmnet.holder.series.coordinate import DualSteps
from admmnet.holder.series.simulation import run_series
from admmnet.methods.base import AgentPlan, Facts
from admmnet.methods.ssp import SSP
from admmnet.predict.model import Model, read_model
from admmnet.predict.noise import descent_response, noise_of
from admmnet.types import Integers, Matrix, Total, Vector

WIDTH, OCCUR, SEEDS, MARGIN = 36, 12, 10, 0.3
LABELS: dict[str, dict[str, Any]] = {"binary": {}, "classes": {"labels": ["a", "b", "c"]}, "real": {"targets": [-1, 1]}}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder, stream = tmp_path_factory.mktemp("files"), np.random.default_rng(11)
    X = np.zeros((1000, WIDTH))
    X[:, :OCCUR] = stream.standard_normal((1000, OCCUR))
    score = X[:, 0] - X[:, 1] + 0.4 * stream.standard_normal(1000)
    labels = {
        "binary": np.where(score > 0.0, 1, -1),
        "classes": np.array(["a", "b", "c"])[np.digitize(score, [-0.7, 0.7])],
        "real": np.clip(score / 4.0, -1.0, 1.0),
    }
    for name, y in labels.items():
        np.savez(folder / f"{name}.npz", X=X, y=y)
    return {name: str(folder / f"{name}.npz") for name in labels}


def made(files: dict[str, str], folder: Path, seed: int, task: str = "binary", **settings: Any) -> Model:
    network: dict[str, Any] = {"topology": "ring:5"}
    if settings["algorithm"] in ("dp-sgd", "dp-scd", "song-sgd", "seq-dp-scd", "banco", "sdca"):
        network = {}
    if settings["algorithm"] in ("noisy-gd", "pp-admm"):
        network |= {"whiten": "off"}  # whose matrix differs from seed to seed
    given = {"data": files[task], "schema": {"features": WIDTH, **LABELS[task]}, "epsilon": 3.0, "delta": 1e-4}
    run(RunConfig(**(network | given | settings), seed=seed, test_fraction=0.1, out=str(folder)))
    return read_model(folder)


CASES: list[dict[str, Any]] = [
    {"algorithm": "noisy-gd"},
    {"algorithm": "noisy-gd", "task": "classes"},
    {"algorithm": "noisy-gd", "task": "real", "regularisation": 0.01},
    {"algorithm": "noisy-gd", "trust": "masked", "colluders": 1, "rounds": 20},
    {"algorithm": "ssp", "epsilon": 15.0},
    {"algorithm": "ssp", "task": "classes", "epsilon": 15.0},
    {"algorithm": "ssp", "task": "real", "trust": "masked", "colluders": 1, "epsilon": 15.0},
    {"algorithm": "pp-admm", "rounds": 12},
    {"algorithm": "pp-admm", "rounds": 12, "release": "output"},
    {"algorithm": "ipp-admm", "rounds": 12},
    {"algorithm": "dvp"},
    {"algorithm": "m-admm"},
    {"algorithm": "r-admm"},
    {"algorithm": "r-admm-gaussian", "rounds": 6},
    {"algorithm": "dp-sgd", "epochs": 4},
    {"algorithm": "dp-sgd", "epochs": 4, "sampling": "fixed"},
    {"algorithm": "dvp", "method": "published"},
    {"algorithm": "dp-scd", "epochs": 4},
    {"algorithm": "song-sgd"},
]
BATCHES = ("dp-scd",)
"""Methods whose batches, drawn at random, move their models more than the noise does here: the last test fixes them."""


@pytest.mark.parametrize("case", CASES, ids=lambda case: " ".join(map(str, case.values())))
def test_the_spread_over_seeds_is_what_is_stated(case: dict[str, Any], files: dict[str, str], tmp_path: Path) -> None:
    models = [made(files, tmp_path / f"{seed}", seed, **case) for seed in range(SEEDS)]
    stated = noise_of(models[0])
    assert stated.deviation is not None, stated.reason
    spread: Matrix = np.var([model.consensus for model in models], axis=0, ddof=1)
    quotient = np.atleast_2d(spread / stated.deviation**2)
    assert abs(quotient[:, OCCUR:WIDTH].mean() - 1.0) < MARGIN
    if case["algorithm"] not in BATCHES:
        assert quotient[:, :OCCUR].mean() < 1.0 + MARGIN  # features that occur
    own = noise_of(models[0], 0).deviation
    assert own is not None
    assert (own == stated.deviation).all()  # all agents hold the average


@pytest.mark.parametrize("answer", ["last", "tail"])
def test_an_agent_s_own_vector_has_no_more_than_is_stated(answer: str, files: dict[str, str], tmp_path: Path) -> None:
    settings: dict[str, Any] = {"algorithm": "pp-admm", "rounds": 12, "answer": answer}
    models = [made(files, tmp_path / f"{seed}", seed, **settings) for seed in range(SEEDS)]
    for agent in (None, 3):
        stated = noise_of(models[0], agent).deviation
        assert stated is not None
        spread = np.var([model.vector(agent) for model in models], axis=0, ddof=1)[OCCUR:WIDTH]
        quotient = (spread / stated[OCCUR:WIDTH] ** 2).mean()
        assert 0.05 < quotient < 1.0 + MARGIN
    one, mean = noise_of(models[0], 3).deviation, noise_of(models[0]).deviation
    assert one is not None
    assert mean is not None
    assert (one > mean).all()


@pytest.mark.parametrize(
    "others",
    [{"topology": "star:6", "split": "zipf:1"}, {"method": "published"}],
    ids=["unequal agents of a star", "published, whose regulariser makes noise fade"],
)
def test_where_it_is_a_bound_it_covers(others: dict[str, Any], files: dict[str, str], tmp_path: Path) -> None:
    settings: dict[str, Any] = {"algorithm": "pp-admm", "rounds": 12, **others}
    models = [made(files, tmp_path / f"{seed}", seed, **settings) for seed in range(SEEDS)]
    stated = noise_of(models[0]).deviation
    assert stated is not None
    spread = np.var([model.consensus for model in models], axis=0, ddof=1)[OCCUR:WIDTH]
    assert 0.3 < (spread / stated[OCCUR:WIDTH] ** 2).mean() < 1.0 + MARGIN


@pytest.mark.parametrize("clip", [0.0009, 0.09])
def test_dual_steps_on_fixed_batches(clip: float, tmp_path: Path) -> None:
    """150 seeds of the noise, of 20 numbers that occur: a relative standard deviation of 0.026."""
    stream, weight, batch, steps = np.random.default_rng(0), 1e-4, 90, 40
    X = stream.standard_normal((900, 20))
    X /= np.linalg.norm(X, axis=1)[:, None]
    problem = SimulatedHolder(X, np.sign(X[:, 0] - X[:, 1])).problem(SINGLE_SITE_LOSSES["logistic"], weight)
    series = DualSteps(weight, batch, clip, 2.0, steps)
    runs = (run_series(series, problem, np.random.default_rng(1), np.random.default_rng(100 + k)) for k in range(150))
    spread = np.var([series.model(progress) for progress in runs], axis=0, ddof=1)
    stated = steps * (2.0 * clip / (weight * len(X))) ** 2  # (106)
    assert 0.05 < (spread / stated).mean() < 1.0 + 0.11


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"algorithm": "pp-admm", "rounds": 6, "drop": 0.2}, "messages were lost"),
    ({"algorithm": "pp-admm", "rounds": 6, "offline": "1:2-3"}, "agents were away"),
    ({"algorithm": "ipp-admm", "method": "published"}, "a gate chose the speakers of every round"),
    ({"algorithm": "ipp-admm", "gate": "gaussian", "rounds": 6}, "a gate chose the speakers of every round"),
    ({"algorithm": "seq-dp-scd", "epochs": 1}, "comes back through the records"),
    ({"algorithm": "dp-scd", "epochs": 1, "dual_noise": True}, "comes back through the records"),
    ({"algorithm": "banco"}, "as long as the noise so far"),
]


@pytest.mark.parametrize(("case", "reason"), REFUSED, ids=lambda part: str(part)[:50])
def test_where_no_bound_is_known_it_says_so(
    case: dict[str, Any], reason: str, files: dict[str, str], tmp_path: Path
) -> None:
    pytest.importorskip("numba") if case["algorithm"] == "seq-dp-scd" else None
    found = noise_of(made(files, tmp_path / "run", 0, **case))
    assert found.deviation is None
    assert reason in found.reason


@pytest.mark.parametrize("algorithm", ["admm", "sgd"])
def test_a_method_without_privacy_adds_none(algorithm: str, files: dict[str, str], tmp_path: Path) -> None:
    out = tmp_path / "run"
    run(RunConfig(algorithm=algorithm, data=files["binary"], schema={"features": WIDTH}, seed=0, out=str(out)))
    found = noise_of(read_model(out))
    assert found.deviation is not None
    assert not found.deviation.any()


def test_the_response_of_the_descent_is_that_of_its_steps() -> None:
    """Against the recursion of eq. (74) itself, one kick at a time."""
    steps, contraction = 17, np.array([0.0, 0.03, 0.4, 1.0])
    for kicked in range(steps):
        theta = point = np.zeros(len(contraction))
        for t in range(steps):
            after = point - contraction * point + (1.0 if t == kicked else 0.0)
            theta, point = after, after + t / (t + 3.0) * (after - theta)
        np.testing.assert_allclose(descent_response(steps, contraction)[kicked], theta, rtol=1e-12, atol=1e-14)


def test_the_first_order_of_a_ridge_solution_is_its_jacobian() -> None:
    """Eq. (105) against differences of the solution itself, one released number at a time."""
    width, classes = 4, 3
    graph = nx.cycle_graph(3)
    facts = Facts(graph, dict.fromkeys(graph, 50), width, dict.fromkeys(graph, 0.5), "classes", classes)
    method = SSP(SSP.fixed(SSP.Settings(algorithm="ssp", delta=1e-4)), facts)
    stream = np.random.default_rng(4)
    size = classes * width + width * (width + 1) // 2
    value = np.rint(20.0 * stream.standard_normal(size) / method.grid).astype(np.int64)
    agent = method.agent(0, AgentPlan())

    def solved(numbers: Integers) -> Vector:
        method.receive(agent, None, Total(numbers, tuple(sorted(graph))))
        return method.model(agent)

    move = 2.0**-12
    steps = np.eye(size, dtype=np.int64) * round(move / method.grid)
    slopes = [(solved(value + step) - solved(value - step)) / (2.0 * move) for step in steps]
    sigma = 2.0 * np.sqrt(sum(1.0 / (2.0 * rho) for rho in facts.nominal.values()))
    solved(value)
    found = method.deviation()
    assert found is not None
    np.testing.assert_allclose(found, sigma * np.linalg.norm(slopes, axis=0), rtol=1e-5)
