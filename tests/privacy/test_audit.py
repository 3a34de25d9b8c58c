"""What verification finds in a changed file, and what it cannot find."""

from __future__ import annotations

import math
import os
from pathlib import Path

import pytest
from msgspec import structs, to_builtins

from admmnet import RunConfig
from admmnet.errors import CheckFailed
from admmnet.privacy.contract import Contract
from admmnet.privacy.events import Event, Unprotected
from admmnet.privacy.ledger import audit, checks, lines
from admmnet.privacy.ledger.form import stated, total_line

from .ledgers import HEADER, IPP, MASKS, PP, chained, fails, fault, forged, header_of, noise_of, parsed, write

LARGE = bool(os.environ.get("ADMMNET_TEST_LARGE"))


@pytest.mark.parametrize("setting", [PP, IPP], ids=["pp-admm", "ipp-admm"])
@pytest.mark.parametrize("finished", [True, False])
@pytest.mark.parametrize("rounds", [0, 3])
def test_honest_ledgers_hold(path: Path, setting: RunConfig, rounds: int, finished: bool) -> None:
    data = write(path, setting, rounds, finished=finished)
    book, noise = audit.read(path), noise_of(setting)
    assert (book.finished, book.delta, book.header) == (finished, 1e-4, parsed(data)[0])
    events: list[tuple[int, Event]] = []
    for r in range(rounds):
        events.append((r, noise.objective))
        if noise.gate:
            events.append((r, noise.gate[r > 0]))
        if not noise.gate or r != 1:
            events.append((r, noise.release[-1]))
    assert [(round_, event) for round_, event, _ in book.events] == events
    assert [line for _, _, line in book.events] == parsed(data)[1 : 1 + len(events)]
    assert (book.contract, book.count) == (noise.contract, len(events))
    total = total_line(book.totals, noise.contract)
    assert parsed(data)[-1].get("total", book.total()) == to_builtins(total) == book.total()


def test_last_bits_of_another_machine_stay_in_its_header() -> None:
    right = HEADER.line.delta_clipping
    assert right is not None
    other = structs.replace(HEADER.line, delta_clipping=right * (1.0 + 1e-10))
    assert checks.contract_of(other) == HEADER.contract
    assert stated(HEADER.contract)["delta_clipping"] == right


def test_without_privacy_costs_are_null(path: Path) -> None:
    header = header_of(Contract(form="published"), "admm")
    path.write_bytes(forged(header, [(0, Unprotected()), (1, Unprotected())]))
    book = audit.read(path)
    assert (book.delta, book.totals.rho) == (None, math.inf)
    first, event, _, end = parsed(path.read_bytes())
    assert first["budget"] == {"epsilon": None, "delta": None}
    nothing = {"rho": None, "xi": 0.0, "epsilon_spent": None, "epsilon_published": None}
    assert (event["rho"], event["rho_published"], event["total"], end["total"]) == (None, None, nothing, nothing)


def test_every_flipped_bit_of_a_finished_ledger_is_found(path: Path) -> None:
    """One bit of every byte, another from byte to byte; with ADMMNET_TEST_LARGE=1 all of them."""
    data = write(path)
    for position in range(len(data)):
        for mask in MASKS if LARGE else (MASKS[position % 8],):
            flipped = bytearray(data)
            flipped[position] ^= mask
            assert fails(path, bytes(flipped)), (position, mask, data[max(0, position - 20) : position + 20])
    assert not fails(path, data)


