"""The end of a run: every agent's model, and the files that are written once."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from admmnet.errors import CheckFailed, RequestError, StartEnded
from admmnet.files import sync, write_whole
from admmnet.forms import encode
from admmnet.graph.simple import Graph, spanning_tree
from admmnet.identity.keys import statement
from admmnet.record import folder as run_folder
from admmnet.record.finish import FINISH, PUBLIC, check_end, keep_drafts, model_of, read_end, received
from admmnet.record.folder import SUMMARY, ledger_name, sha256
from admmnet.record.forms import Summary
from admmnet.running.observer import Observer
from admmnet.running.party import Party
from admmnet.running.rounds import Rounds
from admmnet.solvers.radius import MOST, clip_rows
from admmnet.transport import Transport, World
from admmnet.transport.collective import collect
from admmnet.transport.zmq.wire import End
from admmnet.types import Integers, Matrix, Vector

GRID = 2.0**-40
"""Grid to which a number is rounded before it is averaged along a tree."""
AT_ONCE = 4096
"""Agents whose vectors are rounded together."""
MOST_AVERAGED = 2**21
"""Most agents of an average: their numbers, of 2^40 at most, cannot leave the integers."""


def answer(asked: str, rounds: Rounds, observer: Observer, tail: TailAverage | None, done: int) -> Matrix:
    """Every agent's model: the average, its own last released vector, or the mean of its tail."""
    transport, party = rounds.transport, rounds.party
    theta, sent, verb = observer.theta, np.zeros(len(transport.graph), dtype=np.int64), party.method.verb
    if tail is not None and tail.count:  # none of a run that was stopped in its first half
        theta = observer.with_away(collect(transport, tail.mean()), tail.heard(theta))
    elif asked == "average" and verb == "exchange":
        away = () if rounds.faults is None else np.flatnonzero(~rounds.faults.members(done - 1)).tolist()
        found, sent = average(transport, party, done, away)
        theta = theta if found is None else np.tile(found, (len(theta), 1))
    elif asked == "average" and verb == "reduce":  # all that go on hold the same
        theta = np.tile(party.models()[0], (len(theta), 1))
    if asked != "last" and verb != "none":
        observer.judge(theta, sent)
    return theta


def made_of(ledger: str, files: Mapping[str, bytes]) -> str:
    """Hash of the arrays of model.npz but for the average, and of a ledger with this digest."""
    arrays = sorted(model_of(files, "the last files").items())
    words = [word for name, one in arrays for word in (name, one.dtype.str, str(one.shape), one.tobytes())]
    return hashlib.sha256(statement("made", ledger, *words)).hexdigest()


def write_end(model: bytes, deviation: Vector | None, summary: Summary, folder: Path, world: World) -> None:
    """Write the model, the manifest and the summary; RunError if the disk refuses.

    Of several hosts each has them as drafts first, and gives them their names once most say that they have.
    """
    files, classes = {"model.npz": model, SUMMARY: encode(summary, indent=2)}, len(summary.data.classes)
    if deviation is not None:  # of each number, in the model's shape
        files["noise.npy"] = run_folder.npy_bytes(deviation.reshape(classes, -1) if classes else deviation)
    sync(folder / "metrics.csv")
    last = run_folder.last_files(folder, files)
    if world.journal is None:
        write_whole(last)
        return
    member: Any = world
    drafts = {path.name: content for path, content in last.items()}
    digest = read_end(drafts)[1]
    if member.journal.signed not in ("", digest):  # of an earlier start: it signs no second one
        member.end_with(member.journal.staged() or End("", {}))
    keep_drafts(folder, drafts)
    member.journal.sign(digest)
    finish = member.stage(End(digest, drafts))
    try:
        check_end(folder, {**drafts, FINISH: finish}, "the end that the relay gave")
    except CheckFailed as error:
        raise StartEnded(str(error)).of_all() from None
    write_whole({folder / FINISH: finish, **last})


def fits(folder: Path, agent: int, models: Collection[str], end: End) -> str | None:
    """Why an agent does not sign an end that others have; None once its files are on this disk as drafts.

    It must know the agent's ledger as it is, and have a model that the agent has made with it: one of ``models``. What
    else is among its files is left out.
    """
    files = {name: end.files[name] for name in PUBLIC if name in end.files}
    try:
        summary, digest = read_end(files)
        name = ledger_name(agent, summary.agents)
        if digest != end.digest:
            return "its files are not those that were signed"
        if name not in summary.ledgers or not (folder / name).exists():
            return "it is of a start without this agent"
        if sha256(folder / name) != summary.ledgers[name]:
            return "it does not match the ledger of this agent"
        if made_of(summary.ledgers[name], files) not in models:
            return "it has another model than this agent has made with its ledger"
        keep_drafts(folder, received(folder, files, "the end"))
    except (CheckFailed, RequestError) as error:
        return str(error)
    return None


