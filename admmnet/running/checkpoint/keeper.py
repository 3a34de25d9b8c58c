"""Checkpoints of a run, and going on from them (docs/ledger.md, "Checkpoints").

A checkpoint is a folder ``checkpoint/<rounds done>`` with a part from every process. Seeded runs keep everything
that the next round depends on. Others keep released values and public facts, and in the outbox beside each part what
was answered since: rounds that are repeated ask nothing anew (docs/proofs.md, Theorem 30).
"""

from __future__ import annotations

import hashlib
import re
import secrets
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from admmnet.data.records import Records, arrays_of
from admmnet.errors import RequestError, StartEnded
from admmnet.faults.clock import VirtualClock
from admmnet.files import sync
from admmnet.graph.tree import spanning_tree
from admmnet.holder.holder import Holder, SimulatedHolder
from admmnet.holder.outbox import Outbox
from admmnet.log import say
from admmnet.privacy.ledger import audit, lines
from admmnet.privacy.ledger.file import BEGINNING, Place
from admmnet.record.folder import CHECKPOINT, ledger_path
from admmnet.running.checkpoint.outbox import FILES, OutboxFile, Past, read_outboxes
from admmnet.running.checkpoint.packing import damaged, digest, pack, read_archive, unpack, write_archive
from admmnet.running.checkpoint.state import State, move_on, node_state, restore_block, restore_node, states_taken
from admmnet.running.node import Node
from admmnet.running.readout import TailAverage
from admmnet.transport import Begun, Transport
from admmnet.transport.collective import run_on_all, wrong_word
from admmnet.types import BEFORE
from admmnet.version import __version__

if TYPE_CHECKING:
    from admmnet.running.plan import Prepared
    from admmnet.solvers.blocks.solve import BlockSolver

SCHEMA = 5


class Start(NamedTuple):
    """A start of a run: its name, which nobody can have known before, and its first round."""

    name: str
    round: int


