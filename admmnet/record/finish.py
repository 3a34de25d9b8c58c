"""finish.json: who has the last files of a run on its disk, each signed; and taking them over (docs/hosts.md)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import structs

from admmnet.config.toml import load_saved
from admmnet.data.figures import mean_of
from admmnet.errors import CheckFailed, RequestError
from admmnet.files import write_whole
from admmnet.forms import decode, encode, read_form
from admmnet.identity.keys import statement, verify
from admmnet.privacy.ledger.form import Digest
from admmnet.record.folder import DRAFTS, PART, SUMMARY, PartFile, last_files, ledger_name, model_arrays
from admmnet.record.forms import AgentKey, FileForm, References, StartEntry, Summary, TestError, absent
from admmnet.record.journal import starts_of
from admmnet.record.reader import look_at
from admmnet.record.receipts import Signature, read_keys
from admmnet.record.verdict import contradictions, over_runs
from admmnet.transport.hosts import Network
from admmnet.transport.zmq.meeting import end_statement
from admmnet.transport.zmq.wire import End

FINISH = "finish.json"
PUBLIC = ("model.npz", SUMMARY)
"""Files that an agent gives to others, or takes over, with finish.json; all else in a folder is its own."""
UNSIGNED = ("privacy", "test_error", "references", "train_loss", "far_from_others", "bytes_sent", "notes", "versions")
"""Fields of a summary that may differ between agents. Of privacy the ledgers tell."""
TAKEN = (
    "taken over from another agent: test figures, references, noise.npy and notes are left out, as they are not "
    "signed, and metrics.csv is this agent's own; `admmnet evaluate` makes the first two"
)
"""Note of a summary that an agent has received."""


class Finish(FileForm, frozen=True, kw_only=True):
    """finish.json: the end of a run whose agents have folders of their own, and who had its files on disk by then."""

    run: Digest
    """Name of the run: of its first start."""
    network: str
    """Digest of the network file."""
    digest: Digest
    staged: dict[AgentKey, Signature]
    """Their signatures of the end."""


def quorum(agents: int) -> int:
    """Fewest agents that make an end: more than half, so that there is one end."""
    return agents // 2 + 1


def read_end(files: Mapping[str, bytes], where: object = "the last files") -> tuple[Summary, str]:
    """Summary among last files, and sha256 of all that agents sign; CheckFailed if they cannot be read.

    Signed is what is one for all agents to the bit: the arrays of model.npz but for the average, what agents say of
    themselves, with the digests of their ledgers, and all else of the summary but what may differ between them.
    """
    summary, model = decode(Summary, files.get(SUMMARY, b""), f"{where}/{SUMMARY}", indent=2), model_of(files, where)
    arrays = [(name, array.astype(array.dtype.newbyteorder("<"))) for name, array in sorted(model.items())]
    shapes = [word for name, array in arrays for word in (name, array.dtype.str, str(array.shape), array.tobytes())]
    ledgers = [word for name, digest in sorted(summary.ledgers.items()) for word in (name, digest)]
    listed = [ledger_name(one.agent, summary.agents) in summary.ledgers for one in summary.per_agent]
    entries = [  # who is away may come back at one agent before another: releases of its are counted by each
        one if there else structs.replace(one, releases=0) for one, there in zip(summary.per_agent, listed, strict=True)
    ]
    last = [structs.replace(start, number=0, cause="") for start in summary.starts[-1:]]
    data = structs.replace(summary.data, name="", preprocessing="")  # of an agent's own file
    changed = {"data": data, "per_agent": entries, "starts": last}
    own = encode(structs.replace(summary, **dict.fromkeys((*UNSIGNED, "ledgers", "away")), **changed))
    return summary, hashlib.sha256(statement("end", summary.rounds, *ledgers, own, *shapes)).hexdigest()


def check_finish(finish: Finish, keys: Mapping[int, str], where: object) -> None:
    """Raise CheckFailed for an end that fewer than a quorum of the agents with these signing keys have signed."""
    said = end_statement(finish.network, finish.run, finish.digest)
    for name, signature in finish.staged.items():
        key = keys.get(int(name))
        if key is None or not verify(key, bytes.fromhex(signature), said):
            raise CheckFailed(f"{where}: agent {name} has not signed this end")
    signed = len({int(name) for name in finish.staged})
    if signed < quorum(len(keys)):
        raise CheckFailed(f"{where}: {signed} of {len(keys)} agents have signed, {quorum(len(keys))} must")


def kept_end(folder: Path) -> End | None:
    """The end of a run that a relay has kept in its folder, if there is one; CheckFailed if some of it is missing."""
    files = public_files(folder)
    if not files and (folder / FINISH).exists():
        raise CheckFailed(f"{folder}: {FINISH} is there, and {SUMMARY} is not: put it back")
    finish = files.pop(FINISH, b"")
    return End(read_end(files)[1], files, finish) if finish else None


def keep_end(network: Network, folder: Path, run: str, end: End, signed: Mapping[int, bytes]) -> End | None:
    """Keep files that these agents have signed as the end of a run; None if they are not those that were signed."""
    staged = {str(i): signed[i].hex() for i in sorted(signed)}
    finish = Finish(run=run, network=network.digest, digest=end.digest, staged=staged)
    try:
        if read_end(end.files)[1] != end.digest:
            return None
        files = bare({name: end.files[name] for name in PUBLIC if name in end.files}, "an end")
        check_finish(finish, {peer.agent: peer.identity for peer in network.peers}, "an end")
    except CheckFailed:
        return None
    last = encode(finish, indent=2)
    write_whole({folder / name: data for name, data in {**files, FINISH: last}.items()})
    return End(end.digest, files, last)


def check_end(folder: Path, files: Mapping[str, bytes], where: object) -> Summary:
    """Hold last files against their finish.json, and that against a folder of the run; return their summary.

    CheckFailed says that the end is of another run, is not signed by a quorum, or is not that of these files.
    """
    finish = decode(Finish, files.get(FINISH, b""), f"{where}/{FINISH}", indent=2)
    known = read_keys(folder)
    if finish.run != known.run:
        raise CheckFailed(f"{where}/{FINISH}: is of another run: this one is called {known.run[:16]}")
    check_finish(finish, known.by_agent, f"{where}/{FINISH}")
    summary, digest = read_end(files, where)
    if digest != finish.digest:
        raise CheckFailed(f"{where}: model, ledgers or figures are not those that were signed")
    return summary


def model_of(files: Mapping[str, bytes], where: object) -> dict[str, Any]:
    """Arrays of model.npz but the average; CheckFailed if they cannot be read, or their mean is another one."""
    arrays = model_arrays(files.get("model.npz", b""), f"{where}/model.npz")
    theta, consensus = arrays["theta"], arrays.pop("consensus")
    if not np.allclose(consensus, mean_of(theta), 1e-9, equal_nan=True):
        raise CheckFailed(f"{where}/model.npz: consensus is no mean of the models")
    return arrays


def keep_drafts(folder: Path, files: Mapping[str, bytes]) -> None:
    """Have the last files on the disk, under their names in a folder of drafts; RunError if the disk refuses."""
    (folder / DRAFTS).mkdir(parents=True, exist_ok=True)
    write_whole({folder / DRAFTS / name: content for name, content in files.items()})


def staged(folder: Path) -> End | None:
    """The end whose files are drafts in a folder."""
    there = {name: path for name in (*PUBLIC, "noise.npy") if (path := folder / DRAFTS / name).exists()}
    files = {name: path.read_bytes() for name, path in there.items()}
    return End(read_end(files)[1], files) if SUMMARY in files else None


def public_files(folder: Path) -> dict[str, bytes]:
    """Files of a finished run that others may have; none where it has no finish.json."""
    found = {name: (folder / name).read_bytes() for name in (*PUBLIC, FINISH) if (folder / name).exists()}
    return bare(found, folder) if {FINISH, SUMMARY} <= found.keys() else {}


def bare(files: Mapping[str, bytes], where: object) -> dict[str, bytes]:
    """Last files without what names folders of this host, and without sums over this agent's account."""
    summary = decode(Summary, files[SUMMARY], f"{where}/{SUMMARY}", indent=2)
    left = structs.replace(summary, notes=[], privacy=structs.replace(summary.privacy, **over_runs((), None)))
    return {**files, SUMMARY: encode(left, indent=2)}


