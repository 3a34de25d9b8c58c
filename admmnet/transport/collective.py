"""Acting as one over several processes: an error anywhere becomes the same error everywhere.

What comes back from a gather is another process's word. It is believed of that process's own agents, once type and
range are right, and of nobody else: ``owned`` (docs/proofs.md, "What other processes decide").
"""

from __future__ import annotations

import gc
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from admmnet.errors import KINDS, AdmmnetError, RunError, StartEnded, Terminated, broken, printable
from admmnet.log import say
from admmnet.transport import Inbox, Outgoing, Transport, World

if TYPE_CHECKING:
    from admmnet.types import Matrix, Vector

T = TypeVar("T")
STAGGER = 0.5
"""Seconds a rank waits for every rank before it, when it fails alone, before it reports and ends all."""
GRACE = 0.2
"""Seconds between a report and the end of all: a launcher drops what it has not passed on by then."""


class Kept:
    """What is not searched for garbage: of a command, its imports, and what steps on all processes have made.

    Agents are many objects, none of which goes before the run ends (``ends.speaking``). A library's garbage is its own.
    """

    begun = False  # `gc` counts what is frozen one by one, for milliseconds

    def begin(self) -> None:
        """Collect garbage from here on, where `__main__` has put it off, but not among what was imported."""
        if not gc.isenabled():
            self.begun = True
            self.keep()
            gc.enable()

    def keep(self) -> None:
        """Keep all that there is, once this has begun."""
        if self.begun:
            gc.freeze()

    def end(self) -> None:
        """Search everything again."""
        if self.begun:
            self.begun = False
            gc.unfreeze()


KEPT = Kept()
"""That of this process."""


def share(world: World, value: Any = None, topic: str = "ready") -> list[Any]:
    """Words of all processes, a JSON value each, in rank order; None of those outside the start.

    If one has failed in ``as_one``, the first such error is raised at all. What was made until now is ``KEPT``.
    """
    answers = world.gather(value, topic)
    KEPT.keep()
    _raise_first(answers)
    return answers


@contextmanager
def as_one(world: World, *, quoting: bool = False) -> Iterator[None]:
    """Tell an error of this block in place of the next word that all ``share``, so that all raise the first rank's.

    It is marked ``shared``: every process raises it, so that one of them reports it. Told is ``AdmmnetError.public``
    alone, here too, unless it is ``quoting`` records, in simulations. On hosts of their own an agent raises its own.
    Every process shares something, and exchanges nothing else, between a block and the first message of a round.
    """
    try:
        yield
    except AdmmnetError as error:
        if error.shared:
            raise
        answers = world.gather(KINDS.get(error.exit_code, RunError)(str(error) if quoting else error.public), "ready")
        if isinstance(error, StartEnded):
            raise error.of_all() from None
        if world.start is None:
            _raise_first(answers)
        raise


def _raise_first(answers: Sequence[Any]) -> None:
    for answer in answers:
        if isinstance(answer, AdmmnetError):
            raise type(answer)(printable(str(answer))).of_all()


def owned(
    world: World,
    answers: Sequence[Any],
    owners: Sequence[Sequence[int]],
    mine: Mapping[int, T],
    valid: Callable[[int, Any], bool],
    what: str,
    *,
    key: str = "values",
    lasting: bool = True,
    absent: Callable[[int], T] | None = None,
) -> dict[int, T]:
    """Every agent's value of a fact, called ``what``, taken from the process that owns the agent.

    ``answers`` are the words that all have shared; the fact is what they say under a ``key``: a JSON value for each of
    their agents. ``mine`` are those of this process, which the result has whatever comes back. What a process tells of
    other agents is ignored. An owner whose value is not ``valid`` is blamed by every process, as all judge the same
    answers. What others have said in the first start stands, if it is ``lasting``. ``absent`` gives the value of an
    agent that takes no part, and has never said one.
    """
    known: dict[int, Any] = {}
    before: dict[str, Any] = {}
    if world.journal is not None and lasting:
        world.journal.asked[what] += 1
        time = world.journal.asked[what]
        before = world.journal.told.setdefault(what if time == 1 else f"{what} ({time})", {})
    for agents, answer in zip(owners, answers, strict=True):
        said = answer.get(key) if isinstance(answer, Mapping) else None
        told = {**(said if isinstance(said, Mapping) else {}), **before}
        for agent in agents:
            value = mine[agent] if agent in mine else told.get(str(agent))
            if answer is None and value is None and absent is not None:
                value = absent(agent)
            if not valid(agent, value):
                shown = printable(repr(value), 60)
                world.blame(
                    agent,
                    f"agent {agent} says that its {what} is {shown}, which cannot be: "
                    "all processes must run the same version and settings",
                )
            known[agent] = value
    before |= {str(i): value for i, value in known.items()}
    return dict(sorted(known.items()))


def exchange(transport: Transport, outgoing: Outgoing, round: int, width: int) -> Inbox:
    """Exchange a round's vectors of ``width`` coordinates; a neighbour that sends anything else is rejected."""
    inbox = transport.exchange(outgoing, round)
    for j, vector in list(inbox.items()):
        if (fault := fault_of(vector, width)) is not None:
            del inbox[j]
            hearer = next(i for i in transport.agents if j in transport.graph[i])
            transport.world.reject(j, f"agent {hearer}: neighbour {j} sent {fault}")
    return inbox


