"""The account's file: one run at a time holds it, and torn, tampered or foreign ones are told."""

from __future__ import annotations

import fcntl
import gc
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

from admmnet.errors import CheckFailed, RequestError
from admmnet.privacy.ledger import audit
from tests.command_runs import Admmnet
from tests.planned import nominal_rho

from .accounts import Place, header_of, opened, spend, started

# locks


def test_two_runs_at_once(place: Place, admmnet: Admmnet) -> None:
    place.run("first")
    before = place.file().read_bytes()
    held = opened(place.account, records=65)
    try:
        assert f"{place.file()} is in use by another run; wait for its end" in admmnet.refused(
            *place.words("second", "--epsilon", "3")
        )
        assert not (place.folder / "second").exists()
    finally:
        held.close()
    assert place.file().read_bytes() == before
    admmnet.ok(*place.words("third", "--epsilon", "3"))


def test_a_refusal_closes_the_accounts_before_it(place: Place) -> None:
    place.run("first")
    held = opened(place.account, agent=1, records=65)
    try:
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            with pytest.raises(RequestError, match=r"agent-001\.jsonl is in use"):
                place.run("second", epsilon=3.0)
            gc.collect()
    finally:
        held.close()
    assert [str(warning.message) for warning in seen] == []


LOCK = """import fcntl, sys
file = open(sys.argv[1], "rb")
fcntl.flock(file, fcntl.LOCK_EX)
print("held", flush=True)
input()
"""


def test_another_process_holds_the_account(tmp_path: Path) -> None:
    started(tmp_path).close()
    path = tmp_path / "agent-000.lock"
    child = subprocess.Popen(
        [sys.executable, "-c", LOCK, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == "held\n"
        with pytest.raises(RequestError, match="is in use by another run"):
            opened(tmp_path)
    finally:
        child.communicate("\n", timeout=20)
    account = opened(tmp_path)  # a process that has ended holds nothing
    with path.open("rb") as other, pytest.raises(BlockingIOError):
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    account.close()


@pytest.mark.parametrize(
    ("kind", "words"), [(RequestError, {"delta": 1e-6}), (RequestError, {"records": 99}), (CheckFailed, {})]
)
def test_who_is_refused_lets_go_at_once(kind: type[Exception], words: dict[str, Any], place: Place) -> None:
    """Although somebody keeps the exception, and with it every frame."""
    started(place.account).close()
    path = place.account / "agent-000.jsonl"
    good = path.read_bytes()
    if kind is CheckFailed:
        path.write_bytes(good.replace(b'"records":70', b'"records":-1'))
    with pytest.raises(kind) as kept:
        opened(place.account, **words)
    path.write_bytes(good)
    opened(place.account).close()
    assert kept.value.__traceback__ is not None


# what the file holds


def test_a_torn_last_line_is_dropped(tmp_path: Path) -> None:
    account = started(tmp_path)
    spend(account, 0.2)
    spend(account, 0.2)
    account.close()
    path = tmp_path / "agent-000.jsonl"
    data = path.read_bytes()
    *lines, last, _ = data.split(b"\n")
    whole = b"\n".join(lines) + b"\n"
    for cut in (1, len(last) // 2, len(last) - 1):
        path.write_bytes(whole + last[:cut])
        path.with_suffix(".lock").unlink()  # which knows of a line only when it is whole on the disk
        account = opened(tmp_path)
        assert account.totals.rho == pytest.approx(0.2 * nominal_rho(1.0, 1e-4), rel=1e-12)
        assert path.read_bytes() == whole
        spend(account, 0.1)
        account.close()
        assert audit.read(path, account=True).totals.rho == pytest.approx(0.3 * nominal_rho(1.0, 1e-4), rel=1e-12)
    for kept in (data, data[:-1]):  # a charge that lost its newline alone was a charge
        path.write_bytes(kept)
        path.with_suffix(".lock").unlink()
        account = opened(tmp_path)
        assert account.totals.rho == pytest.approx(0.4 * nominal_rho(1.0, 1e-4), rel=1e-12)
        account.close()
        assert path.read_bytes() == data


def test_simulations_and_private_runs_share_no_account(place: Place) -> None:
    place.run("first", no_test=True)
    with pytest.raises(RequestError, match="was opened with mode = 'simulation', this run has 'private'"):
        place.run("second", epsilon=3.0, simulate=False, no_test=True)


def test_a_header_that_was_never_finished_is_no_account(tmp_path: Path) -> None:
    started(tmp_path).close()
    path = tmp_path / "agent-000.jsonl"
    whole = path.read_bytes()
    (tmp_path / "agent-000.lock").unlink()
    for part in (b"", whole[:40]):
        path.write_bytes(part)
        account = opened(tmp_path, records=71, delta=1e-6)
        assert account.totals.rho == 0.0
        account.close()


@pytest.mark.parametrize(
    ("line", "old", "new", "fault"),
    [
        (0, '"epsilon":1.0', '"epsilon":9.0', "line 1: delta_clipping is "),
        (1, '"sigma":1.0', '"sigma":2.0', "line 2: rho is "),
        (1, '"round":0', '"round":1', "line 3: does not follow from the line before"),
        (2, '"rho":', '"rho":1', "line 3: "),
        (1, None, None, "line 2: does not follow from the line before"),
    ],
)
def test_a_tampered_account_ends_the_run(
    line: int, old: str | None, new: str | None, fault: str, place: Place, admmnet: Admmnet
) -> None:
    account = started(place.account, header_of(records=65))
    spend(account, 0.1)
    spend(account, 0.1)
    account.close()
    lines = place.file().read_text().split("\n")
    if old is None or new is None:
        del lines[line]
    else:
        assert old in lines[line]
        lines[line] = lines[line].replace(old, new, 1)
    place.file().write_text("\n".join(lines))
    before = place.file().read_bytes()
    assert f"{place.file()}: {fault}" in admmnet.refused(*place.words("run"), code=1)
    assert not (place.folder / "run").exists()
    assert fault in admmnet.refused("account", "show", place.account, code=1)
    assert place.file().read_bytes() == before


def test_a_lost_line_at_the_end_does_not_show(place: Place) -> None:
    """What docs/ledger.md says of every chain: lines cut off whole are not seen from the file itself."""
    place.run("first")
    before = place.totals()[0].rho
    lines = place.file().read_bytes().split(b"\n")
    place.file().write_bytes(b"\n".join([*lines[:-3], b""]))
    assert place.totals()[0].rho < before