class Keeper:
    """Writes a run's checkpoints and outboxes, and finds the newest checkpoint that all processes have whole.

    Raises
    ------
    RequestError
        On every process: there is no whole checkpoint, or it does not belong to these settings, this version or
        (seeded runs) these records.
    """

    def __init__(self, plan: Prepared, transport: Transport, folder: Path) -> None:
        run, method = plan.run, plan.method
        self._every, self._settings, self._seeded = run.checkpoint_every, plan.texts.kept, run.seeded
        self._durable, self._transport, self._folder = not plan.simulation, transport, folder / CHECKPOINT
        self._rounds = method.rounds if method.verb != "none" else None  # an epoch may be the last or not
        self._total = len(plan.graph)
        tree = spanning_tree(plan.graph)
        # at most the diameter: who begins a round has heard of all before from its neighbours
        self._apart = min(transport.world.size - 1, 2 * int(tree.depth.max())) if tree is not None else 0
        self.first = min((stage.number for stage in plan.prologue.stages), default=0)
        self.starts: list[Start] = []  # those of the run so far, this one the last
        self.known = ""  # what stages have found, as encoding.json says it
        self.notes: tuple[str, ...] = ()  # what the reader of the run must know of its resumption
        self.places: dict[int, Place] = {}  # where the agents' ledgers stood
        self.past: dict[int, Past] = {}  # what their doors have answered since; none in seeded runs
        self.source = 0  # rounds of the checkpoint that is gone on from
        self._spent: dict[int, int] = {}  # last rounds of agents that were charged before such a start
        self._jump = 0  # how often streams are moved on, so that a changed start draws nothing that was drawn
        self.void = range(0)  # rounds of masked sums of which some have their part, and some have not
        self._states: dict[str, State] = {}
        self._network: State = {}
        self._prints: dict[str, str] = {}
        self._outbox: OutboxFile | None = None
        if self._every is None and run.resume is None:
            self.start = self.source = 0
            return
        if self._seeded:
            self._prints = {str(i): _print_of(*plan.holders[i]) for i in transport.agents}
            self._prints["test"] = _test_print(plan.data)
        self.start = self._agreed(resumed=run.resume is not None)

    @property
    def kept(self) -> bool:
        """Whether doors note what they answer."""
        return self._every is not None and not self._seeded

    def open_outboxes(self, agents: Sequence[Node]) -> None:
        """Give the doors what they have answered in earlier starts; from now on they note their answers."""
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
                restore_block(solver, self._states[name])
        tail.count = int(self._network["count"])
        if tail.count:
            tail.sum = np.stack([self._states[f"agent {i}"]["tail"] for i in self._transport.agents])
        self._states = {}

    def restore_clock(self, clock: VirtualClock | None) -> None:
        """Give a virtual clock its state back."""
        if clock is not None and "start" in self._network:
            clock.start, clock.worked = self._network["start"].copy(), self._network["worked"].copy()
            clock.ends = self._network["ends"].tolist()

    def due(self, done: int) -> bool:
        """Whether a checkpoint is due after ``done`` rounds, or before a stage; the last round has none."""
        every = self._every
        return every is not None and (done < 0 or not done % every) and (self._rounds is None or done < self._rounds)

    def post(self, round: int, nodes: Sequence[Node]) -> None:
        """Write down what the doors have answered in a round, before it is sent; RunError if the disk refuses."""
        if self._outbox is not None:
            self._outbox.write(round, nodes)
        for node in nodes if self._jump else ():
            if node.door.outbox is not None:
                node.door.outbox.take()

    def save(
        self, done: int, blocks: Sequence[Sequence[Node]], tail: TailAverage, clock: VirtualClock | None = None
    ) -> None:
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
        if clock is not None:
            states["network"] |= {"start": clock.start, "worked": clock.worked, "ends": np.array(clock.ends)}
        index, stacks = pack(states)
        meta = {
            "schema": SCHEMA,
            "admmnet": __version__,
            "numpy": np.__version__,
            "seeded": self._seeded,
            "settings": self._settings,
            "round": done,
            "encoding": self.known,
            "lineage": self._lineage(),
            "facts": {} if (begun := self._transport.world.start) is None else begun.facts,
            "agents": self._total,
            "starts": [list(start) for start in self.starts],
            "ledgers": {str(i): list(place) for i, place in places.items()},
            "records": self._prints,
            "index": index,
            "digest": digest(index, stacks),
        }
        write_archive(folder / f"part-{agents[0].id:06d}.npz", meta, stacks)
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

    def _lineage(self) -> int:
        """Number of the changed start that rounds belong to, 0 for none."""
        begun = self._transport.world.start
        return 0 if begun is None else begun.lineage

    def _forget(self, done: int) -> None:
        """Remove what nobody needs: others may be some rounds behind."""
        world, every = self._transport.world, self._every or 1
        if not (world.rank == 0 or not world.shared_folder):
            return
        needed = (done - self._apart - 1) // every * every
        for old in self._generations():
            if old < needed and needed >= 0:  # before that somebody may have none but those of stages
                shutil.rmtree(self._folder / f"{old:06d}", ignore_errors=True)

    def _generations(self) -> list[int]:
        with suppress(OSError):
            return sorted(int(path.name) for path in self._folder.iterdir() if re.fullmatch(r"-?\d+", path.name))
        return []

    def _agreed(self, *, resumed: bool) -> int:
        """Round with which all begin, or the stage before it; what they go on from is read."""
        world = self._transport.world
        mine = run_on_all(world, self._candidates) if resumed else {0: []}
        if (begun := world.start) is not None and not world.shared_folder:  # else nobody remembers another start
            return self._formed(begun, mine, resumed=resumed)
        offers = [_offer(said) for said in world.gather([secrets.token_hex(8), sorted(mine)]) if said is not None]
        common = set(mine).intersection(*(whole for _, whole in offers))
        if not common:
            raise RequestError(
                f"{self._folder} holds no checkpoint that is whole at every process"
                + ("; run anew" if self._seeded else "; run anew, with --account if what is spent must count")
            ).of_all()
        start = self.source = max(common)
        run_on_all(world, lambda: self._load(mine[start], start, resumed=resumed))
        self.starts.append(Start(offers[0][0], start))
        return self._went_on(start, resumed=resumed)

    def _formed(self, begun: Begun, mine: Mapping[int, list[Path]], *, resumed: bool) -> int:
        """First round of a start that agents on hosts of their own have formed, each with what it has."""
        world, start = self._transport.world, begun.round
        if begun.rule != "replay" and begun.changed is None:  # nothing was charged but in stages
            start = self.first if resumed else 0

        def read() -> None:
            if begun.changed is not None and start <= 0 and self.first < 0:
                raise StartEnded("an agent is away before the first round: the sums there need all")
            if begun.rule == "replay" and start not in mine:
                raise RequestError(f"{self._folder} does not hold the checkpoint of {_since(start)} that it had")
            changed = begun.rule != "replay" and begun.changed is not None
            self.source = max(mine) if changed else start
            self._load(mine.get(self.source, []), self.source, resumed=resumed)
            if changed and self._seeded:  # its charges stand: they are not those of this start
                self._jump = begun.number
                for i in self._transport.agents:
                    path = ledger_path(self._folder.parent, i, self._total)
                    self.places[i], self._spent[i] = _place_of(path, start)

        run_on_all(world, read)
        self.starts.append(Start(begun.name[:16], start))
        return self._went_on(start, resumed=resumed)

    def _went_on(self, start: int, *, resumed: bool) -> int:
        world = self._transport.world
        if not resumed:
            return start
        if world.rank == 0 or not world.shared_folder:
            for later in self._generations():
                for path in (self._folder / f"{later:06d}").glob("part-*.npz") if later > start else ():
                    path.unlink(missing_ok=True)  # written again, from the same outboxes
        if not self._seeded:
            self.notes = (
                f"the run was interrupted and went on {_since(start)}: later messages were sent again unchanged, "
                "and are charged once",
            )
        return start

    def _load(self, paths: Sequence[Path], start: int, *, resumed: bool) -> None:
        """Read a checkpoint, and what was answered since; without parts the run died before anything was charged."""
        own = self._transport.agents
        self._read(paths)
        if resumed and not paths:
            self.places = dict.fromkeys(own, BEGINNING)
        if self._seeded:
            return
        later = [self._folder / f"{n:06d}" for n in self._generations() if n >= start]
        self.past = read_outboxes([path for place in later for path in sorted(place.glob(FILES))], own, start)
        self.places |= {i: past.ledger for i, past in self.past.items() if past.ledger is not None}

    def hold_void(self) -> None:
        """Find the rounds of masked sums that no start can repeat: bytes of two starts do not cancel."""
        own = [max(self.past[i].answers, default=self.start - 1) for i in self._transport.agents]
        last, world = list[tuple[int, int]](), self._transport.world
        for rank, said in enumerate(world.gather([min(own), max(own)])):
            if isinstance(said, list) and [type(round) for round in said] == [int, int]:
                last.append((said[0], said[1]))
            elif said is not None:
                raise wrong_word(world, rank, f"agent {rank} does not say which rounds of masked sums it has answered")
        self.void = range(min(low for low, _ in last) + 1, max(high for _, high in last) + 1)

    def _candidates(self) -> dict[int, list[Path]]:
        """Checkpoints that have all agents of this process, and the parts they are in."""
        found: dict[int, list[Path]] = {}
        mine, seen = set(self._transport.agents), False
        for done in reversed(self._generations()):
            paths, agents = list[Path](), set[int]()
            for path in sorted((self._folder / f"{done:06d}").glob("part-*.npz")):
                try:
                    meta, _ = read_archive(path, whole=False)
                    own = {int(i) for i in meta.get("ledgers", {})}
                except (RequestError, TypeError, ValueError) as error:
                    if found:
                        continue  # an older one, that nobody needs
                    raise error if isinstance(error, RequestError) else damaged(path, error) from None
                if own & mine:
                    paths.append(path)
                    agents |= own
            seen = seen or bool(paths)
            if mine <= agents:
                found[done] = paths
        return found if seen else {self.first: []}

    def _read(self, paths: Sequence[Path]) -> None:
        wanted = set(self._transport.agents)
        for path in paths:
            meta, stacks = read_archive(path)
            self._check(path, meta)
            try:
                if meta["digest"] != digest(meta["index"], stacks):
                    raise ValueError("its states are not those that were written")
                states = unpack(meta["index"], stacks)
                places = {int(i): Place(*place) for i, place in meta["ledgers"].items()}
                records, self.known = dict(meta["records"]), str(meta["encoding"])
                self.starts = [Start(*start) for start in meta["starts"]]
            except (AttributeError, KeyError, TypeError, ValueError) as error:
                raise damaged(path, error) from None
            kept = {f"{kind} {i}" for kind in ("agent", "block") for i in wanted}
            self._states |= {owner: state for owner, state in states.items() if owner in kept}
            self._network = states["network"]
            self.places |= {i: place for i, place in places.items() if i in wanted}
            for i, found in records.items():
                if self._prints.get(i, found) != found:
                    whose = "test records" if i == "test" else f"records of agent {i}"
                    raise RequestError(
                        f"the {whose} are not those that the interrupted run had: give it the same data, or run anew"
                    )

    def _check(self, path: Path, meta: Mapping[str, Any]) -> None:
        for name, now in (
            ("schema", SCHEMA),
            ("admmnet", __version__),
            ("seeded", self._seeded),
            ("agents", self._total),
        ):
            if meta.get(name) != now:
                raise RequestError(
                    f"the checkpoint {path} was written with {name} = {meta.get(name)!r}, this is {now!r}: resume "
                    "with the first settings, or run anew"
                )
        if meta.get("settings") != self._settings:
            raise RequestError(
                f"the checkpoint {path} belongs to other settings: config.toml, the topology or the data set was "
                "changed since; put it back, or run anew"
            )