class TailAverage:
    """Running mean of released vectors of this process's agents over the last half of the rounds.

    Where agents are away it has what was heard of all, too: since a resumed run went on.
    """

    def __init__(self, rounds: int) -> None:
        self._first = rounds // 2
        self.count = 0
        self.sum: Matrix | None = None
        self._heard: Matrix | None = None
        self._times = 0

    def add(self, round: int, theta: Matrix, heard: Matrix | None = None) -> None:
        """Take in a round's vectors, shape (local agents, d), and all agents' where some are away, shape (N, d)."""
        if round >= self._first:
            self.sum = theta if self.sum is None else self.sum + theta
            self.count += 1
            if heard is not None:
                self._heard = heard if self._heard is None else self._heard + heard
                self._times += 1

    def mean(self) -> Matrix:
        """Return the mean, shape (local agents, d)."""
        assert self.sum is not None
        return self.sum / self.count

    def heard(self, last: Matrix) -> Matrix:
        """Return the mean of what was heard of all agents, shape (N, d); their ``last`` vectors where nothing was."""
        return last if self._heard is None else self._heard / self._times


def average(
    transport: Transport, party: Party, round: int, away: Collection[int] = ()
) -> tuple[Vector | None, Integers]:
    """Average the agents' released vectors by one sum along a tree, eqs. (93), (94): the same bits everywhere.

    Agents that are no members or ``away``, and those whose method leaves them out, are not in it. Each adds whole
    steps of its method's own grid, or the two integers of (93). Return the average, of shape (d,), None where no agent
    has a vector, and how many numbers each agent has sent, (N,).
    """
    counted = np.flatnonzero(party.in_average() & ~np.isin(party.ids, list(away)))
    models, step = party.models(), party.method.lattice
    size = (2 if step is None else 1) * party.method.size
    rows = np.empty((len(counted), size), dtype=np.int64)
    for some in (slice(start, start + AT_ONCE) for start in range(0, len(counted), AT_ONCE)):
        theta = models[counted[some]]
        rows[some] = _fixed_point(clip_rows(theta, MOST)) if step is None else whole_steps(theta, step)
    parts = dict.fromkeys(party.ids) | {party.ids[row]: own for row, own in zip(counted.tolist(), rows, strict=True)}
    trees = cache(partial(spanning_tree, transport.graph))
    total = transport.reduce(parts, trees, round, size)
    tree = trees(frozenset(transport.away))
    numbers = np.zeros(len(transport.graph), dtype=np.int64)
    if total is None or tree is None:
        return None, numbers
    numbers += tree.messages(total.agents) * total.value.size
    if step is not None:
        return np.asarray(total.value * (step / len(total.agents)), dtype=np.float64), numbers
    return _from_fixed_point(total.value, len(total.agents)), numbers


def whole_steps(theta: Matrix | Vector, step: float) -> Integers:
    """Nearest whole steps, halves rounded up: a vector that is moved by whole steps is rounded alike, as N2 needs."""
    return np.floor(theta / step + 0.5).astype(np.int64)


def _fixed_point(rows: Matrix) -> Integers:
    """Two integers a coordinate, shape (k, 2 d): it to the nearest, and the rest on the grid, both exactly."""
    whole = np.rint(rows)
    return np.hstack([whole, np.rint((rows - whole) / GRID)]).astype(np.int64)


def _from_fixed_point(total: Integers, count: int) -> Vector:
    """Mean of so many vectors from their sum, rounded once."""
    scale = int(1.0 / GRID)
    pairs = zip(*np.split(total, 2), strict=True)
    return np.array([(int(whole) * scale + int(rest)) / (count * scale) for whole, rest in pairs])


def check_answer(answer: str, graph: Graph) -> None:
    """Refuse before the run what its graph is too large for; RequestError names the bound and the remedy."""
    if answer == "average" and len(graph) > MOST_AVERAGED:
        raise RequestError(
            f"answer = 'average' adds up at most {MOST_AVERAGED} agents exactly, this graph has {len(graph)}: take "
            "answer = 'last'"
        )
