"""A loss of somebody else's in a private run: its code never meets a record, and its bounds are its table's.

Each attack has a switch, `raw`, that hands the loss through as it is, as the package did before; then it succeeds.
"""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from admmnet import RequestError, run
from admmnet.auditing.bounds import mu_of_scores
from admmnet.cli import run_command_line
from admmnet.holder import door
from admmnet.privacy.conversion import gaussian_epsilon
from admmnet.solvers import certificate
from admmnet.solvers.certificate import gradient
from admmnet.solvers.losses import LOSSES, Logistic
from admmnet.solvers.tabled import TableLoss
from admmnet.types import Matrix, Vector
from tests.interrupted_runs import Place

from . import doors
from .doors import Target, records

SIZE, WIDTH, RUNS = 60, 6, 8
EPSILON = 0.5
LENGTH = 5e3
"""Norm of the vector that the neighbour makes agent 0's solution: scores of rows along it overflow an exponential."""


class Exponential(Logistic):
    """The logistic loss with ``math.exp``, as many write it: right constants, and an error at a score of 710."""

    def derivative(self, u: Vector, y: Vector) -> Vector:
        slopes = [-label / (1.0 + math.exp(label * score)) for score, label in zip(u, y, strict=True)]
        return np.array(slopes)


class Steep(Logistic):
    """Twenty times the logistic loss, under the logistic loss's constants."""

    def value(self, u: Vector, y: Vector) -> Vector:
        return 20.0 * super().value(u, y)

    def derivative(self, u: Vector, y: Vector) -> Vector:
        return 20.0 * super().derivative(u, y)

    def curvature(self, u: Vector, y: Vector) -> Vector:
        return 20.0 * super().curvature(u, y)


class Whole(Logistic):
    """A loss that asks not to be tabled."""

    tabled = False


def slope(u: Vector, y: Vector) -> Vector:
    return np.asarray(np.tanh(u - y))


slope.residual = True  # type: ignore[attr-defined]


