"""Ends a rank that waits in MPI for ever: to a host that was cut off nothing comes, and MPI does not say so."""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable

from admmnet.errors import RunError
from admmnet.log import Waiting

DEADLINE = 600.0
"""Seconds that a rank waits in MPI where nobody says how many."""
STAGGER, LONGEST_STAGGER = 1.5, 6.0
"""Seconds by which a rank waits longer than the one before it, so that the launcher ends it before it says the same."""


class Stall:
    """Knows since when this process is in a call of MPI: a block of ``with``, which must not hold another one."""

    _since: float | None = None

    def __init__(self, clock: Callable[[], float] = time.monotonic, end: Callable[[int], object] = os._exit) -> None:
        self.deadline, self.later, self.code, self._waiting = DEADLINE, 0.0, RunError.exit_code, Waiting()
        self._clock, self._end = clock, end

    def wait_for(self, given: object) -> None:
        """Take the seconds that a wait may last; what is no such number is refused by all, later."""
        self.deadline = float(given) if isinstance(given, int | float) and 0.0 < given < math.inf else DEADLINE

    def __enter__(self) -> None:
        self._since = self._clock()

    def __exit__(self, *error: object) -> None:
        self._since = None

    def look(self, name: str) -> None:
        """Tell of a long wait, and end one that is beyond the deadline: it cannot be interrupted."""
        since, now = self._since, self._clock()
        if since is None:
            return
        self._waiting.look(since, now, ["other ranks"])
        if now - since > self.deadline + self.later:
            why = "another rank or its host has died, or needs a longer --round-deadline"
            sys.stderr.write(f"admmnet: {name} ends: it has waited in MPI for {self.deadline:g} s; {why}\n")
            sys.stderr.flush()
            self._end(self.code)

    def watch(self, name: str, rank: int) -> None:
        """Look once a second, until the process ends."""
        self.later = min(STAGGER * rank, LONGEST_STAGGER)
        while True:
            time.sleep(1.0)
            self.look(name)


STALL = Stall()
"""That of this process, in which there is one MPI."""