def test_every_removed_doubled_and_swapped_line_is_found(path: Path) -> None:
    whole = write(path, IPP, 2).splitlines(keepends=True)
    for i in range(len(whole)):
        removed = b"".join(whole[:i] + whole[i + 1 :])
        # without its end line a ledger is unfinished, not wrong: summary.json knows that it was finished
        assert fails(path, removed) is (i != len(whole) - 1)
        if 0 < i < len(whole) - 1:
            assert f"line {i + 1}: does not follow from the line before" in fault(path, removed)
        assert fails(path, b"".join(whole[: i + 1] + whole[i:]))
        for blank in (b"\n", b" \n", b"{}\n", b"\x00\n"):
            assert fails(path, b"".join([*whole[:i], blank, *whole[i:]]))
        for j in range(i):
            swapped = whole[:]
            swapped[i], swapped[j] = swapped[j], swapped[i]
            assert fails(path, b"".join(swapped))
    for extra in (b"\n", b"{}\n", whole[-1], whole[0], whole[1], b"x", b"\xef\xbb\xbf\n"):
        assert fails(path, b"".join([*whole, extra]))


def test_a_cut_tail_of_an_unfinished_ledger_is_what_a_crash_leaves(path: Path) -> None:
    """The incomplete last line counts for nothing and is said; the first line must be whole."""
    data = write(path)
    first, whole = data.index(b"\n"), [at for at in range(len(data)) if data[at : at + 1] == b"\n"]
    for size in range(0, len(data), 1 if LARGE else 3):
        if size < first:
            assert fails(path, data[:size]), size
            continue
        path.write_bytes(data[:size])
        book = audit.read(path)
        # a line that lacks its newline alone is a line
        assert book.torn is (size not in whole and size - 1 not in whole), size
        count = sum(at <= size for at in whole) - 1
        assert (len(book.events), book.finished) == (min(count, 2), count == 3), size
    for extra in (b"{", b'{"kind":"even'):
        assert "the beginning of a line stands behind the end line" in fault(path, data + extra)
    end = data[:-1].rindex(b"\n") + 1
    for tail in (b"x", b"\x00\x00", data[-40:-1], b'{"kinds', data[end:-1] + b"\x0b"):  # no beginnings of a line
        assert "line 4: is cut off" in fault(path, data[:end] + tail)


def test_a_file_that_is_cut_between_two_readings(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its lines are counted before they are read: a whole ledger that is shorter by then is not taken for it."""
    write(path, finished=False)
    ending = lines.ending

    def cut(path: Path) -> tuple[int, int, bytes]:
        found = ending(path)
        os.truncate(path, found[1])
        return found

    monkeypatch.setattr(audit, "ending", cut)
    with pytest.raises(CheckFailed, match="stood here a moment ago"):
        audit.read(path)


def test_other_forms_of_the_same_content_are_refused(path: Path) -> None:
    data = write(path, rounds=0, finished=False)  # a header alone: no hash helps
    for old, new in ((b",", b", "), (b"\n", b"\r\n"), (b"1.0", b"1e0"), (b'"agent":0', b'"agent":0,"agent":0')):
        assert "line 1: " in fault(path, data.replace(old, new, 1))
    assert "line 1: " in fault(path, b"\xef\xbb\xbf" + data)


def test_files_that_are_no_ledgers(path: Path) -> None:
    for data, words in (
        (b"", "is empty; a ledger starts with its header"),
        (b"{}\n", "line 1: missing key `schema`"),
        (b"\xff\xfe\n", "line 1: JSON is malformed"),
        (b"\x00" * 1000, "line 1: is cut off"),
        (b"{" * 100_000 + b"\n", "line 1: JSON is malformed"),
    ):
        assert words in fault(path, data)
    for other, words in ((path.with_name("missing"), "No such file"), (path.parent, "Is a directory")):
        with pytest.raises(CheckFailed, match=f"cannot be read: {words}"):
            audit.read(other)


def test_recomputation_on_another_machine_may_differ_in_the_last_bits(path: Path) -> None:
    own = parsed(write(path))
    for line in own[1:3]:
        line["rho"] *= 1.0 + 1e-12
        line["total"]["rho"] *= 1.0 - 1e-12
    own[3]["total"] = own[2]["total"]
    path.write_bytes(chained(own))
    assert audit.read(path).finished
