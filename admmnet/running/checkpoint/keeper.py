"""Checkpoints of a run, and going on from them (docs/ledger.md, "Checkpoints").

A checkpoint is a folder ``checkpoint/<rounds done>`` with a part from every process. Seeded runs keep everything
that the next round depends on. Others keep released values and public facts, and in the outbox beside each part what
was answered since: rounds that are repeated ask nothing anew (docs/proofs.md, Theorem 30).
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from admmnet.files import sync
from admmnet.graph.tree import spanning_tree
from admmnet.holder.outbox import Outbox
from admmnet.log import say
from admmnet.running.checkpoint.choosing import SCHEMA, Chosen
from admmnet.running.checkpoint.outbox import OutboxFile
from admmnet.running.checkpoint.packing import digest, pack, write_archive
from admmnet.running.checkpoint.restoring import move_on, put_states, restore_node
from admmnet.running.checkpoint.state import node_state, states_taken
from admmnet.running.node import Node
from admmnet.running.readout import TailAverage
from admmnet.transport import Transport
from admmnet.version import __version__

if TYPE_CHECKING:
    from admmnet.running.plan import Plan
    from admmnet.solvers.blocks.solve import BlockSolver


class Keeper(Chosen):
    """Writes a run's checkpoints and outboxes, and restores agents from the chosen one."""

    def __init__(self, plan: Plan, transport: Transport, folder: Path) -> None:
        method, tree = plan.method, spanning_tree(plan.graph, frozenset(transport.away))
        self._durable = not plan.simulation
        self._outbox: OutboxFile | None = None
        self._rounds = method.rounds if method.verb != "none" else None  # an epoch may be the last or not
        # at most the diameter: who begins a round has heard of all before from its neighbours
        self._apart = min(transport.world.size - 1, 2 * int(tree.depth.max())) if tree is not None else 0
        super().__init__(plan, transport, folder)

    @property
    def kept(self) -> bool:
        """Whether doors note what they answer."""
        return self._every is not None and not self._seeded

    def open_outboxes(self, agents: Sequence[Node]) -> None:
        """Give the doors their answers of earlier starts; from now on they note their answers."""
        for agent in agents if self._jump else ():
            agent.door.outbox = Outbox(self.starts[-1].name, {}, self._spent[agent.id], again=False)
        begun = self._transport.world.start
        again = begun is None or begun.changed is None or begun.rule == "replay"
        for agent in agents if self.kept else ():
            past = self.past[agent.id]
            agent.door.marks |= past.marks
            agent.door.outbox = Outbox(self.starts[-1].name, past.answers, agent.ledger.charged, again)

    def repeats(self, round: int, agents: Sequence[Node]) -> bool:
        """Whether these agents can be asked in a round that some may have been charged for: their answers are there."""
        charged = (agent.id for agent in agents if agent.ledger.charged >= round)
        return round not in self.void and all(round in self.past[i].answers for i in charged)

    def restore(self, blocks: Sequence[Sequence[Node]], tail: TailAverage) -> None:
        """Give agents, solvers and the running mean their state back."""
        if not self._states:
            return
        for block in blocks:
            for node in block:
                restore_node(node, self._states[f"agent {node.id}"], seeded=self._seeded)
                for stream in node.door.secret.streams.values() if self._jump else ():
                    move_on(stream, self._jump)
            for name, solver in self._solver_of(block, self.start).items():
                put_states(solver.states, self._states[name])
        tail.count = int(self._network["count"])
        if tail.count:
            tail.sum = np.stack([self._states[f"agent {i}"]["tail"] for i in self._transport.agents])
        self._states = {}

    def due(self, done: int) -> bool:
        """Whether a checkpoint is due after ``done`` rounds, or before a stage; the last round has none."""
        every = self._every
        return every is not None and (done < 0 or not done % every) and (self._rounds is None or done < self._rounds)

    def post(self, round: int, nodes: Sequence[Node]) -> None:
        """Write down the doors' answers of a round, before it is sent; RunError if the disk refuses."""
        if self._outbox is not None:
            self._outbox.write(round, nodes)
        for node in nodes if self._jump else ():
            if node.door.outbox is not None:
                node.door.outbox.take()

    def save(self, done: int, blocks: Sequence[Sequence[Node]], tail: TailAverage) -> None:
        """Write a checkpoint after ``done`` rounds, if due or the start begins so; RunError if the disk refuses.

        One that is made before a stage has its number, which is negative.
        """
        if not self.due(done) and (self._every is None or done != self.start):
            return
        folder = self._folder / f"{done:06d}"
        folder.mkdir(parents=True, exist_ok=True)
        agents = sorted((node for block in blocks for node in block), key=lambda node: node.id)
        # the ledgers first: a checkpoint never knows of more than they hold
        for agent in agents:
            agent.ledger.sync()
        places = {agent.id: agent.ledger.place(done) for agent in agents}
        states = {f"agent {agent.id}": node_state(agent, seeded=self._seeded) for agent in agents}
        if tail.sum is not None:
            for agent, row in zip(agents, tail.sum, strict=True):
                states[f"agent {agent.id}"]["tail"] = row
        for block in blocks:
            # so that the next solves give the same bits
            states |= {name: states_taken(solver.states) for name, solver in self._solver_of(block, done).items()}
        states["network"] = {"count": np.asarray(tail.count)}
        index, content = pack(states)
        begun = self._transport.world.start
        meta = {
            "schema": SCHEMA,
            "admmnet": __version__,
            "numpy": np.__version__,
            "seeded": self._seeded,
            "kernel": self.kernel,
            "settings": self._settings,
            "round": done,
            "encoding": self.known,
            "plan": "" if begun is None else begun.plan,
            "facts": {} if begun is None else begun.facts,
            "agents": self._total,
            "starts": [list(start) for start in self.starts],
            "ledgers": {str(i): list(place) for i, place in places.items()},
            "records": self._prints,
            "index": index,
            "bytes": len(content),
            "digest": digest(index, content),
        }
        write_archive(folder / f"part-{agents[0].id:06d}.state", meta, content)
        self.close()
        if self.kept:
            self._outbox = OutboxFile(folder / f"outbox-{agents[0].id:06d}.jsonl", durable=self._durable)
        for path in (folder, self._folder, self._folder.parent / "metrics.csv"):
            if path.exists():  # one process alone writes figures
                sync(path)
        say("checkpoint", f"a checkpoint is on the disk: the run can go on in round {done}", "debug")
        self._forget(done)

    def close(self) -> None:
        """Close the outbox."""
        if self._outbox is not None:
            self._outbox.close()

    def _solver_of(self, block: Sequence[Node], done: int) -> dict[str, BlockSolver]:
        """Solver of a block by its name in a checkpoint; of a single agent and of private runs nothing is kept.

        Nor is there one before the first round: rows may be raw.
        """
        solver = block[0].door.secret.solver.block if self._seeded and len(block) > 1 and done > 0 else None
        return {} if solver is None else {f"block {min(node.id for node in block)}": solver}

    def _forget(self, done: int) -> None:
        """Remove what nobody needs: others may be some rounds behind."""
        world, every = self._transport.world, self._every or 1
        if not (world.rank == 0 or not world.shared_folder):
            return
        needed = (done - self._apart - 1) // every * every
        for old in self._generations():
            if old < needed and needed >= 0:  # before that somebody may have none but those of stages
                shutil.rmtree(self._folder / f"{old:06d}", ignore_errors=True)
