"""Sums before the first round, and the records that are encoded by them: docs/methods.md, (113) to (116)."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Collection
from pathlib import Path

import numpy as np
from msgspec.structs import replace

from admmnet.data import Records
from admmnet.data.loading import ENCODING
from admmnet.errors import CheckFailed, RequestError, RunError
from admmnet.files import write_whole
from admmnet.forms import encode
from admmnet.holder.holder import Holder
from admmnet.methods.encoding import BoundsStage, ShapeStage, Stage, WhitenStage
from admmnet.methods.encoding_rule import Prologue
from admmnet.record.encoding import Found, found_in, read_found, write_found
from admmnet.running.party import Party
from admmnet.running.rounds import Rounds
from admmnet.transport import World
from admmnet.transport.collective import share

_LOST = (
    "the run was interrupted while it asked for the sum {name}, before the first round: the answer is lost, the charge "
    "stays, and rows are encoded without it"
)
"""What the reader must know of a stage that a run which went on could not ask again."""


def run_prologue(
    prologue: Prologue,
    data: Records,
    holders: Collection[Holder],
    rounds: Rounds,
    folder: Path,
    known: tuple[Found, set[int], list[str]],
) -> tuple[Records, Found, tuple[str, ...]]:
    """Ask the stages, encode and whiten all records, and return those of tests, encoded alike, with notes.

    Stages that are ``known_before`` are not asked. What a stage finds is in the folder before the next one is asked. A
    run that goes on charges none again: answers are repeated (docs/proofs.md, Theorem 30). RunError if agents were
    given different totals.
    """
    writer, host = rounds.transport.writes, rounds.host
    written = prologue.encoding is not None or prologue.released
    if data.encoding is not None and not written and writer:
        write_whole({folder / ENCODING: encode(data.encoding, indent=2)})
    found, lost, names = known
    encoded, taken = found.encoding is None, bool(found) and not prologue.stages
    if taken and writer:
        write_found(folder, data.encoding, found)
    stages = prologue.stages[len(found.stages) :]
    for stage in stages:
        if isinstance(stage, WhitenStage) and not encoded:
            assert found.encoding is not None
            for holder in holders:
                holder.encode(found.encoding)
            encoded = True
        if stage.number not in lost:
            found = _asked(stage, found, rounds)
        else:
            found = replace(found, stages=(*found.stages, stage.name))
            names.append(stage.name)
        if writer:
            write_found(folder, data.encoding, found)
        if host is not None:
            host.measured(stage.number, found.text, names)
    if stages or taken:
        _same(rounds.transport.world, found)
    if host is not None:
        host.measured(-1, found.text, names)
    for holder in holders:
        if not encoded:
            assert found.encoding is not None
            holder.encode(found.encoding)
        if found.whitening is not None:
            holder.whiten(found.whitening, found.source)
    shards = {i: (found.rows(X), y) for i, (X, y) in data.shards.items()}  # others' that this process has read
    data = dataclasses.replace(data, shards=shards, X_test=found.rows(data.X_test))
    return data, found, tuple(_LOST.format(name=name) for name in names)


def known_before(prologue: Prologue, rounds: Rounds, folder: Path) -> tuple[Found, set[int], list[str]]:
    """What an earlier start has found, stages that are not asked again, as somebody's answer is not there, and names.

    Those are of stages that were lost then.

    Agents of one folder ask all stages again, and are told the same. RequestError if the folder lacks what was found.
    """
    new, taken, world, journal = Found(prologue.encoding), prologue.taken, rounds.transport.world, rounds.journal
    if taken is not None:
        new = replace(new, whitening=taken.whitening, source=taken.source, encoding_from=taken.digest)
    lost = {stage.number for stage in prologue.stages if journal is not None and stage.number in journal.void}
    if (host := rounds.host) is None:
        return new, lost, []
    entry, changed = host.starts[-1].entry, host.starts[-1].changed
    if entry.rule == "go on" and changed is None:
        return new, lost, []
    if changed is not None and entry.round <= 0:  # sums there need all
        return new, {stage.number for stage in prologue.stages}, []
    known = host.known_before(entry.round)
    if entry.round < 0 and not known.text:
        return new, lost, []
    try:
        here = read_found(folder)[1] or new
        kept = found_in(known.text, folder) if known.text else new
    except CheckFailed as error:
        raise RequestError(f"{error}: put back the file that the interrupted run wrote, or run anew") from None
    if entry.round < 0:
        return kept, lost, known.lost
    digests = [said for said in share(world, here.digest, "found") if said is not None]
    if here.digest != max(digests, key=digests.count):
        if here.text == kept.text:
            raise RunError("the others go on with another encoding than this agent has: it can but take their end")
        raise RequestError(
            f"{folder / ENCODING} is not the one that the journal knows of: put back the file that the interrupted run "
            "wrote, or run anew"
        )
    return here, lost, known.lost


def _same(world: World, found: Found) -> None:
    """See that all have found the same: else a total was changed on the way."""
    digests = {i: said for i, said in enumerate(share(world, found.digest, "found")) if said}
    if len({*digests.values()}) > 1:
        wrong = min(digests, key=lambda i: [*digests.values()].count(digests[i]))
        text = f"agent {wrong} received another total before the first round than most, or says so: start the run again"
        world.blame(wrong, text, RunError)


def _asked(stage: Stage, found: Found, rounds: Rounds) -> Found:
    """Ask a stage of all agents; what it says is in what is found."""
    over, party = (*found.stages, stage.name), rounds.party
    if isinstance(stage, ShapeStage) and found.encoding is not None:  # of columns that have bounds by now
        stage = ShapeStage(stage.settings, stage.facts, stage.share, found.encoding, stage.fallback)
        if not stage.which:
            return replace(found, stages=over)
    asked = Party(stage, {i: stage.plan(i, None) for i in party.ids}, party.nodes)
    Rounds(rounds.transport, asked, rounds.faults, rounds.attempts, rounds.journal).run(stage.number)
    party.sent += asked.sent
    party.numbers += asked.numbers
    if isinstance(stage, WhitenStage):
        A = stage.matrix()
        source = ""
        if stage.total is not None and A is not None:  # sha256 of the sum and the agents in it
            parts = [part.astype("<i8").tobytes() for part in (stage.total.value, np.array(stage.total.agents))]
            source = hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()
        return replace(found, whitening=A, source=source, stages=over)
    assert isinstance(stage, BoundsStage)
    return replace(found, encoding=stage.result(), stages=over)
