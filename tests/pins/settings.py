"""The pinned settings: each method, with what its numbers depend on, so that a changed default moves no pin."""

from __future__ import annotations

from typing import Any

COMMON: dict[str, Any] = {"data": "census", "data_seed": 0, "loss": "logistic", "transport": "local", "seed": 7}
COMMON |= {"kernel": "numpy", "epsilon": 5.0, "delta": 1e-4, "test_fraction": 0.98}  # leaves 977 records for training
NETWORK = COMMON | {"topology": "ring:4", "split": "iid", "rounds": 6, "answer": "last", "block": 1}


def _network(algorithm: str, method: str = "proven", **values: Any) -> dict[str, Any]:
    own = {"algorithm": algorithm, "method": method}
    own |= {"release": "objective"} if algorithm in ("pp-admm", "ipp-admm") and method == "proven" else {}
    return NETWORK | own | values


def _baseline(algorithm: str, method: str = "proven", **values: Any) -> dict[str, Any]:
    passes = {} if algorithm in ("song-sgd", "banco") else {"epochs": 2}  # those make one pass
    return COMMON | passes | {"algorithm": algorithm, "method": method} | values


MANY: dict[str, Any] = {"topology": "torus:5x8", "block": 8}
"""40 agents of 24 or 25 records, solved together by eights."""
THRESHOLD: dict[str, Any] = {"gate": "above-threshold", "epsilon": 50.0, "max_releases": 4}
SETTINGS: dict[str, dict[str, Any]] = {
    "admm": _network("admm", "published"),
    "pp-admm": _network("pp-admm"),
    "pp-admm published": _network("pp-admm", "published"),
    "smoothed-hinge": _network("pp-admm", loss="smoothed-hinge"),
    "gate above-threshold": _network("ipp-admm", **THRESHOLD),
    "gate gaussian": _network("ipp-admm", gate="gaussian", epsilon=20.0),
    "gate joining": _network("ipp-admm", gate="joining", split="sizes:16:1:18:16", gate_threshold=0.2),
    **{f"{name} proven": _network(name) for name in ("dvp", "m-admm", "r-admm")},
    **{f"{name}-gaussian": _network(f"{name}-gaussian") for name in ("dvp", "m-admm", "r-admm")},
    "noisy-gd": _network("noisy-gd", step_size=4.0),
    "noisy-gd masked": _network("noisy-gd", trust="masked", colluders=1),
    "ssp": _network("ssp", loss="squared", rounds=1, ridge=0.75),
    "dp-dsgd": _network("dp-dsgd"),
    "lt-admm": _network("lt-admm", local_steps=2),
    "gamma by hand": _network("r-admm", gamma=0.4),
    "trouble r-admm": _network("r-admm", drop=0.3, offline="1:2-3"),
    "c1 blocks pp-admm": _network("pp-admm", kernel="c", **MANY),
    "sdca hinge": _baseline("sdca", "published", epochs=5, loss="hinge"),
    "dp-scd": _baseline("dp-scd", sampling="poisson", dual_noise=False),
    "seq-dp-scd": _baseline("seq-dp-scd"),
    "primal-dp-scd": _baseline("primal-dp-scd", "published"),
    "sgd batch": _baseline("sgd", "published", batch=20, loss="hinge"),
    "dp-sgd": _baseline("dp-sgd", sampling="poisson"),
    "song-sgd": _baseline("song-sgd", batch=10),
    "banco": _baseline("banco", noise="laplace"),
}
