"""Tests of solvers over both kernels."""

from __future__ import annotations

import pytest

from admmnet.solvers import certificate as kernels
from admmnet.solvers.blocks.group import solvers_of
from admmnet.solvers.blocks.records import Stack
from admmnet.solvers.newton import LocalSolver, WideSolver


@pytest.fixture(params=["numpy", "c"])
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The kernel of solvers that are not given one; modules ask for it by ``usefixtures``."""
    if request.param == "c" and kernels._compiled is None:
        pytest.skip("the compiled kernel is not built here")
    for made in (Stack.__init__, solvers_of, LocalSolver.__init__, WideSolver.__init__):
        monkeypatch.setattr(made, "__defaults__", (request.param,))
    return str(request.param)
