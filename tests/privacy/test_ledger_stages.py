"""Lines of sums before the first round: in their order, and only where the header lists their stage."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from admmnet.errors import CheckFailed
from admmnet.privacy.contract import EARLIEST, STAGES, Contract, Promise
from admmnet.privacy.events import DiscreteGaussian
from admmnet.privacy.filters import Count
from admmnet.privacy.ledger import audit
from admmnet.privacy.ledger.file import Ledger, LedgerFile
from admmnet.privacy.ledger.form import Header
from admmnet.types import BEFORE

EVENT = DiscreteGaussian(1.0, 50.0, 2.0**-25, 12)
CONTRACT = Contract(Promise(1.0, 1e-4), Count.of(((EVENT, 6),), 1.0, 1e-4))
HEADER = Header(0, (1,), 90, CONTRACT, "noisy-gd", "private", "private", "0", mode="private", stages=tuple(STAGES))


def written(folder: Path, header: Header, rounds: list[int]) -> audit.VerifiedLedger:
    path = folder / f"{len(list(folder.iterdir()))}.jsonl"
    ledger = Ledger(LedgerFile(path, durable=False), header)
    for round in rounds:
        ledger.charge(round, EVENT)
    ledger.end()
    ledger.close()
    return audit.read(path)


def test_stages_stand_before_the_first_round(tmp_path: Path) -> None:
    found = written(tmp_path, HEADER, [-3, -2, -1, 0, 0])
    assert [round for round, _, _ in found.events] == [-3, -2, -1, 0, 0]
    assert (found.header["stages"], found.header["preprocessing"], found.last) == ([*STAGES], "private", 0)
    assert "stages" not in written(tmp_path, replace(HEADER, stages=()), [0]).header
    assert [written(tmp_path, HEADER, rounds).last for rounds in ([-3, -2], [])] == [-2, BEFORE]
    assert EARLIEST == -3


@pytest.mark.parametrize(
    ("stages", "rounds", "told"),
    [
        ((), [-1], r"round -1 is of a stage that its header has not: \[\]"),
        (("shape", "whiten"), [-3], r"round -3 is of a stage that its header has not: \['shape', 'whiten'\]"),
        (tuple(STAGES), [-4], "round"),
        (tuple(STAGES), [-2, -3], "round -3 stands behind round -2"),
        (tuple(STAGES), [0, -1], "round -1 stands behind round 0"),
    ],
)
def test_a_stage_in_no_header_or_out_of_order_does_not_verify(
    tmp_path: Path, stages: tuple[str, ...], rounds: list[int], told: str
) -> None:
    with pytest.raises(CheckFailed, match=told):
        written(tmp_path, replace(HEADER, stages=stages), rounds)
