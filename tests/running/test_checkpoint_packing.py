"""What a checkpoint keeps of an agent, and how it is packed."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from admmnet.running.checkpoint.packing import pack, read_archive, unpack, write_archive
from admmnet.running.checkpoint.state import State, put_states, states_taken
from admmnet.solvers.losses import get_loss
from admmnet.solvers.newton import LocalSolver


def test_states_survive_packing(tmp_path: Path) -> None:
    stream = np.random.default_rng(0)
    square = stream.standard_normal((3, 3))
    states: dict[str, State] = {
        "a": {"x": square, "n": np.asarray(3), "f": np.asarray(0.1), "e": np.zeros((0, 2))},
        "b": {"x": np.asfortranarray(square.T.copy()), "s": np.arange(3, dtype=np.float32)},
        "c": {"x": square[:2], "y": np.array([True, False]), "u": np.array([2**64 - 1], dtype=np.uint64)},
    }
    index, stacks = pack(states)
    write_archive(tmp_path / "part.npz", {"index": index}, stacks)
    meta, read = read_archive(tmp_path / "part.npz")
    again = unpack(meta["index"], read)
    assert again.keys() == states.keys()
    for owner, state in states.items():
        assert again[owner].keys() == state.keys()
        for name, value in state.items():
            other = again[owner][name]
            assert (other.dtype, other.shape) == (value.dtype, value.shape)
            assert other.flags.c_contiguous == value.flags.c_contiguous
            assert np.array_equal(other, value)
    assert [path.name for path in tmp_path.iterdir()] == ["part.npz"]


def test_the_state_of_a_solver_is_taken_and_put_field_by_field() -> None:
    stream = np.random.default_rng(0)
    X, y = stream.standard_normal((20, 3)) / 10.0, stream.choice([-1.0, 1.0], 20)
    solver, other = (LocalSolver(X, y, get_loss("logistic", "auto")) for _ in range(2))
    solver.solve(np.ones(3), 0.1, 1e-8)
    put_states(other.states, states_taken(solver.states))
    first, second = (one.solve(np.full(3, 0.5), 0.2, 1e-8) for one in (solver, other))
    assert np.array_equal(first.theta, second.theta)
    assert first[1:] == second[1:]
