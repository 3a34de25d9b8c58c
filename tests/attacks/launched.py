"""Starting ``attacked_run`` on local, MPI or ZeroMQ processes."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from tests.processes.launch import Ended, mpirun, start

MODULE = "tests.attacks.attacked_run"
AGENTS = 3


def attacked(monkeypatch: pytest.MonkeyPatch, transport: str, attack: str, *words: str) -> Ended:
    """Run the command line under attack."""
    monkeypatch.setenv("ADMMNET_ATTACK", attack)
    if transport == "mpi":
        return mpirun(AGENTS, "-m", MODULE, *words)
    return start(sys.executable, "-m", MODULE, *words, "--transport", transport)


def write_npz_files(folder: Path) -> tuple[str, ...]:
    """Write a sound file for every agent, and public test records; the words that name them."""
    stream = np.random.default_rng(3)
    for name in (*range(AGENTS), "test"):
        n = 50 if name == "test" else 200 + 10 * int(name)
        X = stream.standard_normal((n, 4))
        np.savez(folder / f"{name}.npz", X=X, y=np.where(X[:, 0] > 0, 1, -1))
    pattern = f"{folder}/{{agent}}.npz"
    return ("--data", pattern, "--test", f"{folder}/test.npz", "--agents", str(AGENTS))
