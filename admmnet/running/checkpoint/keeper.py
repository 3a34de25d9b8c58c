"""Checkpoints of a run, and going on from them (docs/run-folder.md, "Checkpoints").

A checkpoint is a folder ``checkpoint/<rounds done>`` with a part from every process. Seeded runs keep everything
that the next round depends on; private runs keep released values and public facts, and nothing else.
"""

from __future__ import annotations

import hashlib
import re
import secrets
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from admmnet.config.run_config import RunSettings
from admmnet.data.records import Records, arrays_of
from admmnet.errors import RequestError
from admmnet.faults.clock import VirtualClock
from admmnet.files import sync
from admmnet.holder.holder import Holder, SimulatedHolder
from admmnet.methods.base import Method
from admmnet.privacy.ledger.file import Place
from admmnet.running.checkpoint.packing import damaged, digest, pack, read_archive, unpack, write_archive
from admmnet.running.checkpoint.state import State, node_state, restore_block, restore_node, states_taken
from admmnet.running.node import Node
from admmnet.running.readout import TailAverage
from admmnet.transport import Transport
from admmnet.transport.collective import run_on_all
from admmnet.types import BEFORE
from admmnet.version import __version__

if TYPE_CHECKING:
    from admmnet.solvers.blocks.solve import BlockSolver

FOLDER = "checkpoint"
SCHEMA = 5