def received(folder: Path, files: Mapping[str, bytes], where: object) -> dict[str, bytes]:
    """Last files of another agent, held against this agent's ledger, without figures that nobody has signed.

    CheckFailed says that the others know another ledger, or that a figure is not what ledger and signed ones give.
    """
    summary, part = read_end(files, where)[0], read_form(PartFile, folder / PART)
    models = len(model_of(files, where)["theta"])
    if not summary.agents == models == part.agents:
        raise CheckFailed(f"{where}: are of {summary.agents} agents with {models} models, not of {part.agents}")
    members = set(range(summary.agents)) - absent(summary)
    if summary.ledgers.keys() != {ledger_name(i, summary.agents) for i in members}:
        raise CheckFailed(f"{where}/{SUMMARY}: its ledgers do not belong to the members of the last start")
    for name, digest in summary.ledgers.items():
        path = folder / name
        if path.exists() and hashlib.sha256(path.read_bytes()).hexdigest() != digest:
            raise CheckFailed(
                f"{path}: is not the ledger that the others know, with sha256 {digest[:16]}; put that back"
            )
    last = [structs.replace(start, cause="") for start in summary.starts[-1:]]
    before = starts_of(folder)
    here = [one for one in before if last and (one.members, one.round) == (last[0].members, last[0].round)]
    starts = before if here and here[-1] is before[-1] else before + last if last else []
    living = [entry for entry in summary.per_agent if entry.agent in members]
    account = over_runs(living, load_saved(folder).account)  # a folder of this host
    own = structs.replace(
        summary,
        privacy=structs.replace(summary.privacy, network=None, **account),
        test_error=TestError(mean=None, std=None, consensus=None, records=None),
        references=References(pooled=None),
        train_loss=None,
        far_from_others={},
        notes=[TAKEN],
        versions={},
        starts=starts,
        away=away_of(starts, summary.rounds, summary.agents) if starts else {},
    )
    run = look_at(folder, events=False)
    faults = (f"{where}/{SUMMARY}: {fault}" for fault in contradictions(own, run.ledgers))
    for fault in faults if run.ledgers else run.faults:
        raise CheckFailed(fault)
    return {**files, SUMMARY: encode(own, indent=2)}


