"""Acting as one over several processes: an error anywhere becomes the same error everywhere."""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TypeVar

from admmnet.errors import AdmmnetError, BudgetError, CheckFailed, RequestError, RunError
from admmnet.transport import World

T = TypeVar("T")
STAGGER = 0.5
"""Seconds a rank waits for every rank before it, when it fails alone, before it reports and ends all."""
GRACE = 0.2
"""Seconds between a report and the end of all: a launcher drops what it has not passed on by then."""
_KINDS = {kind.exit_code: kind for kind in (CheckFailed, RequestError, RunError, BudgetError)}


def together(world: World, step: Callable[[], T]) -> T:
    """Run a step on every process; if it fails anywhere, raise the first rank's error everywhere.

    Raises
    ------
    AdmmnetError
        Marked ``shared``: every process raises it, so that one of them reports it.
    """
    failure: tuple[int, str] | None = None
    try:
        result = step()
    except AdmmnetError as error:
        failure = (error.exit_code, str(error))
    for answer in world.gather(failure):
        if answer is not None:
            shared = _KINDS[answer[0]](answer[1])
            shared.shared = True
            raise shared
    return result


def report(error: BaseException, world: World, *, debug: bool = False) -> int:
    """Tell the user of an error, once, and return its exit code.

    An error that this process alone has met ends all the others at once: they would wait for it for ever.
    """
    shared = getattr(error, "shared", False)
    code = _code(error)
    if not shared and world.size > 1 and world.name == "mpi":
        # where several ranks fail at once, the first one's abort comes before the others speak
        time.sleep(min(STAGGER * world.rank, 2.0))
    # with zmq every process has a screen of its own, or a starter that drops what it has heard; what another
    # process has told already is not told again
    if not getattr(error, "told", False) and (not shared or world.rank == 0 or world.name == "zmq"):
        if debug:
            traceback.print_exception(error)
        print(f"admmnet: {describe(error)}", file=sys.stderr, flush=True)  # noqa: T201 (the one place besides cli)
    if not shared and world.size > 1:
        time.sleep(GRACE)
        world.abort(code)
    return code


def _code(error: BaseException) -> int:
    if isinstance(error, AdmmnetError):
        return error.exit_code
    return 130 if isinstance(error, KeyboardInterrupt) else 3


def describe(error: BaseException) -> str:
    """One or two lines that name the cause and the remedy."""
    if isinstance(error, AdmmnetError):
        return str(error)
    if isinstance(error, KeyboardInterrupt):
        return "interrupted; the ledgers hold everything that was sent"
    if isinstance(error, MemoryError):
        return "out of memory; start fewer agents a machine, or take fewer records"
    if isinstance(error, SystemExit):
        return f"a rank left the run by itself (exit {error.code!r}); all others are ended"
    return f"internal error: {type(error).__name__}: {error}; --debug shows where, please report it"


@contextmanager
def all_or_none(world: World, *, debug: bool = False) -> Iterator[None]:
    """Within this block, whatever ends one process alone, caught by its caller or not, ends all of them."""
    try:
        yield
    except BaseException as error:
        if world.size > 1 and not getattr(error, "shared", False):
            report(error, world, debug=debug)
        raise


def install_hook(world: World) -> None:
    """Make an exception that nobody catches end all processes: one rank that leaves alone hangs the rest."""

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        sys.exit(report(error, world, debug=not isinstance(error, AdmmnetError)))

    if world.size > 1:
        sys.excepthook = hook
