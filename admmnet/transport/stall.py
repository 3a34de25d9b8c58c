"""Ends a rank that waits in MPI for ever: to a host that was cut off nothing comes, and MPI does not say so."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable

from admmnet.errors import RunError
from admmnet.log import Waiting

LOOK = 1.0
"""Seconds between two looks of the thread."""


class Stall:
    """Knows since when this process is in a call of MPI: a block of ``with``, which must not hold another one.

    ``look`` ends the process behind the ``deadline``, in seconds, with exit code ``code``: what blocks in MPI cannot be
    interrupted, and its Abort may hang as well.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, end: Callable[[int], object] = os._exit) -> None:
        self.name, self.deadline, self.code = "a rank", 600.0, RunError.exit_code
        self._clock, self._end, self._waiting = clock, end, Waiting()
        self._since: float | None = None

    def __enter__(self) -> None:
        self._since = self._clock()

    def __exit__(self, *error: object) -> None:
        self._since = None

    def look(self) -> None:
        """Tell of a long wait, and end one that is too long."""
        since, now = self._since, self._clock()
        if since is None:
            self._waiting.end()
            return
        self._waiting.look(since, now, ["other ranks"])
        if now - since > self.deadline:
            sys.stderr.write(
                f"admmnet: {self.name} ends: it has waited in MPI for {self.deadline:g} s (round deadline); another "
                "rank or its host has died, or needs a longer --round-deadline\n"
            )
            sys.stderr.flush()
            self._end(self.code)

    def watch(self) -> None:
        """Look again and again from now on, in a thread that ends with the process."""

        def serve() -> None:
            while True:
                time.sleep(LOOK)
                self.look()

        threading.Thread(target=serve, name="stall", daemon=True).start()
