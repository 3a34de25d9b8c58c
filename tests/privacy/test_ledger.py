"""The ledger, byte by byte; refusals; and what happens where the disk does not take it."""

from __future__ import annotations

import errno
import hashlib
import json
import os
from pathlib import Path

import pytest

from admmnet.errors import RequestError, RunError
from admmnet.files import remedy
from admmnet.forms import encode
from admmnet.privacy.budget import Totals, empty
from admmnet.privacy.events import Event, Gaussian, ObjectivePerturbation
from admmnet.privacy.ledger import audit
from admmnet.privacy.ledger.file import Ledger
from admmnet.privacy.ledger.lines import ChainFile

from .ledgers import header_of, under

ROUND = (ObjectivePerturbation(2.0 / 7000, 0.0068, 1.0, 0.25, 1.05, 7000), Gaussian(6e-4, 0.22))
WHO = {"agent": 3, "neighbours": (0, 4), "noise": "private", "mode": "private"}
HEADER = header_of(under(((ROUND[0], 5), (ROUND[1], 7))), "a\nb\u2028ü", **WHO)
HEADER_LINE = (
    '{"kind":"header","schema":4,"agent":3,"neighbours":[0,4],"records":7000,"adjacency":"replace-one",'
    '"unit":"record","budget":{"epsilon":1.0,"delta":0.0001},"delta_clipping":1.311245785235632e-36,"accountant":"published",'
    '"filter":{"order":36.481338923357534,"limit":0.16196141991122592,"kappa":0.0,"parts":1,"steps":null,"draws":120},'
    '"method":"published",'
    '"algorithm":"a\\nb\u2028ü","mode":"private","noise":"private","preprocessing":"public-bounds","shards":"fixed","admmnet":"0.1.0"}'
)


@pytest.fixture
def ledger(path: Path) -> Ledger:
    return Ledger(path, HEADER, durable=False)


def number(value: float | None) -> str:
    return encode(value).decode()


def totals_text(totals: Totals) -> str:
    """What was spent is less than what the plan lets through."""
    return (
        f'{{"rho":{number(totals.rho)},"xi":0.0,"epsilon_spent":{number(totals.epsilon_proven(1e-4))},'
        f'"epsilon_published":{number(totals.epsilon_published(1e-4))}}}'
    )


def test_every_byte_is_the_contracts(ledger: Ledger, path: Path) -> None:
    ledger.charge(0, *ROUND)
    ledger.charge(2, ROUND[1])
    ledger.end()
    ledger.close()
    totals, expected = empty("published"), [HEADER_LINE]
    first = '"sensitivity":0.00028571428571428574,"sigma":0.0068,"lipschitz":1.0,"curvature":0.25,"convexity":1.05,'
    parameters = [first + '"records":7000', *['"sensitivity":0.0006,"sigma":0.22'] * 2]
    kappa, cost = 0.25 / (7000 * 1.05), 0.5 * (0.0006 / 0.22) ** 2
    rhos = [0.5 * (2.0 / 7000 / 0.0068) ** 2 + 2.6 * kappa * kappa, cost, cost]
    published_objective = 0.00091333084  # rho1 read back from sigma1
    charged: list[tuple[int, Event]] = [(0, ROUND[0]), (0, ROUND[1]), (2, ROUND[1])]
    lines = path.read_text(encoding="utf-8").split("\n")

    def sha() -> str:
        return hashlib.sha256(expected[-1].encode()).hexdigest()

    for index, (round_, event) in enumerate(charged):
        totals = totals.plus(event)
        claim = json.loads(lines[1 + index])["rho_published"]
        assert claim == pytest.approx(0.25 * cost if index else published_objective, rel=1e-6, abs=0.0)
        expected.append(
            f'{{"kind":"event","round":{round_},"mechanism":"{event.mechanism}",'
            f'"parameters":{{{parameters[index]}}},"rho":{number(rhos[index])},"xi":0.0,'
            f'"rho_published":{number(claim)},"total":{totals_text(totals)},"previous":"{sha()}"}}'
        )
    expected.append(f'{{"kind":"end","events":3,"total":{totals_text(totals)},"previous":"{sha()}"}}')
    assert lines == [*expected, ""]
    assert ledger.head == (sha(), 5)
    with pytest.raises(RunError, match="nothing is charged behind its end line"):
        ledger.charge(3, ROUND[1])


def test_a_charge_beyond_the_plan_raises_and_writes_nothing(ledger: Ledger, path: Path) -> None:
    ledger.charge(0, *ROUND)
    ledger.commit()
    before, rho, events = path.read_bytes(), ledger.totals.rho, ledger.events
    more, dear = [ROUND[0]] * 7, Gaussian(1.0, 0.1)
    assert not ledger.affords(more)
    with pytest.raises(RunError, match="exceeds the budget"):
        ledger.charge(1, ROUND[0], *more)  # the whole charge or nothing of it
    for asked in ((dear,), (ROUND[0], dear)):
        assert not ledger.affords(asked)
        with pytest.raises(RunError, match="exceeds the budget"):
            ledger.charge(1, *asked)
    ledger.commit()
    assert path.read_bytes() == before
    assert (ledger.totals.rho, ledger.events) == (rho, events)
    ledger.charge(1, *ROUND)  # an attempt is no refusal