def away_of(starts: Sequence[StartEntry], rounds: int, agents: int) -> dict[str, list[str]]:
    """Agents that took no part in rounds of the starts of a run of so many rounds, as ranges of rounds."""
    ends = [*(max(0, start.round) for start in starts[1:]), rounds]
    found: dict[str, list[str]] = {}
    for i in range(agents):
        out: list[list[int]] = []
        missed = [(max(0, one.round), end) for one, end in zip(starts, ends, strict=True) if i not in one.members]
        for first, end in sorted(span for span in missed if span[0] < span[1]):
            if out and first <= out[-1][1]:
                out[-1][1] = max(end, out[-1][1])
            else:
                out.append([first, end])
        if out:
            found[str(i)] = [f"{first}-{end - 1}" if end - first > 1 else f"{first}" for first, end in out]
    return found


def take_end(folder: Path, end: End) -> None:
    """Finish an agent's folder with an end that most have signed: by its own drafts, or the files of others.

    Its ledger stays. RequestError says that the folder is finished, CheckFailed that the files are of no end of this
    run, or as ``received`` does.
    """
    if (folder / SUMMARY).exists():
        raise RequestError(f"the run in {folder} is finished: there is no end to take")
    drafts, where = staged(folder), "the end that most agents have signed"
    own = drafts if drafts is not None and drafts.digest == end.digest else None
    files = own.files if own is not None else {name: end.files[name] for name in PUBLIC if name in end.files}
    check_end(folder, {**files, FINISH: end.finish}, where)
    files = files if own is not None else received(folder, files, where)
    write_whole({folder / FINISH: end.finish, **last_files(folder, files)})
