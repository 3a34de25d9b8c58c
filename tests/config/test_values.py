"""Classes, functions, graphs and numbers in place of texts: the same run as by name, for a program as for a file."""

from __future__ import annotations

import sys
from hashlib import sha256
from inspect import getsource
from pathlib import Path
from typing import Annotated, Any

import networkx as nx
import numpy as np
import pytest

from admmnet import RequestError, RunConfig, run
from admmnet.config.toml import load_saved
from admmnet.methods import METHODS
from admmnet.methods.dvp import DVP
from admmnet.methods.pp_admm import PPADMM
from admmnet.methods.settings import NoisySettings
from admmnet.settings import about
from admmnet.solvers.losses import LOSSES, Logistic


@pytest.fixture(autouse=True)
def _known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names that a test gives are gone after it."""
    for registry in (METHODS, LOSSES):
        monkeypatch.setattr(registry, "_loaded", dict(registry._loaded))


class Mine(NoisySettings, frozen=True, kw_only=True):
    momentum: Annotated[float, about(ge=0, lt=1)] = 0.5
    """weight of the step before"""


class Own(DVP):
    name = "own"
    Settings = Mine


class Twice(Logistic):
    """A loss from outside."""


def test_a_class_is_its_name() -> None:
    assert RunConfig(algorithm=PPADMM).algorithm == "pp-admm"
    own: dict[str, Any] = {"momentum": 0.25}
    assert RunConfig(algorithm=Own, **own) == RunConfig(algorithm=f"{__name__}:Own", **own)
    assert RunConfig(loss=Logistic).loss == f"{Logistic.__module__}:Logistic"
    assert RunConfig(loss=Twice).loss == f"{__name__}:Twice"


def test_a_run_with_objects_is_the_one_with_names(people: str, tmp_path: Path) -> None:
    graph = nx.relabel_nodes(nx.cycle_graph(3), str)
    how: dict[str, Any] = {"rounds": 2, "seed": 0, "data": people}
    one = run(algorithm=Own, loss=Twice, topology=graph, out=tmp_path / "one", **how)
    names: dict[str, Any] = {"algorithm": f"{__name__}:Own", "loss": f"{__name__}:Twice", "topology": "ring:3"}
    other = run(out=tmp_path / "other", **names, **how)
    np.testing.assert_array_equal(one.theta, other.theta)
    notes = " ".join(one.summary["notes"])
    assert f"the source of {__name__}:Own has sha256 {sha256(getsource(Own).encode()).hexdigest()}" in notes
    assert "nobody else" not in notes
    assert not any("source" in note for note in run(algorithm=DVP, out=tmp_path / "ours", **how).summary["notes"])


def test_what_no_other_process_can_import_runs_here(people: str, tmp_path: Path) -> None:
    class Local(DVP):
        name = "local"

    class Hidden(Logistic):
        pass

    small: dict[str, Any] = {"rounds": 2, "seed": 0, "topology": "ring:3", "data": people}
    result = run(algorithm=Local, out=tmp_path / "run", **small)
    assert result.summary["algorithm"].endswith(":test_what_no_other_process_can_import_runs_here.<locals>.Local")
    assert "no other process can import it, or resume this run" in " ".join(result.summary["notes"])
    for given in ({"algorithm": Local}, {"loss": Hidden}):
        with pytest.raises(RequestError, match=r"starts other processes, which cannot see .*: save it to a file"):
            run(transport="zmq", out=tmp_path / "zmq", **(small | given))
    del METHODS[result.summary["algorithm"]]  # as in another process
    with pytest.raises(RequestError, match=r"the package that brought the method .* is missing"):
        load_saved(result.folder)


def test_a_notebook_may_change_its_class(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = (type("Again", (DVP,), {"name": "again", "__module__": "__main__"}) for _ in range(2))
    for kind in (first, second):
        assert RunConfig(algorithm=kind).chosen_method is kind
    monkeypatch.setattr(sys.modules["__main__"], "Again", second, raising=False)
    assert not METHODS.importable("__main__:Again")
    assert METHODS.importable("dvp")
    assert LOSSES.importable(f"{__name__}:Twice")
    del METHODS["__main__:Again"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"algorithm": int}, r"algorithm = builtins:int: it is no subclass of Method"),
        ({"algorithm": print}, "it is no subclass of Method"),
        ({"loss": lambda: 0}, r"loss = .*<lambda>: losses are no functions any more"),
        ({"topology": nx.path_graph(["a", "b"])}, r"got 'a'; networkx.convert_node_labels_to_integers\(graph\)"),
        ({"topology": np.ones((3, 3))}, r"networkx.from_numpy_array\(A\) makes one"),
        ({"topology": nx.path_graph(3), "agents": 4}, "the graph has 3 nodes, and agents = 4"),
        ({"topology": 3}, "it is a int, and must be a networkx.Graph"),
        ({"label": [1]}, "label = .1. is not allowed: a run has one value, and `admmnet compare FILE.toml` tries"),
        ({"epsilon": [0.5, 1.0]}, r"epsilon = \[0.5, 1.0\] is not allowed: a run has one value"),
        ({"algorithm": ["dvp", "pp-admm"]}, r"algorithm = \['dvp', 'pp-admm'\] is not allowed: a run has one value"),
        ({"seed": (0, 1)}, r"seed = \(0, 1\) is not allowed: a run has one value"),
    ],
)
def test_what_will_not_do(given: dict[str, Any], words: str) -> None:
    with pytest.raises(RequestError, match=words):
        RunConfig(**given)


def test_numbers_are_texts_where_a_file_has_texts() -> None:
    given: dict[str, Any] = {"label": 3, "positive": np.int64(1), "centre": 0.1, "data": "t.csv"}
    config = RunConfig(**given)
    assert (config.label, config.positive, config.centre) == ("3", "1", "0.10000000000000001")
    with pytest.raises(RequestError, match="positive = True is not allowed: it must be text"):
        RunConfig(**{"positive": True})  # type: ignore[arg-type]