def collect(transport: Transport, rows: Matrix) -> Matrix:
    """Collect the rows of all agents; an agent without numbers where this process has some is blamed by all.

    Rows of agents that are away are nan.
    """
    import numpy as np  # here: the command line starts faster

    from admmnet.solvers.radius import MOST

    everything = transport.collect(rows)
    known = np.isfinite(rows).all(axis=0)
    said = everything if known.all() else everything[:, known]
    suspect = ~(np.einsum("ij,ij->i", said, said) <= MOST * MOST)  # nan, too: who is not is within the bound
    suspect[[*transport.agents, *transport.away]] = False
    for i in np.flatnonzero(suspect).tolist():
        if (fault := fault_of(everything[i, known], int(known.sum()))) is not None:
            world, text = transport.world, f"agent {i}: among its figures it sent {fault}"
            if world.shared_folder:  # other processes need not see it
                world.reject(i, text)
            world.blame(i, text, RunError)
    return everything


def fault_of(vector: Vector, width: int) -> str | None:
    """What is wrong with a neighbour's vector, None if nothing is."""
    import numpy as np

    from admmnet.solvers.radius import MOST

    if vector.shape != (width,):  # a single number would stand for all
        return (
            f"{vector.size} numbers in place of {width}: it does not run the same model; start all agents with the "
            "same data schema and settings"
        )
    square = float(np.vdot(vector, vector))  # unlike @ it warns of nothing
    if not square <= MOST * MOST * (1.0 + 1e-9):  # nan fails, too
        return "numbers that are not finite or beyond 2^40: no agent that runs this program does; ask its owner"
    return None


def report_error(error: BaseException, world: World, *, debug: bool = False) -> int:
    """Tell the user of an error, once, and return its exit code.

    An error that this process alone has met ends all the others at once: they would wait for it for ever.
    """
    shared = getattr(error, "shared", False)
    code = code_of(error)
    if not shared and world.size > 1 and world.name == "mpi":
        # where several ranks fail at once, the first one's abort comes before the others speak
        time.sleep(min(STAGGER * world.rank, 2.0))
    # with zmq every process has a screen of its own, or a starter that drops what it has heard
    if not shared or world.rank == 0 or world.name == "zmq":
        if debug:
            _trace(error)
        print(broken(f"admmnet: {describe_error(error)}", sys.stderr), file=sys.stderr, flush=True)  # noqa: T201 (the one place besides cli)
    if not shared and world.size > 1:
        say("error", describe_error(error), "error", code=code)
        time.sleep(GRACE)
        world.abort(code, error.public if isinstance(error, AdmmnetError) else None)
    return code


def code_of(error: BaseException) -> int:
    """Exit code of an error."""
    interrupted = isinstance(error, KeyboardInterrupt)
    return error.exit_code if isinstance(error, AdmmnetError | Terminated) else 130 if interrupted else 3


def describe_error(error: BaseException) -> str:
    """One or two lines that name the cause and the remedy."""
    withheld = getattr(error, "withheld", False)
    if isinstance(error, AdmmnetError):
        return error.public if withheld else str(error)
    if isinstance(error, KeyboardInterrupt):
        how = "ended by SIGTERM" if isinstance(error, Terminated) else "interrupted"
        return f"{how}; {error}" if error.args else how
    if isinstance(error, MemoryError):
        return "out of memory; start fewer agents a machine, or take fewer records"
    if isinstance(error, SystemExit):
        return f"a rank left the run by itself (exit {error.code!r}); all others are ended"
    text = "" if withheld else f": {error}"
    if getattr(error, "by_caller", False):
        return f"on_round raised {type(error).__name__}{text}"
    return f"internal error: {type(error).__name__}{text}; --debug shows where, please report it"


def _trace(error: BaseException) -> None:
    if getattr(error, "withheld", False):  # where it happened; texts, also of its causes, may quote records
        lines = traceback.format_tb(error.__traceback__)
        sys.stderr.write("".join(["Traceback (most recent call last):\n", *lines]))
    else:
        traceback.print_exception(error)


@contextmanager
def end_all_on_error(world: World, *, debug: bool = False, withhold: bool = False) -> Iterator[None]:
    """Within this block, whatever ends one process alone, caught by its caller or not, ends all of them.

    ``withhold`` is for private runs: of an error that is not ours no text is printed, here or by the command line.
    """
    try:
        yield
    except BaseException as error:
        if withhold:
            error.withheld = True  # type: ignore[attr-defined]
        if world.size > 1 and not getattr(error, "shared", False):
            report_error(error, world, debug=debug)
        raise


def install_exception_hook(world: World) -> None:
    """Make an exception that nobody catches end all processes: one rank that leaves alone hangs the rest."""

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        sys.exit(report_error(error, world, debug=not isinstance(error, AdmmnetError)))

    if world.size > 1:
        sys.excepthook = hook
