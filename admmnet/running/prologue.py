"""Sums before the first round, and the records that are encoded by them: docs/methods.md, (113) to (116)."""

from __future__ import annotations

import dataclasses
import hashlib
from pathlib import Path

import numpy as np
from msgspec.structs import replace

from admmnet.data import ENCODING, Records
from admmnet.errors import CheckFailed, RequestError, RunError
from admmnet.files import write_whole
from admmnet.forms import encode
from admmnet.methods.encoding import CountStage, ShapeStage, Stage, WhitenStage
from admmnet.privacy.contract import STAGES
from admmnet.record.encoding import Found, found_in, read_found, write_found
from admmnet.running.attempts import Attempts
from admmnet.running.checkpoint.keeper import Keeper
from admmnet.running.node import Node
from admmnet.running.plan import Plan
from admmnet.running.readout import TailAverage
from admmnet.running.rounds import Rounds
from admmnet.transport import Transport, World, is_writer
from admmnet.transport.collective import share
from admmnet.types import BEFORE, Total

_LOST = (
    "the run was interrupted after it asked for the sum {name}, before the first round: the answer is lost, the charge "
    "stays, and rows are encoded without it"
)
"""What the reader must know of a stage that a run which went on could not ask again."""


def run_prologue(
    plan: Plan,
    transport: Transport,
    blocks: list[list[Node]],
    attempts: Attempts | None,
    keeper: Keeper,
    folder: Path,
    known: tuple[Found, set[int]],
) -> tuple[Records, Found]:
    """Ask the stages, encode and whiten all records, and return those of tests, encoded alike.

    Stages that are ``known_before`` are not asked. What a stage finds is in the folder, and in a checkpoint, before the
    next one is asked. A run that goes on charges none again: answers are repeated where all agents have theirs
    (docs/proofs.md, Theorem 30). RunError if agents were given different totals. RequestError if a run goes on, and the
    folder lacks what it found.
    """
    if plan.data.encoding is not None and not plan.prologue.writes and is_writer(transport):
        write_whole({folder / ENCODING: encode(plan.data.encoding, indent=2)})
    found, lost = known
    encoded = found.encoding is None
    if found and not plan.prologue.stages:
        _write(plan, transport, folder, found)
    stages = plan.prologue.stages[len(found.stages) :]
    for stage in stages:
        keeper.known = found.text
        keeper.save(stage.number, blocks, TailAverage(0))
        if isinstance(stage, WhitenStage) and not encoded:
            _encode(plan, found)
            encoded = True
        if stage.number not in lost:
            found = _asked(plan, stage, found, transport, blocks, attempts, keeper)
        else:
            found = replace(found, stages=(*found.stages, stage.name))
            keeper.notes += (_LOST.format(name=stage.name),)
        _write(plan, transport, folder, found)
    if stages or (found and not plan.prologue.stages):
        _same(transport.world, found)
    if not encoded:
        _encode(plan, found)
    if found.whitening is not None:
        for holder in {id(holder): holder for holder, _ in plan.holders.values()}.values():
            holder.whiten(found.whitening, found.source)
    keeper.known = found.text
    shards = {i: (found.rows(X), y) for i, (X, y) in plan.data.shards.items()}  # others' that this process has read
    return dataclasses.replace(plan.data, shards=shards, X_test=found.rows(plan.data.X_test)), found


