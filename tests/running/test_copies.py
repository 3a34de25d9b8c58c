"""A run's folder, or its account, is put back from an older copy: it is refused, named, and counted as spent."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from admmnet import run
from admmnet.errors import RequestError, RunError
from admmnet.evidence.judge import judged
from admmnet.privacy.ledger import audit
from admmnet.record.journal import Cut, Round, Said
from admmnet.running.journal import Journal
from admmnet.running.resume import resumed_config
from admmnet.solvers.newton import LocalSolver
from tests.interrupted_runs import Place
from tests.people_runs import Stop, stopping

AGENTS = 4


def put_back(copy: Path, to: Path) -> None:
    shutil.rmtree(to)
    shutil.copytree(copy, to)


def restored(place: Place) -> list[int]:
    """Lines that count the rest of a run as spent, of every account, which verifies."""
    files = [place.folder / f"account/agent-{i:03d}.jsonl" for i in range(AGENTS)]
    for file in files:
        audit.read(file, account=True)
    return [file.read_text().count('{"kind":"restored"') for file in files]


@pytest.mark.parametrize("behind", [1, 3])
def test_a_folder_older_than_its_account(behind: int, place: Place) -> None:
    """Also by exactly one round. What the run had left counts as spent; the newest of both goes on."""
    cut = place.interrupted("cut", 3 - behind, account="account")
    shutil.copytree(cut, old := place.folder / "old")
    with pytest.raises(Stop):
        run(resumed_config(cut), on_round=stopping(3))
    for name in ("cut", "account"):
        shutil.copytree(place.folder / name, place.folder / f"newest {name}")
    put_back(old, cut)
    for _ in range(2):
        with pytest.raises(RequestError, match=r"account/agent-000\.jsonl has .* the folder was put back"):
            run(resumed_config(cut))
        assert restored(place) == [1] * AGENTS
    for name in ("cut", "account"):
        put_back(place.folder / f"newest {name}", place.folder / name)
    judged(run(resumed_config(cut)).folder)
    assert restored(place) == [0] * AGENTS


def test_a_folder_older_than_another_run_on_its_account(place: Place) -> None:
    """Rewound over another run: the first one was interrupted, went on, and the other has charged behind it."""
    cut = place.interrupted("cut", 1, account="account", epsilon=2.0)
    shutil.copytree(cut, old := place.folder / "old")
    with pytest.raises(Stop):
        run(resumed_config(cut), on_round=stopping(3))
    place.whole("other", account="account", epsilon=4.0)
    put_back(old, cut)
    with pytest.raises(RequestError, match="the folder was put back"):
        run(resumed_config(cut))
    assert restored(place) == [1] * AGENTS


@pytest.mark.parametrize("locks", [True, False])
def test_an_account_older_than_the_folder(locks: bool, place: Place) -> None:
    cut = place.interrupted("cut", 1, account="account")
    shutil.copytree(place.folder / "account", old := place.folder / "old")
    with pytest.raises(Stop):
        run(resumed_config(cut), on_round=stopping(3))
    shutil.copytree(place.folder / "account", newest := place.folder / "newest")
    for file in old.glob("*.lock") if not locks else ():
        shutil.copy(place.folder / "account" / file.name, file)
    put_back(old, place.folder / "account")
    told = r"lacks charges of the run" if locks else "is not the one that was last used"
    with pytest.raises(RequestError, match=told):
        run(resumed_config(cut))
    put_back(newest, place.folder / "account")
    judged(run(resumed_config(cut)).folder)


def test_a_journal_alone_is_no_run(place: Place) -> None:
    """What it has is charged in ledgers that are gone."""
    cut = place.interrupted("cut", 2, account="account")
    shutil.copy(cut / "journal.bin", kept := place.folder / "kept")
    shutil.rmtree(cut)
    cut.mkdir()
    kept.rename(cut / "journal.bin")
    with pytest.raises(RequestError, match=r"journal\.bin is of a run whose folder is gone"):
        place.whole("cut", account="account")


def test_an_error_on_a_full_disk_leaves_account_and_journal_alike(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A solve fails, and its charge cannot be written down: nothing of it had left, and nothing is spent."""

    def fail(self: LocalSolver, *given: object) -> None:
        monkeypatch.setattr(Journal, "write", full)
        raise ArithmeticError

    def full(self: Journal, record: object) -> None:
        raise RunError("the disk is full")

    cut = place.interrupted("cut", 2, account="account")
    monkeypatch.setattr(LocalSolver, "solve", fail)
    with pytest.raises(RunError):
        run(resumed_config(cut))
    monkeypatch.undo()
    judged(run(resumed_config(cut)).folder)
    assert restored(place) == [0] * AGENTS


def test_a_cut_round_is_read_behind_its_record(tmp_path: Path) -> None:
    for rank in (0, 1):
        own = Journal(tmp_path, rank)
        own.write(Round(3, {rank: Said([], [], b"a\nb\n")}))
        if rank:
            own.write(Cut(1, 3, 1))
        own.close()
    found = Journal(tmp_path).past
    assert (found[1].void, found[1].ledger.last, found[0].ledger.last) == ({3}, (b"a",), (b"a", b"b"))
