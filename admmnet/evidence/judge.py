"""The whole verdict on a folder: ledgers, summary and manifest, receipts against each other, and the signature."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec import structs

from admmnet.errors import CheckFailed, RequestError
from admmnet.evidence.compare import compare, hold_keys, read_evidence
from admmnet.record.figures import contradictions
from admmnet.record.finish import check_end, public_files
from admmnet.record.folder import SUMMARY
from admmnet.record.reader import read_run
from admmnet.record.verdict import Verdict, verdict_of
from admmnet.transport.hosts.network import read_network


def judged(folder: Path, against: Sequence[Path] = (), *, network: str | None = None, private: bool = False) -> Verdict:
    """Return the verdict on a folder in which everything holds.

    ``against`` are other agents' folders of the same run, ``network`` is a file that must list the keys, ``key`` that
    of whoever must have signed the folder. It must be a ``private`` run's where that is said. CheckFailed names file,
    line and fault, if anything does not hold. RequestError if a path is no such folder, or there are no receipts to
    hold against others.
    """
    run, *others = (read_run(path, events=False) for path in (folder, *against))
    found = [(one.path, read_evidence(one)) for one in (run, *others)]
    for path, evidence in found:
        if evidence is None and (against or network is not None):
            raise RequestError(f"{path} keeps no receipts: agents on hosts of their own do (`admmnet agent`)")
    kept = [evidence for _, evidence in found if evidence is not None]
    for one in (run, *others):
        if one.finished and (files := public_files(one.path)):
            check_end(one.path, files, one.path)
    receipts = compare(kept) if kept else None
    ledgers = {name: ledger for one in (run, *others) for name, ledger in one.ledgers.items()}
    for one in (run, *others):  # what each says of all agents
        for fault in () if one.summary is None else contradictions(one.path / SUMMARY, one.summary, ledgers):
            raise CheckFailed(fault)
    if run.summary is not None and run.summary.privacy.network is not None:
        from admmnet.record.network import network_fault

        if (wrong := network_fault(read_run(folder))) is not None:
            raise CheckFailed(wrong)
    if network is not None:
        hold_keys(kept[0], read_network(network), network)
    verdict = verdict_of(run)
    if private and verdict.mode.mode != "private":
        raise CheckFailed(f"{folder}: {verdict.mode.line()}; a private run was required")
    assert verdict.integrity is not None
    integrity = structs.replace(verdict.integrity, receipts=receipts, others=len(against))
    return structs.replace(verdict, integrity=integrity)