@pytest.fixture(autouse=True)
def strangers(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    module = ModuleType("strangers")
    for thing in (Exponential, Steep, Whole, slope):
        setattr(module, thing.__name__, thing)
    monkeypatch.setitem(sys.modules, "strangers", module)
    yield
    forget()


def forget() -> None:
    for name in [name for name in LOSSES._loaded if "strangers:" in name or ".py:" in name]:
        del LOSSES[name]


def raw(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the defence out: losses from outside are what they are, in private runs too."""
    monkeypatch.setattr(LOSSES, "_adapted", lambda found, name: found())
    monkeypatch.setattr(door, "_agree", lambda holder, loss: None)


def target(loss: str, **settings: Any) -> Target:
    given = {"algorithm": "pp-admm", "epsilon": EPSILON, "delta": 1e-5, "rounds": 2, "eta": 1.0} | settings
    return Target(SIZE, WIDTH, {"loss": f"strangers:{loss}", **given})


# a loss that raises


def worlds() -> tuple[list[tuple[Matrix, Vector]], Vector]:
    """Records across the neighbour's vector, in the second world the first of them along it; and the vector."""
    X, y = records(SIZE, WIDTH)
    v = np.eye(WIDTH)[0]
    X[:, 0] = 0.0
    along = X.copy()
    along[0], y[0] = v * (1.0 - 2.0**-50), 1.0
    return [(X, y), (along, y)], v * LENGTH


def endings() -> list[list[str]]:
    both, message = worlds()
    attacked = target("Exponential")
    return [[attacked.ending(X, y, seed, [message])[1] for seed in range(RUNS)] for X, y in both]


def test_a_loss_that_raises_at_a_record_ends_no_run() -> None:
    assert endings() == [[""] * RUNS] * 2


def test_as_it_is_it_ends_the_runs_with_the_record_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    raw(monkeypatch)
    out, inside = endings()
    assert out == [""] * RUNS
    assert all(text.startswith("RunError") for text in inside)


# wrong constants


def test_a_loss_that_is_steeper_than_it_says_is_refused() -> None:
    with pytest.raises(RequestError, match=r"strangers:Steep.*the slope is 20 .*above 1, the gradient bound"):
        target("Steep").decision  # noqa: B018


def test_as_it_is_it_shows_more_than_is_booked(monkeypatch: pytest.MonkeyPatch) -> None:
    """At a far point two records that it has on the wrong side move the gradient by 20 times what is paid for."""
    raw(monkeypatch)
    attacked, message = target("Steep"), np.eye(WIDTH)[0] * LENGTH
    said: list[Vector] = []
    for side in (-1.0, 1.0):
        X, y = records(SIZE, WIDTH)
        X[0], y[0] = (0.1, side * 0.99, 0.0, 0.0, 0.0, 0.0), -1.0
        said.append(np.array([second_release(attacked, X, y, seed, message)[1] for seed in range(60)]))
    mu = mu_of_scores(said[1], said[0], 0.01)
    assert gaussian_epsilon(mu, 1e-5) > 4.0 * EPSILON


def second_release(attacked: Target, X: Matrix, y: Vector, seed: int, message: Vector) -> Vector:
    """What agent 0 sends once its neighbour has sent the message; it is booked as promised."""
    node = attacked.node(X, y, seed)
    node.propose(0)
    node.absorb({1: message})
    found = node.propose(1)
    assert found is not None
    assert node.ledger.totals.epsilon_proven(1e-5) <= EPSILON
    return found


# a loss that asks to be taken as it is


def private(folder: Path, **settings: Any) -> dict[str, Any]:
    given: dict[str, Any] = {"epsilon": 5.0, "rounds": 2, "topology": "ring:4", "algorithm": "pp-admm"}
    return doors.private(folder, 400, 3, **given | settings)


def test_a_loss_that_is_no_table_answers_in_simulations_alone(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="says tabled = False"):
        run(**private(tmp_path, loss="strangers:Whole"))
    seeded = private(tmp_path, loss="strangers:Whole", private=False, no_account=False, seed=0)
    found = run(**seeded | {"out": str(tmp_path / "seeded")})
    assert [ledger.header.get("loss_digest") for ledger in found.ledgers] == [None] * 4
    assert run_command_line(["ledger", "verify", str(found.folder)]) == 0


# what a private run says of its table


def test_the_table_is_in_every_header_and_its_digest_is_checked(tmp_path: Path) -> None:
    found = run(**private(tmp_path, loss="strangers:slope"))
    digest = TableLoss.of(slope, "any", residual=True).digest
    assert [ledger.header["loss_digest"] for ledger in found.ledgers] == [digest] * 4
    assert {ledger.header["loss"] for ledger in found.ledgers} == {"strangers:slope"}
    assert run_command_line(["ledger", "verify", str(found.folder)]) == 0
    for _, event, _ in found.ledgers[0].events:
        assert not getattr(event, "logistic", False)


def test_a_run_goes_on_with_its_own_table_alone(place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file of a loss is changed between a run and its resumption."""
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "m5.py"
    text = "import numpy as np\n\n\ndef slope(u, y):\n    return -y / (1.0 + np.exp(y * u))\n"
    file.write_text(text)
    cut = place.interrupted("cut", 1, checkpoint_every=1, rounds=4, seed=None, loss="m5.py:slope")
    renewed(file, text.replace("-y /", "-0.5 * y /"))
    with pytest.raises(RequestError, match="another header than this run's"):
        place.resume(cut)
    renewed(file, text.replace("import", "import  "))
    assert run_command_line(["ledger", "verify", str(place.resume(cut))]) == 0


def renewed(file: Path, text: str) -> None:
    file.write_text(text)
    forget()
    for name in [name for name in sys.modules if name.startswith(f"{file.stem}-")]:
        del sys.modules[name]


# warnings


@pytest.mark.parametrize("mode", ["private", "simulation"])
def test_warnings_of_a_measurement_are_shown_in_simulations_alone(
    mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The solver's arithmetic is made to warn of its scores, and to overflow, in every pass over the records."""

    def warning(X: Matrix, *given: Any) -> Any:
        warnings.warn_explicit(f"score {X[0, 0]!r}", UserWarning, "gradient", 1, module=gradient.__module__)
        np.exp(X[:1] + 1e4)
        return gradient(X, *given)

    monkeypatch.setattr(certificate, "gradient", warning)
    settings = private(tmp_path, rounds=1)
    if mode == "simulation":
        settings |= {"private": False, "no_account": False, "seed": 0}
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        run(**settings)
    assert bool(said) == (mode == "simulation")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        if mode == "private":
            run(**settings | {"out": str(tmp_path / "strict")})


# processes


@pytest.mark.processes
@pytest.mark.parametrize("differ", [False, True])
def test_processes_with_other_tables_refuse_each_other(differ: bool, tmp_path: Path) -> None:
    """The slope is another one at the second rank, as a last bit of an exponential may be."""
    from tests.processes.launch import mpirun

    file = tmp_path / "m5.py"
    scale = "(1.0 + 1e-9 * int(os.environ['PMI_RANK']))" if differ else "1.0"
    file.write_text(
        f"import os\nimport numpy as np\n\ndef slope(u, y):\n    return -y * {scale} / (1.0 + np.exp(y * u))\n"
    )
    words = ("--loss", f"{file}:slope", "--rounds", "1", "--seed", "0", "--topology", "ring:4", "--quiet")
    ended = mpirun(2, "-m", "admmnet", "run", *words, "-o", str(tmp_path / "run"))
    assert ended.code == (2 if differ else 0), ended.err
    assert ("loss" in ended.err and "a table with sha256" in ended.err) == differ
    assert (tmp_path / "run").exists() != differ


@pytest.mark.processes
def test_agents_in_processes_of_their_own_read_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("m5.py").write_text("import numpy as np\n\ndef slope(u, y):\n    return np.tanh(u - y)\n")
    given: dict[str, Any] = {"loss": "m5.py:slope", "rounds": 1, "seed": 0, "topology": "path:2"}
    ends = [run(transport=name, out=f"{name}-run", **given) for name in ("zmq", "local")]
    assert len({end.ledgers[0].header["loss_digest"] for end in ends}) == 1
    np.testing.assert_array_equal(ends[0].theta, ends[1].theta)
