"""What is wrong with a request is said once, not once a rank, with the exit code of one process."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from admmnet.cli import run_command_line
from tests.attacks.launched import write_npz_files

from .launch import admmnet

pytestmark = pytest.mark.processes


@pytest.mark.parametrize(
    ("ranks", "words", "code", "fragment"),
    [
        (3, ("run", "--agents", "2", "-o", "{}/run"), 2, "3 ranks for 2 agents"),
        (2, ("run", "--method", "published", "--epsilon", "1e-170", "-o", "{}/run"), 4, "epsilon"),
        (2, ("ledger", "verify", "{}/nothing-here"), 2, "nothing-here"),
        (3, ("run", "--data", "{}/{{agent}}.npz", "--test", "{}/t.npz", "--agents", "3", "--seed", "0"), 2, ".npz"),
    ],
)
def test_one_message(ranks: int, words: tuple[str, ...], code: int, fragment: str, tmp_path: Path) -> None:
    ended = admmnet(ranks, *(word.format(tmp_path) for word in words))
    assert (ended.code, ended.out, len(ended.messages)) == (code, "", 1), ended.err
    assert "Traceback" not in ended.err
    assert fragment in ended.messages[0]
    assert [*tmp_path.iterdir()] == []


def test_own_files_give_what_one_process_gives(tmp_path: Path) -> None:
    words = ("run", *write_npz_files(tmp_path), "--algorithm", "pp-admm", "--rounds", "2", "--seed", "0", "--quiet")
    assert run_command_line([*words, "-o", str(tmp_path / "one")]) == 0
    ended = admmnet(3, *words, "-o", str(tmp_path / "three"))
    assert ended.code == 0, ended.err
    one, three = (np.load(tmp_path / name / "model.npz")["theta"] for name in ("one", "three"))
    assert one.tobytes() == three.tobytes()


def test_help_is_printed_once() -> None:
    ended = admmnet(2, "run", "--help")
    assert ended.code == 0, ended.err
    assert ended.out.count("Usage:") == 1
