"""Sums before the first round, and the records that are encoded by them: docs/algorithms.md, (113) to (116)."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import Any

from admmnet.data import Records
from admmnet.errors import RunError
from admmnet.evidence.receipts import digest_of_sum
from admmnet.holder.encoding import Encoding, RawRows, encode_rows, to_sphere
from admmnet.methods.encoding import CountStage, ShapeStage, Stage, WhitenStage
from admmnet.running.attempts import Attempts
from admmnet.running.node import Node
from admmnet.running.plan import Prepared
from admmnet.running.rounds import Rounds
from admmnet.transport import Transport
from admmnet.types import Matrix


@dataclass(frozen=True)
class Found:
    """What is known of the records: nothing but totals went into it."""

    encoding: Encoding | None = None
    """Of raw records; None where they came encoded."""
    whitening: Matrix | None = None
    """A, shape (d, d)."""
    source: str = ""
    """sha256 of the total that A was made from: on other processors its last bits may differ."""
    stages: tuple[str, ...] = ()
    """Those that are over, void ones included."""

    @property
    def digest(self) -> str:
        """sha256 of what all agents must have alike."""
        encoding = "" if self.encoding is None else self.encoding.digest
        return hashlib.sha256(f"{encoding} {self.source} {self.stages}".encode()).hexdigest()

    def rows(self, X: Any) -> Any:
        """Rows of norm 1 of records that no holder has."""
        if isinstance(X, RawRows) and self.encoding is not None:
            X = encode_rows(X, self.encoding)
        return X if self.whitening is None else to_sphere(X @ self.whitening.T)


def run_prologue(
    plan: Prepared, transport: Transport, blocks: list[list[Node]], attempts: Attempts | None
) -> tuple[Records, Found]:
    """Ask the stages, encode and whiten all records, and return those of tests, encoded alike.

    Raises
    ------
    RunError
        If agents were given different totals.
    """
    found = Found(plan.prologue.encoding)
    encoded = found.encoding is None
    for stage in plan.prologue.stages:
        if isinstance(stage, WhitenStage) and not encoded:
            _encode(plan, found)
            encoded = True
        found = _asked(plan, stage, found, transport, blocks, attempts)
    if not encoded:
        _encode(plan, found)
    if found.whitening is not None:
        for holder in {id(holder): holder for holder, _ in plan.holders.values()}.values():
            holder.whiten(found.whitening, found.source)
    if plan.prologue.stages and len({*filter(None, transport.world.gather(found.digest))}) > 1:
        raise RunError(
            "agents were given different totals before the first round, so that their records would be encoded "
            "differently: somebody on the way has handed on another one; start the run again"
        )
    return replace(plan.data, X_test=found.rows(plan.data.X_test)), found


def _encode(plan: Prepared, found: Found) -> None:
    assert found.encoding is not None
    for holder in {id(holder): holder for holder, _ in plan.holders.values()}.values():
        holder.encode(found.encoding)


def _asked(
    plan: Prepared,
    stage: Stage,
    found: Found,
    transport: Transport,
    blocks: list[list[Node]],
    attempts: Attempts | None,
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
    own = attempts if attempts is None else attempts.of_stage(stage.largest)
    Rounds(replace(plan, method=stage), transport, nodes, None, own).run(stage.number)
    if attempts is not None and own is not None:
        attempts.after(own)
    for node, asked in zip(_all(blocks), _all(nodes), strict=True):
        node.agent.sent += asked.agent.sent
        node.agent.numbers += asked.agent.numbers
    if isinstance(stage, WhitenStage):
        A = stage.matrix()
        source = "" if A is None else digest_of_sum(stage.total).hex()
        return replace(found, whitening=A, source=source, stages=over)
    assert isinstance(stage, CountStage)
    return replace(found, encoding=stage.result(), stages=over)


def _all(blocks: list[list[Node]]) -> list[Node]:
    return [node for block in blocks for node in block]