class Keeper:
    """Writes a run's checkpoints and restores from the newest one that all processes have whole.

    Raises
    ------
    RequestError
        On every process: there is no whole checkpoint, or it does not belong to these settings, this version or
        (seeded runs) these records.
    """

    def __init__(
        self,
        run: RunSettings,
        settings: str,
        method: Method,
        holders: Mapping[int, tuple[Holder, int]],
        data: Records,
        transport: Transport,
        folder: Path,
    ) -> None:
        self._every, self._settings, self._seeded = run.checkpoint_every, settings, run.seeded
        self._transport, self._folder = transport, folder / FOLDER
        self._rounds = method.rounds if method.verb != "none" else None  # an epoch may be the last or not
        self._total = sum(len(own) for own in transport.layout.owners)
        self.start = 0  # first round to do, or the stage before it
        self.known = ""  # what stages have found, as encoding.json says it
        self.notes: tuple[str, ...] = ()  # what the reader of the run must know of its resumption
        self.places: dict[int, Place] = {}  # where the agents' ledgers stood
        self._states: dict[str, State] = {}
        self._network: State = {}
        self._prints: dict[str, str] = {}
        if self._every is None and run.resume is None:
            return
        if self._seeded:
            self._prints = {str(i): _print_of(*holders[i]) for i in transport.agents} | {"test": _test_print(data)}
        # parts that different starts of a run have written never make one checkpoint
        self._token = _token(transport.world.gather(secrets.token_hex(8))[0])
        if run.resume is not None:
            self._load()

    def restore(self, blocks: Sequence[Sequence[Node]], tail: TailAverage) -> None:
        """Give agents, solvers and the running mean their state back."""
        if not self._states:
            return
        for block in blocks:
            for node in block:
                restore_node(node, self._states[f"agent {node.id}"], seeded=self._seeded)
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
        """Whether a checkpoint is due after ``done`` rounds; the last one has none."""
        every = self._every
        return every is not None and not done % every and (self._rounds is None or done < self._rounds)

    def save(
        self, done: int, blocks: Sequence[Sequence[Node]], tail: TailAverage, clock: VirtualClock | None = None
    ) -> None:
        """Write a checkpoint after ``done`` rounds, if one is due; RunError if the disk refuses.

        One that is made before a stage has its number, which is negative.
        """
        if not self.due(done):
            return
        folder = self._folder / f"{done:06d}"
        folder.mkdir(parents=True, exist_ok=True)
        agents = sorted((node for block in blocks for node in block), key=lambda node: node.id)
        # the ledgers first: a checkpoint never knows of more than they hold
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
            "agents": self._total,
            "token": self._token,
            "ledgers": {str(i): list(place) for i, place in places.items()},
            "records": self._prints,
            "index": index,
            "digest": digest(index, stacks),
        }
        write_archive(folder / f"part-{agents[0].id:06d}.npz", meta, stacks)
        for path in (folder, self._folder, self._folder.parent / "metrics.csv"):
            if path.exists():  # one process alone writes figures
                sync(path)
        self._transport.world.gather(None)  # every process has its part written
        self._forget()

    def _solver_of(self, block: Sequence[Node], done: int) -> dict[str, BlockSolver]:
        """Solver of a block by its name in a checkpoint; of a single agent and of private runs nothing is kept.

        Nor is there one before the first round: rows may be raw.
        """
        solver = block[0].door.secret.solver.block if self._seeded and len(block) > 1 and done > 0 else None
        return {} if solver is None else {f"block {min(node.id for node in block)}": solver}

    def _forget(self) -> None:
        """Remove all but this checkpoint and the one before; after a loss the last whole one may be older."""
        world = self._transport.world
        if self._transport.lost or not (world.rank == 0 or not world.shared_folder):
            return
        for old in sorted(self._generations())[:-2]:
            shutil.rmtree(self._folder / f"{old:06d}", ignore_errors=True)

    def _generations(self) -> list[int]:
        with suppress(OSError):
            return [int(path.name) for path in self._folder.iterdir() if re.fullmatch(r"-?\d+", path.name)]
        return []

    def _load(self) -> None:
        world, transport = self._transport.world, self._transport
        mine = run_on_all(world, self._candidates)
        offers = world.gather([max(self._generations(), default=BEFORE), sorted(mine)])
        offered = [_offer(part) for part in offers if part is not None]
        newest = max(own for own, _ in offered)
        common = set(mine).intersection(*(part for _, part in offered))
        if not common:
            raise RequestError(
                f"{self._folder} holds no checkpoint that is whole"
                + (f": of the newest, of {newest} rounds, parts are missing" if newest > BEFORE else "")
                + ("; run anew" if self._seeded else "; run anew, with --account if what is spent must count")
            ).of_all()
        self.start, token = max(common)
        run_on_all(world, lambda: self._read(mine[self.start, token]))
        if world.rank == 0 or not world.shared_folder:
            for later in self._generations():
                if later > self.start:  # written in part, by what was interrupted
                    shutil.rmtree(self._folder / f"{later:06d}", ignore_errors=True)
        world.gather(None)
        notes = []
        if newest > self.start:
            notes.append(
                f"the checkpoint of {newest} rounds is not whole: the run went on from the one of {self.start}"
            )
        if not self._seeded:
            notes.append(
                f"the run was interrupted and resumed {_since(self.start)}: rounds that it had begun since "
                "are charged twice; figures of messages count them once, the ledgers hold all"
            )
        self.notes = tuple(notes)
        assert all(i in self.places for i in transport.agents)

    def _candidates(self) -> dict[tuple[int, str], list[Path]]:
        """Checkpoints that have all agents of this process, and the parts they are in."""
        found: dict[tuple[int, str], list[Path]] = {}
        mine = set(self._transport.agents)
        for done in sorted(self._generations(), reverse=True):
            parts: dict[str, list[Path]] = {}
            agents: dict[str, set[int]] = {}
            for path in sorted((self._folder / f"{done:06d}").glob("part-*.npz")):
                try:
                    meta, _ = read_archive(path, whole=False)
                    token, own = str(meta.get("token")), {int(i) for i in meta.get("ledgers", {})}
                except (RequestError, TypeError, ValueError) as error:
                    if found:
                        continue  # an older one, that nobody needs
                    raise error if isinstance(error, RequestError) else damaged(path, error) from None
                if own & mine:
                    parts.setdefault(token, []).append(path)
                    agents.setdefault(token, set()).update(own)
            found |= {(done, token): paths for token, paths in parts.items() if mine <= agents[token]}
        return found

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
                    f"the checkpoint {path} was written with {name} = {meta.get(name)!r}, this is {now!r}: resume with "
                    "what the run was started with, or run anew"
                )
        if meta.get("settings") != self._settings:
            raise RequestError(
                f"the checkpoint {path} belongs to other settings: config.toml, the topology or the data set was "
                "changed since; put it back, or run anew"
            )


def _token(said: Any) -> str:
    """Mark of this start, by the first process."""
    if not isinstance(said, str) or re.fullmatch("[0-9a-f]{16}", said) is None:
        raise RequestError("the first process gives checkpoints no mark: all must run the same version")
    return said


def _offer(part: Any) -> tuple[int, set[tuple[int, str]]]:
    """Newest checkpoint of a process, and those that it has whole; nothing where it says neither."""
    try:
        newest, whole = part
        found = {(done, token) for done, token in whole if type(done) is int and isinstance(token, str)}
    except (TypeError, ValueError):
        return BEFORE, set()
    return (newest if type(newest) is int else BEFORE), found


def _since(start: int) -> str:
    """Where a run that goes on was interrupted, in words."""
    return f"after round {start - 1}" if start > 0 else "before its first round"


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
