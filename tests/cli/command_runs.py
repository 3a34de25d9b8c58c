"""The command line in this process, and a small run of dp-scd that it made."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from admmnet.cli import run_command_line

COMMON = ("--epsilon", "8", "--delta", "1e-3", "--seed", "3")


class Printed(NamedTuple):
    code: int
    out: str
    err: str


class Admmnet:
    """The command line in this process."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *words: object) -> Printed:
        self._capsys.readouterr()
        code = run_command_line([str(word) for word in words])
        return Printed(code, *self._capsys.readouterr())

    def ok(self, *words: object) -> Printed:
        printed = self(*words)
        assert printed.code == 0, printed.err
        return printed


def write_people(path: Path, count: int) -> str:
    stream = np.random.default_rng(count)
    X = stream.standard_normal((count, 4))
    np.savez(path, X=X, y=np.where(X[:, 0] + 0.3 * stream.standard_normal(count) > 0, 1, -1))
    return str(path)


def finished_run(people: str, folder: Path) -> Path:
    words = ("baseline", "dp-scd", "--data", people, *COMMON, "--quiet", "-o", str(folder / "run"))
    assert run_command_line(words) == 0
    return folder / "run"