def test_a_refusal_is_for_good(ledger: Ledger, path: Path) -> None:
    ledger.charge(0, *ROUND)
    ledger.refuse(4)
    ledger.refuse(9)
    assert ledger.refused_at == 4
    assert not ledger.affords(())
    for event in (*ROUND, Gaussian(1e-9, 1.0)):
        assert not ledger.affords((event,))
        with pytest.raises(RunError):
            ledger.charge(9, event)
    ledger.end()
    ledger.end()
    ledger.close()
    ledger.close()
    assert len(path.read_bytes().splitlines()) == 4


def test_an_existing_file_is_never_touched(path: Path) -> None:
    path.write_bytes(b"precious")
    with pytest.raises(RequestError, match=r"cannot create the ledger .*agent-000\.jsonl: File exists"):
        Ledger(path, HEADER, durable=False)
    assert path.read_bytes() == b"precious"
    with pytest.raises(RequestError, match="cannot create the ledger"):
        Ledger(path.parent / "missing" / path.name, HEADER, durable=True)


@pytest.mark.parametrize("durable", [True, False])
def test_commit_waits_for_the_disk_in_private_runs(path: Path, durable: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[bytes] = []
    folders: list[str] = []
    real = os.fsync

    def fsync(handle: int) -> None:
        name = os.readlink(f"/proc/self/fd/{handle}") if os.path.exists("/proc/self/fd") else str(path)
        if os.path.isdir(name):
            folders.append(name)
        else:
            synced.append(Path(name).read_bytes())
        real(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    ledger = Ledger(path, HEADER, durable=durable)
    assert folders == ([str(path.parent)] if durable else []), "the new file's name reaches the disk too"
    for round_ in range(3):
        ledger.charge(round_, *ROUND)
        ledger.commit()
        # the charges are in the file when it is synced, and synced when commit returns
        assert len(synced) == (round_ + 2 if durable else 0)  # the header first
        assert len(path.read_bytes().splitlines()) == 1 + 2 * (round_ + 1)
        if durable:
            assert synced[-1] == path.read_bytes()
    ledger.end()
    ledger.close()
    assert len(synced) == (5 if durable else 0)


@pytest.mark.parametrize("act", ["commit", "finish"])
@pytest.mark.parametrize("taken", [0, 1, 700])
def test_a_full_disk_ends_the_run_before_anything_is_sent(
    ledger: Ledger, path: Path, act: str, taken: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the disk has taken of a line is continued, not repeated, when there is space again."""
    real, left = os.write, taken

    def write(handle: int, data: bytes) -> int:
        nonlocal left
        if not left:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        size = real(handle, bytes(data[:left]))
        left -= size
        return size

    before = path.read_bytes()
    ledger.charge(0, *ROUND)
    monkeypatch.setattr(os, "write", write)
    if act == "finish":
        ledger.end()
    with pytest.raises(RunError, match=r"cannot write the ledger .*free some space and run again"):
        (ledger.close if act == "finish" else ledger.commit)()
    assert len(path.read_bytes()) == len(before) + taken
    if taken:
        assert audit.read(path).torn
        assert len(audit.read(path).events) == (taken > 500)
    monkeypatch.undo()
    ledger.commit()
    book = audit.read(path)
    assert (len(book.events), book.torn, book.finished) == (2, False, act == "finish")


@pytest.mark.parametrize(
    ("number", "hint"),
    [(errno.EDQUOT, "free some space"), (errno.EMFILE, "raise ulimit -n"), (errno.EROFS, "mend that")],
)
def test_space_helps_only_where_there_was_none(number: int, hint: str) -> None:
    assert remedy(OSError(number, os.strerror(number))).startswith(f"{os.strerror(number)}; {hint}")


def test_a_disk_that_cannot_sync_ends_the_run_and_is_asked_again(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new ledger leaves no file then."""
    waited, number = list[int](), errno.EIO

    def broken(handle: int) -> None:
        waited.append(handle)
        raise OSError(number, os.strerror(number))

    path.touch()
    file = ChainFile(path, "ledger", "", 0, durable=True)
    file.append(b"{}")
    monkeypatch.setattr(os, "fsync", broken)
    for _ in range(2):
        with pytest.raises(RunError, match="cannot write the ledger"):
            file.commit()
    assert len(waited) == 2
    assert path.read_bytes() == b"{}\n"
    path.unlink()
    number = errno.ENOSPC
    with pytest.raises(RunError, match=r"cannot write the ledger .*free some space"):
        Ledger(path, HEADER, durable=True)
    assert list(path.parent.iterdir()) == []
