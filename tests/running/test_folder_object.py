"""What read_run returns, at a prompt."""

from __future__ import annotations

from pathlib import Path

from admmnet import read_run
from tests.people_runs import finished_run


def test_short_words_of_a_run_folder_and_its_ledgers(tmp_path: Path) -> None:
    folder = read_run(finished_run(tmp_path))
    assert repr(folder) == f"RunFolder({str(folder.path)!r}, finished, ledgers={len(folder.ledgers)})"
    for agent, ledger in enumerate(folder.ledgers.values()):
        start = f"VerifiedLedger(agent={agent}, events={len(ledger.events)}, rho="
        assert repr(ledger).startswith(start)
        assert len(repr(ledger)) < 80


def test_a_run_folder_draws_its_run(tmp_path: Path) -> None:
    folder = read_run(finished_run(tmp_path))
    figure = folder.plot(tmp_path / "run.svg", panels=("error",))
    assert len(figure.axes) == 1
    assert (tmp_path / "run.svg").stat().st_size > 1000
