"""The pinned settings. Each says what it depends on, defaults included, so that a changed default moves no pin."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


def _targets() -> str:
    """240 records with real targets, from whole numbers alone: the same on every machine."""
    lines = ["a,b,c,y"]
    for k in range(240):
        a, b, c, noise = (k * factor % 101 / 100 for factor in (37, 59, 83, 71))
        lines.append(f"{a:.2f},{b:.2f},{c:.2f},{a - b / 2 - c / 4 + (noise - 0.5) / 4:.4f}")
    return "\n".join(lines) + "\n"


FILES = {"turns.txt": "0-1 edges 0-1 2-3\n2 edges 1-2\n3 edges 0-3\nrepeat 4\n", "targets.csv": _targets()}
"""Files that settings name, with what is in them."""
PLACES = (*FILES, "account")
"""Values that are a file or a folder of the test."""

COMMON: dict[str, Any] = {"data": "census", "data_seed": 0, "loss": "logistic", "transport": "local", "seed": 7}
COMMON |= {"kernel": "numpy", "epsilon": 5.0, "delta": 1e-4, "test_fraction": 0.98}  # leaves 977 records for training
NETWORK = COMMON | {"topology": "ring:4", "split": "iid", "rounds": 6, "answer": "last", "block": 1}


class Setting(NamedTuple):
    """One pinned run."""

    values: Mapping[str, Any]  # settings of `RunConfig`, flat
    before: Mapping[str, Any] | None = None  # of a run that comes first, on the same account
    interrupt: int | None = None  # rounds after which the run is interrupted; it is resumed then


def _network(algorithm: str, method: str = "proven", **values: Any) -> Setting:
    own = {"algorithm": algorithm, "method": method}
    if algorithm in ("pp-admm", "ipp-admm") and method == "proven":
        own |= {"release": "objective"} | ({"gate": "gaussian"} if algorithm == "ipp-admm" else {})
    return Setting(NETWORK | own | values)


def _baseline(algorithm: str, method: str = "proven", **values: Any) -> Setting:
    passes = {} if algorithm in ("song-sgd", "banco") else {"epochs": 2}  # those make one pass
    return Setting(COMMON | passes | {"algorithm": algorithm, "method": method} | values)


def _resumed(setting: Setting, after: int) -> Setting:
    return Setting(setting.values, interrupt=after)


MANY: dict[str, Any] = {"topology": "torus:5x8", "block": 8}
"""40 agents of 24 or 25 records, solved together by eights."""
TROUBLE: dict[str, Any] = {"drop": 0.3, "offline": "1:2-3"}
_NUMBER = {"kind": "numeric", "low": 0, "high": 1}
TARGETS: dict[str, Any] = {
    "data": "targets.csv",
    "test_fraction": 0.25,
    "schema": {"label": "y", "targets": [-1, 1], "columns": dict.fromkeys("abc", _NUMBER)},
}
ACCOUNT = _network("pp-admm", account="account", epsilon=2.0).values
FEW: dict[str, Any] = {"epsilon": 20.0, "max_releases": 3}
THRESHOLD: dict[str, Any] = {"gate": "above-threshold", "epsilon": 50.0, "max_releases": 4}
SETTINGS: dict[str, Setting] = {
    # methods and forms
    "admm": _network("admm", "published"),
    "pp-admm": _network("pp-admm"),
    "pp-admm published": _network("pp-admm", "published"),
    "pp-admm published, proven accountant": _network("pp-admm", "published", accountant="proven"),
    "ipp-admm published": _network("ipp-admm", "published", **FEW),
    "ipp-admm published, proven accountant": _network("ipp-admm", "published", accountant="proven", **FEW),
    **{
        f"{name} {form}": _network(name, form)
        for name in ("dvp", "m-admm", "r-admm")
        for form in ("proven", "published")
    },
    "noisy-gd": _network("noisy-gd", step_size=4.0),
    "noisy-gd rounds auto": _network("noisy-gd", loss="auto", rounds="auto", split="dirichlet:1"),
    "noisy-gd in trouble": _network("noisy-gd", **TROUBLE),
    "ssp": _network("ssp", loss="squared", rounds=1, ridge=0.75),
    "noisy-gd masked": _network("noisy-gd", trust="masked", colluders=1),
    "ssp masked": _network("ssp", loss="squared", rounds=1, ridge=0.75, trust="masked", colluders=2),
    # gates and releases
    "gate above-threshold": _network("ipp-admm", **THRESHOLD),
    "gate gaussian": _network("ipp-admm", gate="gaussian", epsilon=20.0),
    "gate gaussian, threshold by hand": _network(
        "ipp-admm", gate="gaussian", gate_threshold=0.01, gate_share=0.2, gate_radius=3.0, epsilon=20.0
    ),
    "gate off": _network("ipp-admm", gate="off"),
    "gate joining, equal sizes": _network("ipp-admm", gate="auto"),
    "gate joining": _network("ipp-admm", gate="joining", split="sizes:16:1:18:16", gate_threshold=0.2),
    "release output": _network("pp-admm", release="output"),
    "release output, gate gaussian": _network("ipp-admm", release="output", epsilon=20.0),
    # losses
    "smoothed-hinge": _network("pp-admm", loss="smoothed-hinge"),
    "smoothed-hinge r-admm, width by hand": _network("r-admm", loss="smoothed-hinge", loss_width=0.3),
    "huber": _network("ipp-admm", loss="huber"),
    "huber dvp, width by hand": _network("dvp", loss="huber", loss_width=0.4),
    "squared admm": _network("admm", "published", loss="squared"),
    # answers
    "answer tail": _network("pp-admm", answer="tail"),
    # agents solved together
    "blocks admm": _network("admm", "published", **MANY),
    "blocks pp-admm": _network("pp-admm", **MANY),
    "blocks ipp-admm": _network("ipp-admm", epsilon=20.0, **MANY),
    "blocks r-admm": _network("r-admm", **MANY),
    # simulated trouble
    "drop": _network("pp-admm", drop=0.3),
    "offline": _network("dvp", offline="3:1-2,0:4"),
    "schedule": _network("ipp-admm", topology_schedule="turns.txt", topology=None),
    "trouble r-admm": _network("r-admm", **TROUBLE),
    # interrupted and resumed
    "resumed": _resumed(_network("pp-admm"), 3),
    "resumed ipp-admm published": _resumed(_network("ipp-admm", "published", **FEW), 3),
    "resumed above-threshold": _resumed(_network("ipp-admm", **THRESHOLD), 5),
    "resumed trouble, tail": _resumed(_network("r-admm", answer="tail", **TROUBLE), 3),
    "resumed blocks": _resumed(_network("ipp-admm", epsilon=20.0, **MANY), 5),
    # budgets, shards, numbers given by hand
    "account": Setting({**ACCOUNT, "epsilon": 5.0}, before=ACCOUNT),
    "budgets": _network("pp-admm", budgets={"1": {"epsilon": 0.5}, "3": {"epsilon": 2.0, "delta": 1e-6}}),
    "dirichlet": _network("pp-admm", split="dirichlet:1", data_seed=3),
    "by-column": _network("ipp-admm", split="by-column:employer", topology="complete:3"),
    "eta and proximal by hand": _network(
        "pp-admm", eta=0.03, proximal=0.05, regularisation=1e-3, beta=1e-6, topology="star:4"
    ),
    "growth by hand": _network("m-admm", growth=1.1),
    "gamma by hand": _network("r-admm", gamma=0.4),
    "rounds auto": _network("pp-admm", rounds="auto"),
    "projected": _network("pp-admm", project=20, normalise="public", no_intercept=True),
    # the compiled kernel
    "c1 admm": _network("admm", "published", kernel="c"),
    "c1 smoothed-hinge": _network("pp-admm", loss="smoothed-hinge", kernel="c"),
    "c1 huber": _network("ipp-admm", loss="huber", kernel="c"),
    "c1 blocks pp-admm": _network("pp-admm", kernel="c", **MANY),
    "c1 resumed": _resumed(_network("r-admm", kernel="c"), 3),
    # baselines
    "sdca": _baseline("sdca", "published", epochs=20),
    "sdca hinge": _baseline("sdca", "published", epochs=5, loss="hinge"),
    "dp-scd": _baseline("dp-scd", sampling="poisson", dual_noise=False),
    "dp-scd published": _baseline("dp-scd", "published"),
    "dp-scd dual noise": _baseline("dp-scd", sampling="poisson", dual_noise=True),
    "dp-scd fixed": _baseline("dp-scd", sampling="fixed", dual_noise=False),
    "dp-scd shuffled, rdp": _baseline("dp-scd", sampling="shuffled", dual_noise=False, accounting="rdp"),
    "dp-scd squared": _baseline("dp-scd", loss="squared", accounting="rdp", **TARGETS),
    "seq-dp-scd": _baseline("seq-dp-scd"),
    "seq-dp-scd published": _baseline("seq-dp-scd", "published"),
    "primal-dp-scd": _baseline("primal-dp-scd", "published"),
    "sgd": _baseline("sgd", "published"),
    "sgd batch": _baseline("sgd", "published", batch=20, loss="hinge"),
    "dp-sgd": _baseline("dp-sgd", sampling="poisson"),
    "dp-sgd published": _baseline("dp-sgd", "published"),
    "song-sgd": _baseline("song-sgd", batch=10),
    "song-sgd published": _baseline("song-sgd", "published", batch=10, schedule="inverse"),
    "banco": _baseline("banco", noise="laplace"),
    "banco published": _baseline("banco", "published", noise="laplace", loss="hinge"),
    "banco gaussian": _baseline("banco", noise="gaussian"),
}
ELSEWHERE = ("pp-admm", "gate gaussian", "trouble r-admm")
"""Settings that also run as processes, over MPI and ZeroMQ."""