def _place_of(path: Path, round: int) -> tuple[Place, int]:
    """Where a ledger stands as it is, before a round, and the last that it charges; CheckFailed if it is damaged."""
    strand = audit.whole_lines(path)
    book = audit.check(strand)
    charged = max((charged for charged, _, _ in book.events), default=BEFORE)
    return Place(round, book.count, len(strand.lines), lines.digest(strand.lines[-1][1])), charged


def _offer(said: Any) -> tuple[str, set[int]]:
    """Name that a process has for this start, and checkpoints that it has whole; nothing where it says neither."""
    try:
        name, whole = said
        return str(name)[:16], {done for done in whole if type(done) is int}
    except (TypeError, ValueError):
        return "", set()


def _since(start: int) -> str:
    """Where a run goes on, in words."""
    return f"from round {start}" if start >= 0 else "before its first round"


def _print_of(holder: Holder, member: int) -> str:
    """sha256 of an agent's records: in seeded runs only, a private run's checkpoint holds nothing of the records."""
    assert isinstance(holder, SimulatedHolder)
    return holder.fingerprint(member)


def _test_print(data: Records) -> str:
    """sha256 of the test records: all errors in metrics.csv are of the same ones."""
    X: Any = data.X_test
    found = hashlib.sha256(repr(X.shape).encode())
    for part in (*arrays_of(X), data.y_test):
        found.update(np.ascontiguousarray(part).data)
    return found.hexdigest()
