"""What verification finds in a changed file, and what it cannot find."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from admmnet import RunConfig
from admmnet.errors import CheckFailed
from admmnet.forms import encode
from admmnet.privacy.contract import Contract
from admmnet.privacy.events import Event, Unprotected
from admmnet.privacy.ledger import audit
from admmnet.privacy.ledger.form import total_line

from .ledgers import (
    HEADER,
    IPP,
    MASKS,
    PP,
    builtins,
    chained,
    fails,
    fault,
    forged,
    header_of,
    noise_of,
    parsed,
    under,
    write,
)

LARGE = bool(os.environ.get("ADMMNET_TEST_LARGE"))


@pytest.mark.parametrize("setting", [PP, IPP], ids=["pp-admm", "ipp-admm"])
@pytest.mark.parametrize("finished", [True, False])
@pytest.mark.parametrize("rounds", [0, 1, 3])
def test_honest_ledgers_hold(path: Path, setting: RunConfig, rounds: int, finished: bool) -> None:
    data = write(path, setting, rounds, finished=finished)
    account, noise = audit.read(path), noise_of(setting)
    assert account.finished is finished
    assert account.delta == 1e-4
    assert account.header == parsed(data)[0]
    events: list[tuple[int, Event]] = []
    for r in range(rounds):
        events.append((r, noise.objective))
        if noise.gate is not None:
            events.append((r, noise.gate.later if r else noise.gate.first))
        if noise.gate is None or r != 1:
            events.append((r, noise.release))
    assert [(round_, event) for round_, event, _ in account.events] == events
    assert [line for _, _, line in account.events] == parsed(data)[1 : 1 + len(events)]
    assert account.contract == noise.contract
    total = total_line(account.totals, noise.contract)
    assert parsed(data)[-1].get("total", total) == total


def test_honest_ledgers_without_privacy_hold(path: Path) -> None:
    header = header_of(Contract(form="published"), "admm")
    path.write_bytes(forged(header, [(0, Unprotected()), (1, Unprotected())]))
    account = audit.read(path)
    assert account.delta is None
    assert account.totals.rho == float("inf")


def test_every_flipped_bit_of_a_finished_ledger_is_found(path: Path) -> None:
    """One bit of every byte, another from byte to byte; with ADMMNET_TEST_LARGE=1 all of them."""
    data = write(path)
    for position in range(len(data)):
        for mask in MASKS if LARGE else (MASKS[position % 8],):
            flipped = bytearray(data)
            flipped[position] ^= mask
            assert fails(path, bytes(flipped)), (position, mask, data[max(0, position - 20) : position + 20])
    assert not fails(path, data)


def numbers(line: dict[str, Any]) -> Iterator[tuple[str, float | None]]:
    for key, value in line.items():
        if isinstance(value, dict):
            yield from numbers(value)
        elif value is None or isinstance(value, int | float):
            yield key, value


def test_flips_in_the_last_line_of_an_unfinished_ledger(path: Path) -> None:
    """Nothing behind the last line holds it to the bit: its costs hold to 1e-9, its round only to its order.

    The digest in summary.json would hold it, but an unfinished run has none.
    """
    data = write(path, finished=False)
    last = data[:-1].rindex(b"\n") + 1
    honest, unseen = parsed(data)[-1], 0
    masks = MASKS[::2] if LARGE else MASKS[:1]
    for position in range(len(data)):
        for mask in masks:
            flipped = bytearray(data)
            flipped[position] ^= mask
            if fails(path, bytes(flipped)):
                continue
            assert position >= last, "the lines before are held by the chain"
            unseen += 1
            line = parsed(bytes(flipped))[-1]
            assert {key: line[key] for key in ("kind", "mechanism", "previous")} == {
                key: honest[key] for key in ("kind", "mechanism", "previous")
            }
            for (key, mine), (theirs_key, theirs) in zip(numbers(line), numbers(honest), strict=True):
                assert key == theirs_key
                assert key == "round" or mine == pytest.approx(theirs, rel=2.1e-9, abs=0.0)
    assert 0 < unseen < 0.1 * len(masks) * (len(data) - last)


def test_flips_in_a_header_that_nothing_follows(path: Path) -> None:
    """A header alone is only checked for sense: its numbers and names may be others, its plan any within its budget."""
    data = write(path, rounds=0, finished=False)
    honest = parsed(data)[0]
    free = {"agent", "neighbours", "records", "budget", "filter", "algorithm", "preprocessing", "admmnet"}
    free |= {"delta_clipping"}
    for position in range(len(data)):
        for mask in MASKS[::2]:
            flipped = bytearray(data)
            flipped[position] ^= mask
            if not fails(path, bytes(flipped)):
                line = parsed(bytes(flipped))[0]
                assert {key for key in honest if line[key] != honest[key]} <= free


def test_every_removed_doubled_and_swapped_line_is_found(path: Path) -> None:
    lines = write(path, IPP, 3).splitlines(keepends=True)
    assert len(lines) == 10
    for i in range(len(lines)):
        removed = lines[:i] + lines[i + 1 :]
        # without its end line a ledger is unfinished, not wrong: summary.json knows that it was finished
        assert fails(path, b"".join(removed)) is (i != len(lines) - 1)
        if 0 < i < len(lines) - 1:
            assert f"line {i + 1}: does not follow from the line before" in fault(path, b"".join(removed))
        assert fails(path, b"".join(lines[: i + 1] + lines[i:]))
        for blank in (b"\n", b" \n", b"\r\n", b"{}\n", b"null\n", b"\x00\n"):
            assert fails(path, b"".join([*lines[:i], blank, *lines[i:]]))
        for j in range(i):
            swapped = lines[:]
            swapped[i], swapped[j] = swapped[j], swapped[i]
            assert fails(path, b"".join(swapped))
    for extra in (b"\n", b"{}\n", lines[-1], lines[0], lines[1], b"x", b"\xef\xbb\xbf\n"):
        assert fails(path, b"".join([*lines, extra]))


def test_a_cut_tail_of_an_unfinished_ledger_is_what_a_crash_leaves(path: Path) -> None:
    """The incomplete last line counts for nothing and is said; the first line must be whole."""
    data = write(path)
    first, whole = data.index(b"\n"), [at for at in range(len(data)) if data[at : at + 1] == b"\n"]
    for size in range(len(data)):
        if size < first:
            assert fails(path, data[:size]), size
            continue
        path.write_bytes(data[:size])
        book = audit.read(path)
        # a line that lacks its newline alone is a line
        assert book.torn is (size not in whole and size - 1 not in whole), size
        lines = sum(at <= size for at in whole) - 1
        assert (len(book.events), book.finished) == (min(lines, 2), lines == 3), size
    for extra in (b"{", b'{"kind":"even'):
        assert "the beginning of a line stands behind the end line" in fault(path, data + extra)
    end = data[:-1].rindex(b"\n") + 1
    no_beginnings = (b"x", b"\x00\x00", data[-40:-1], b'{"kinds', data[end:-1] + b"\x0b")
    for tail in no_beginnings:
        assert "line 4: is cut off" in fault(path, data[:end] + tail)


def test_rounds_never_go_back(path: Path) -> None:
    """Behind a resumption the last round may be charged again, of which nothing was sent (Theorem 30)."""
    noise = noise_of(PP)
    header = header_of(under(((noise.objective, 5),), 5.0), noise="private")
    again = {"kind": "resume", "round": 1, "previous": ""}
    lines = parsed(forged(header, [(round_, noise.objective) for round_ in (0, 1, 2, 1, 2)]))[:-1]
    for between in ([], [again]):
        assert "round 1 stands behind round 2" in fault(path, chained([*lines[:4], *between, *lines[4:]]))
    lines = parsed(forged(header, [(round_, noise.objective) for round_ in (0, 1, 2, 2, 3)]))[:-1]
    path.write_bytes(chained([*lines[:4], again, *lines[4:]]))
    book = audit.read(path)
    assert book.resumed == (1,)
    assert [round_ for round_, _, _ in book.events] == [0, 1, 2, 2, 3]
    assert book.totals.rho == pytest.approx(5 * json.loads(encode(lines[1]))["rho"], rel=1e-12)
    for round_, word in ((-1, "-1 is of a stage"), (1.0, "round: expected"), (True, "round: expected")):
        assert word in fault(path, chained([*lines[:4], {**again, "round": round_}, *lines[4:]]))
    seeded = {**lines[0], "noise": "seeded"}
    data = chained([seeded, *lines[1:4], again, *lines[4:]])
    assert "is not the resumption of a private run" in fault(path, data)
    # the chain holds it in its place
    whole = chained([*lines[:4], again, *lines[4:]]).splitlines(keepends=True)
    for cut in (whole[:4] + whole[5:], [*whole[:3], whole[4], whole[3], *whole[5:]]):
        assert "does not follow from the line before" in fault(path, b"".join(cut))


@pytest.mark.parametrize("account", ["", "x" * 64, "A" * 64, "0" * 63, 5, None, ["0" * 64]])
def test_the_accounts_digest_in_a_header_is_one(path: Path, account: Any) -> None:
    header = builtins(HEADER.line())
    path.write_bytes(chained([{**header, "account": "0" * 64}]))
    assert audit.read(path).header["account"] == "0" * 64
    assert "line 1: " in fault(path, chained([{**header, "account": account}]))


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data.replace(b",", b", ", 1),
        lambda data: data.replace(b":", b": ", 1),
        lambda data: data.replace(b"\n", b"\r\n"),
        lambda data: data.replace(b"\n", b" \n", 1),
        lambda data: b"\xef\xbb\xbf" + data,
        lambda data: data[:-1].decode().encode("utf-16") + b"\n",
        lambda data: data.replace(b'"header"', b'"\\u0068eader"', 1),
        lambda data: data.replace(b'"schema":3', b'"schema":3.0', 1),
        lambda data: data.replace(b'"schema":3', b'"schema":true', 1),
        lambda data: data.replace(b'"schema":3', b'"schema":2', 1),
        lambda data: data.replace(b'"epsilon":1.0', b'"epsilon":1e0', 1),
        lambda data: data.replace(b'"epsilon":1.0', b'"epsilon":1.00', 1),
        lambda data: data.replace(b'"agent":0', b'"agent":0,"agent":0', 1),
        lambda data: data.replace(b'"agent":0', b'"agent":-0', 1),
    ],
)
def test_other_forms_of_the_same_content_are_refused(path: Path, change: Callable[[bytes], bytes]) -> None:
    data = change(write(path, rounds=0, finished=False))  # a header alone: no hash helps
    assert "line 1: " in fault(path, data)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "is empty; a ledger starts with its header"),
        (b"\n", "line 1: Input data was truncated"),
        (b"{}\n", "line 1: missing key `schema`"),
        (b"[]\n", "line 1: expected a table, got a list"),
        (b"\xff\xfe\n", "line 1: JSON is malformed"),
        (b"\x00" * 1000, "line 1: is cut off"),
        (b"{" * 100_000 + b"\n", "line 1: JSON is malformed"),
    ],
)
def test_files_that_are_no_ledgers(path: Path, data: bytes, words: str) -> None:
    assert words in fault(path, data)


def test_what_cannot_be_read_is_a_failed_check(tmp_path: Path) -> None:
    with pytest.raises(CheckFailed, match="cannot be read: No such file"):
        audit.read(tmp_path / "agent-000.jsonl")
    with pytest.raises(CheckFailed, match="cannot be read: Is a directory"):
        audit.read(tmp_path)


def test_recomputation_on_another_machine_may_differ_in_the_last_bits(path: Path) -> None:
    lines = parsed(write(path))
    for line in lines[1:3]:
        line["rho"] *= 1.0 + 1e-12
        line["total"]["rho"] *= 1.0 - 1e-12
    lines[3]["total"] = lines[2]["total"]
    path.write_bytes(chained(lines))
    assert audit.read(path).finished