def known_before(
    plan: Plan, transport: Transport, blocks: list[list[Node]], keeper: Keeper, folder: Path
) -> tuple[Found, set[int]]:
    """What an earlier start has found, and the stages that are not asked again, as somebody's answer is not there."""
    new, world = _beginning(plan), transport.world
    hosts = None if world.start is None or world.shared_folder else world.start
    if is_new(plan, world):
        return new, set()
    if hosts is not None and hosts.changed is not None and keeper.start <= 0:  # sums there need all
        return new, {stage.number for stage in plan.prologue.stages}
    try:
        here = read_found(folder)[1] or new
        kept = found_in(keeper.known, folder) if keeper.known else new
    except CheckFailed as error:
        raise RequestError(f"{error}: put back the file that the interrupted run wrote, or run anew") from None
    nodes = [node for block in blocks for node in block]
    charged = max((node.ledger.charged for node in nodes), default=BEFORE)
    lacking = [stage.number for stage in plan.prologue.stages if not keeper.repeats(stage.number, nodes)]
    words = share(transport.world, [here.digest, charged, lacking], "stages")
    told = [said for said in words if isinstance(said, list) and len(said) == 3]
    last = max((said for _, said, _ in told if type(said) is int), default=BEFORE)
    lost = {number for _, _, said in told if isinstance(said, list) for number in said if type(number) is int}
    if keeper.start >= 0:
        if here.text != kept.text:
            raise RequestError(
                f"{folder / ENCODING} is not the one that the checkpoint knows of: put back the file that the "
                "interrupted run wrote, or run anew"
            )
        digests = [said for said, _, _ in told]
        if hosts is not None and here.digest != max(digests, key=digests.count):
            raise RunError("the others go on with another encoding than this agent has: it can but take their end")
        return here, lost
    # of a seeded run the stage is asked again, and gives the same
    newer = not plan.run.seeded and len(here.stages) > len(kept.stages) and STAGES[here.stages[-1]] <= last
    return here if newer and all(said == here.digest for said, _, _ in told) else kept, lost


def is_new(plan: Plan, world: World) -> bool:
    """Whether no process has had a start of the run before, the same at all."""
    return plan.run.resume is None if world.start is None or world.shared_folder else world.start.new


def _beginning(plan: Plan) -> Found:
    """What is known before the first sum."""
    encoding, taken = plan.prologue.encoding, plan.prologue.taken
    if taken is None:
        return Found(encoding)
    return Found(encoding, taken.whitening, taken.source, encoding_from=taken.digest)


def _write(plan: Plan, transport: Transport, folder: Path, found: Found) -> None:
    """Have what was found on the disk before anything else is asked."""
    if is_writer(transport):
        write_found(folder, plan.data.encoding, found)


def _same(world: World, found: Found) -> None:
    """See that all have found the same: else a total was changed on the way."""
    digests = {i: said for i, said in enumerate(share(world, found.digest, "found")) if said}
    if len({*digests.values()}) > 1:
        wrong = min(digests, key=lambda i: [*digests.values()].count(digests[i]))
        text = f"agent {wrong} received another total before the first round than most, or says so: start the run again"
        world.blame(wrong, text, RunError)


def _encode(plan: Plan, found: Found) -> None:
    assert found.encoding is not None
    for holder in {id(holder): holder for holder, _ in plan.holders.values()}.values():
        holder.encode(found.encoding)


def _asked(
    plan: Plan,
    stage: Stage,
    found: Found,
    transport: Transport,
    blocks: list[list[Node]],
    attempts: Attempts | None,
    keeper: Keeper,
) -> Found:
    """Ask a stage of all agents; what it says is in what is found."""
    over = (*found.stages, stage.name)
    if isinstance(stage, ShapeStage) and found.encoding is not None:  # of columns that have bounds by now
        stage = ShapeStage(stage.settings, stage.facts, stage.share, found.encoding, stage.fallback)
        if not stage.which:
            return replace(found, stages=over)
    plans = {i: stage.plan(i, None) for i in plan.agents}
    nodes = [
        [Node(stage.agent(node.id, plans[node.id]), stage, node.door, node.ledger) for node in block]
        for block in blocks
    ]
    Rounds(replace(plan, method=stage), transport, nodes, attempts, keeper).run(stage.number)
    for node, asked in zip(_all(blocks), _all(nodes), strict=True):
        node.agent.sent += asked.agent.sent
        node.agent.numbers += asked.agent.numbers
    if isinstance(stage, WhitenStage):
        A = stage.matrix()
        source = "" if stage.total is None or A is None else _digest(stage.total)
        return replace(found, whitening=A, source=source, stages=over)
    assert isinstance(stage, CountStage)
    return replace(found, encoding=stage.result(), stages=over)


def _digest(total: Total) -> str:
    """sha256 of a sum and the agents in it."""
    parts = total.value, np.array(total.agents)
    return hashlib.sha256(b"".join(hashlib.sha256(part.astype("<i8").tobytes()).digest() for part in parts)).hexdigest()


def _all(blocks: list[list[Node]]) -> list[Node]:
    return [node for block in blocks for node in block]
