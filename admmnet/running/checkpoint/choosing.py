"""What a start of a run goes on from: the newest checkpoint that all processes have whole (docs/ledger.md)."""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from admmnet.data.records import Records, arrays_of
from admmnet.errors import RequestError
from admmnet.holder.holder import Holder, SimulatedHolder
from admmnet.privacy.ledger import audit
from admmnet.privacy.ledger.file import BEGINNING, Place
from admmnet.record.folder import CHECKPOINT, ledger_path
from admmnet.running.checkpoint.outbox import FILES, Past, read_outboxes
from admmnet.running.checkpoint.packing import damaged, read_archive, unpack
from admmnet.running.checkpoint.state import State
from admmnet.solvers.kernel import NAMES, chosen
from admmnet.transport import Transport
from admmnet.transport.begun import NEVER
from admmnet.transport.collective import share
from admmnet.version import __version__

if TYPE_CHECKING:
    from admmnet.running.plan import Plan
    from admmnet.transport.begun import Begun

SCHEMA = 6


class Start(NamedTuple):
    """A start of a run: its name, which nobody can have known before, and its first round."""

    name: str
    round: int


class Chosen:
    """What is chosen, and read.

    RequestError, on every process, if there is no whole checkpoint, or it does not belong to these settings, this
    version or (seeded runs) these records.
    """

    def __init__(self, plan: Plan, transport: Transport, folder: Path) -> None:
        run = plan.run
        self._every, self._settings, self._seeded = run.checkpoint_every, plan.texts.kept, run.seeded
        self.kernel = NAMES[chosen(run.kernel)] if run.seeded else None  # of a run that must make the same bits
        self._transport, self._folder = transport, folder / CHECKPOINT
        self._total = len(plan.graph)
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
        if self._every is None and run.resume is None:
            self.start = self.source = 0
            return
        if self._seeded:
            self._prints = {str(i): _print_of(*plan.holders[i]) for i in transport.agents}
            self._prints["test"] = _test_print(plan.data)
        self.start = self._agreed(resumed=run.resume is not None)

    def _generations(self) -> list[int]:
        with suppress(OSError):
            return sorted(int(path.name) for path in self._folder.iterdir() if re.fullmatch(r"-?\d+", path.name))
        return []

    def _agreed(self, *, resumed: bool) -> int:
        """Round with which all begin, or the stage before it; what they go on from is read."""
        world = self._transport.world
        mine = self._candidates() if resumed else {0: []}
        if (begun := world.start) is not None and not world.shared_folder:  # else nobody remembers another start
            return self._formed(begun, mine, resumed=resumed)
        words = share(world, [secrets.token_hex(8), sorted(mine)], "offers")
        offers = [_offer(said) for said in words if said is not None]
        common = set(mine).intersection(*(whole for _, whole in offers))
        if not common:
            raise RequestError(
                f"{self._folder} holds no checkpoint that is whole at every process"
                + ("; run anew" if self._seeded else "; run anew, with --account if spent budget must count")
            ).of_all()
        start = self.source = max(common)
        self._load(mine[start], start, resumed=resumed)
        self.starts.append(Start(offers[0][0], start))
        return self._went_on(start, resumed=resumed)

    def _formed(self, begun: Begun, mine: Mapping[int, list[Path]], *, resumed: bool) -> int:
        """First round of a start that agents on hosts of their own have formed, each with what it has."""
        start = begun.round
        changed = begun.rule != "replay" and begun.changed is not None
        if begun.rule != "replay" and begun.changed is None:  # nothing was charged but in stages
            start = self.first if resumed else 0
        if begun.rule == "replay" and start not in mine:
            raise RequestError(f"{self._folder} does not hold the checkpoint of {_since(start)} that it had")
        self.source = max(mine) if changed else start
        self._load(mine.get(self.source, []), self.source, resumed=resumed)
        if changed and self._seeded:  # its charges stand: they are not those of this start
            self._jump = begun.number
            for i in self._transport.agents:
                book = audit.read(ledger_path(self._folder.parent, i, self._total), keep=False, alone=True)
                self.places[i], self._spent[i] = Place(start, book.count, book.line, book.digest), book.last
        self.starts.append(Start(begun.name[:16], start))
        return self._went_on(start, resumed=resumed, repeated=not changed)

    def _went_on(self, start: int, *, resumed: bool, repeated: bool = True) -> int:
        world = self._transport.world
        if not resumed:
            return start
        if world.rank == 0 or not world.shared_folder:
            for later in self._generations():
                for path in (self._folder / f"{later:06d}").glob("part-*.state") if later > start else ():
                    path.unlink(missing_ok=True)  # written again, from the same outboxes
        if not self._seeded:
            again = ": later messages were sent again unchanged, and are charged once" if repeated else ""
            self.notes = (f"the run was interrupted and went on {_since(start)}{again}",)
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
        own = [max(self.past[i].answers, default=max(self.start - 1, NEVER)) for i in self._transport.agents]
        told = share(self._transport.world, [min(own), max(own)], "answered")
        low, high = (sorted(said[k] for said in told if said is not None) for k in (0, 1))
        # a sum needs all: agents are a round apart at most, whatever one of them says
        usual = high[(len(high) - 1) // 2]
        self.void = range(max(low[0] + 1, usual), min(high[-1], usual + 1) + 1)

    def _candidates(self) -> dict[int, list[Path]]:
        """Checkpoints that have all agents of this process, and the parts they are in."""
        found: dict[int, list[Path]] = {}
        mine, seen = set(self._transport.agents), False
        for done in reversed(self._generations()):
            paths, agents = list[Path](), set[int]()
            for path in sorted((self._folder / f"{done:06d}").glob("part-*")):
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
            meta, content = read_archive(path)
            self._check(path, meta)
            try:
                states = unpack(meta["index"], content)
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
            ("kernel", self.kernel),
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
