"""A run in a notebook tells its progress under the cell, and nowhere else."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from admmnet import run
from admmnet.config.run_config import RunConfig
from admmnet.running import notebook
from tests.people_runs import small


class Cell:
    """Output of a cell: IPython's ``display``, and the handle that it returns."""

    def __init__(self) -> None:
        self.shown: list[dict[str, str]] = []

    def display(self, content: dict[str, str], *, raw: bool, display_id: bool) -> Cell:
        assert (raw, display_id, self.shown) == (True, True, [])
        self.update(content, raw=raw)
        return self

    def update(self, content: dict[str, str], *, raw: bool) -> None:
        assert raw
        self.shown.append(content)


@pytest.fixture
def cell(monkeypatch: pytest.MonkeyPatch) -> Cell:
    """A kernel of IPython runs here."""
    cell = Cell()
    shell = SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=cell.display))
    monkeypatch.setattr(notebook, "EVERY", 0.0)
    return cell


@pytest.fixture
def config(people: str, tmp_path: Path) -> RunConfig:
    return small(people, tmp_path / "run", topology="ring:5", seed=0)


def test_every_round_is_shown_in_one_place(cell: Cell, config: RunConfig) -> None:
    result = run(config)
    rounds = result.summary["rounds"]
    assert [said["text/plain"].split(",")[0] for said in cell.shown] == [
        f"{config.algorithm}: round {k} of {rounds}" for k in range(1, rounds + 1)
    ]
    last = cell.shown[-1]
    assert f"test error {100 * result.summary['test_error']['consensus']:.2f}%, epsilon" in last["text/plain"]
    assert last["text/html"] == f"<progress value='{rounds}' max='{rounds}'></progress> {last['text/plain']}"


def test_a_fast_run_shows_its_first_and_last_round(
    cell: Cell, config: RunConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notebook, "EVERY", 1e3)
    rounds = run(config).summary["rounds"]
    assert [f"round {k} of {rounds}" in said["text/html"] for k, said in zip((1, rounds), cell.shown, strict=True)]


def test_a_method_in_one_place_counts_epochs(cell: Cell, people: str, tmp_path: Path) -> None:
    run(RunConfig(data=people, out=str(tmp_path / "run"), algorithm="dp-sgd", epochs=2, seed=0))
    assert cell.shown[-1]["text/plain"].startswith("dp-sgd: epoch 2 of 2, test error")


@pytest.mark.parametrize("own", ["on_start", "on_round"])
def test_a_callers_function_takes_its_place(own: str, cell: Cell, config: RunConfig) -> None:
    heard: list[Any] = []
    run(config, **{own: heard.append})  # type: ignore[arg-type]
    assert heard
    assert cell.shown == []


def test_a_terminal_of_ipython_has_no_kernel(cell: Cell, config: RunConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=object))
    assert not notebook.in_notebook()
    run(config)
    assert cell.shown == []


def test_neither_vectors_nor_a_run_depend_on_the_display(
    cell: Cell, people: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def made(name: str) -> Any:
        return run(small(people, tmp_path / name, topology="ring:5", seed=0))

    shown = made("shown")

    def gone(*_: Any, **__: Any) -> None:
        raise BrokenPipeError("the kernel's socket")

    monkeypatch.setattr(sys.modules["IPython.display"], "display", gone)
    broken = made("broken")
    monkeypatch.delitem(sys.modules, "IPython")
    np.testing.assert_array_equal(made("plain").theta, shown.theta)
    np.testing.assert_array_equal(broken.theta, shown.theta)
