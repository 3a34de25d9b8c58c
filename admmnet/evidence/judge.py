"""The whole verdict on a folder: ledgers, summary and manifest, and receipts against each other (docs/ledger.md).

Receipts show who forged a ledger or rolled it back, or told agents different things.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from msgspec import structs

from admmnet.errors import CheckFailed, RequestError
from admmnet.privacy.ledger.lines import digest
from admmnet.record.finish import check_end, public_files
from admmnet.record.folder import SUMMARY, measured
from admmnet.record.reader import Run, read_run, verdict_of
from admmnet.record.receipts import FILE, Keys, Receipt, read_receipts
from admmnet.record.verdict import Verdict, contradictions
from admmnet.transport.hosts import read_network


class Evidence(NamedTuple):
    """Words in one run folder, all signed."""

    run: Run
    keys: Keys
    receipts: list[Receipt]


def judged(folder: Path, against: Sequence[Path] = (), *, network: str | None = None, private: bool = False) -> Verdict:
    """Return the verdict on a folder in which everything holds.

    ``against`` are other agents' folders of the same run, ``network`` is a file that must list the keys. It must be a
    ``private`` run's where that is said. CheckFailed names file, line and fault, if anything does not hold.
    RequestError if a path is no such folder, or there are no receipts to hold against others.
    """
    run, *others = (read_run(path, events=False) for path in (folder, *against))
    kept = list[Evidence]()
    for one in (run, *others):
        if (one.path / FILE).exists():
            kept.append(Evidence(one, *read_receipts(one.path)))
        elif against or network is not None:
            raise RequestError(f"{one.path} keeps no receipts: agents on hosts of their own do (`admmnet agent`)")
    for one in (run, *others):
        if one.finished and (files := public_files(one.path)):
            check_end(one.path, files, one.path)
    receipts = compare(kept) if kept else None
    ledgers = {name: ledger for one in (run, *others) for name, ledger in one.ledgers.items()}
    for one in (run, *others):  # what each says of all agents
        for fault in () if one.summary is None else contradictions(one.summary, ledgers, measured(one.path)):
            raise CheckFailed(f"{one.path / SUMMARY}: {fault}")
    if run.summary is not None and run.summary.privacy.network is not None:
        from admmnet.record.network import network_fault

        if (wrong := network_fault(read_run(folder))) is not None:
            raise CheckFailed(wrong)
    peers = () if network is None else read_network(network).peers
    for agent, key in () if network is None else kept[0].keys.by_agent.items():
        if agent >= len(peers) or key != peers[agent].identity:
            raise CheckFailed(f"{folder / FILE}: the key of agent {agent} is none that {network} lists for it")
    verdict = verdict_of(run)
    if private and verdict.mode.mode != "private":
        raise CheckFailed(f"{folder}: {verdict.mode.line()}; a private run was required")
    assert verdict.integrity is not None
    integrity = structs.replace(verdict.integrity, receipts=receipts, others=len(against))
    return structs.replace(verdict, integrity=integrity)


def compare(folders: Sequence[Evidence]) -> int:
    """Hold all words against each other, and against the ledgers in these folders; return how many there are.

    CheckFailed names the agent that lied, or those between whom somebody lied, and where that shows. RequestError if
    folders are not of one run.
    """
    first, *others = folders
    for other in others:
        if other.keys.run != first.keys.run:
            raise RequestError(f"{other.run.path} and {first.run.path} are not of one run: it has another name there")
        for agent, key in other.keys.keys.items():
            if first.keys.keys.get(agent) != key:
                raise CheckFailed(
                    f"{first.run.path / FILE} and {other.run.path / FILE} list different keys of agent {agent} for one "
                    "run: one of them was changed; --network FILE shows which"
                )
    kept = sorted((one for folder in folders for one in folder.receipts), key=lambda one: one.word.age)
    turns, heads = dict[tuple[str, int, int], Receipt](), dict[tuple[int, int], Receipt]()
    for one in kept:
        word = one.word
        before = turns.setdefault((word.start, word.agent, word.turn), one)
        if before.word != structs.replace(word, to=before.word.to):  # it says the same to all, or to each neighbour
            raise CheckFailed(
                f"agent {word.agent} has signed two different words in turn {word.turn} of one start, "
                f"{'vectors' if before.word.said != word.said else 'ledgers'}: {before} and {one}"
            )
        before = heads.setdefault((word.agent, word.lines), one)
        if before.word.head != word.head:
            raise CheckFailed(f"agent {word.agent} has told of two ledgers of {word.lines} lines: {before} and {one}")
    for folder in folders:
        for name, ledger in folder.run.ledgers.items():
            own = [one for one in kept if one.word.agent == ledger.header["agent"] and one.word.lines]
            _hold_ledger(folder.run.path / name, own)
        for teller in folders:
            for name, ledger in folder.run.ledgers.items():
                said = None if teller.run.summary is None else teller.run.summary.ledgers.get(name)
                if said is not None and said != ledger.sha256:
                    raise CheckFailed(
                        f"{folder.run.path / name}: its sha256 is not the one in {teller.run.path}/summary.json: one "
                        "of the two was changed after the run; neither is signed, so neither is proven wrong"
                    )
    return len(kept)


def _hold_ledger(path: Path, told: Iterable[Receipt]) -> None:
    """Hold a ledger against what its agent has told of it."""
    digests = [digest(line) for line in path.read_bytes().split(b"\n")[:-1]]
    for one in told:
        word = one.word
        said = f"agent {word.agent} told {'all' if word.to < 0 else f'agent {word.to}'}"
        if word.lines > len(digests):
            raise CheckFailed(
                f"{path}: has {len(digests)} lines, {said} that it had {word.lines} ({one}): it was cut or rolled back"
            )
        if digests[word.lines - 1] != word.head:
            raise CheckFailed(f"{path}: line {word.lines}: is not the line that {said} ({one}): it was made anew")
