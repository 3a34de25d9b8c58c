"""The starts of one agent's run in one process: each but the last has ended by a fault (docs/protocol.md)."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from admmnet.config.run_config import AUTO, RunConfig
from admmnet.errors import StartEnded
from admmnet.log import say
from admmnet.running.checkpoint.memory import Memory
from admmnet.running.ending import finish_own
from admmnet.running.handshake import resuming
from admmnet.transport.begun import Begun
from admmnet.transport.zmq.linger import Asker
from admmnet.transport.zmq.membership import Membership, RunEnded
from admmnet.transport.zmq.transport import ZmqWorld


def keeping(settings: RunConfig) -> RunConfig:
    """Settings of an agent that can go on after a fault: with a checkpoint of every round, where there can be one."""
    if not settings.strikes or settings.checkpoint_every is not None:
        return settings
    can = settings.seeded or settings.chosen_method.goes_on
    return replace(settings, checkpoint_every=1) if can else settings


def goes_on(settings: RunConfig) -> bool:
    """Whether an agent goes on after a fault: it keeps what it needs for that."""
    return bool(settings.strikes) and settings.checkpoint_every is not None


def folder_of(settings: RunConfig) -> Path:
    """Run folder of a run that begins or goes on."""
    return Path(str(settings.out if settings.resume in (None, AUTO) else settings.resume))


class Starts:
    """Starts of an agent's run, one after the other."""

    def __init__(self, member: Membership, memory: Memory, folder: Path, asking: Callable[[], Asker | None]) -> None:
        self._member, self._memory, self._asking, self._cause = member, memory, asking, ""
        self._folder = folder

    def next(self) -> tuple[ZmqWorld, Begun]:
        """Form the next start, and return its processes.

        Overtaken says that the run has ended, and that this folder has been finished by others' files, or by its own.
        """
        gc.collect()  # frames of a start that has ended hold its arrays, in cycles
        standing, facts, fresh = self._memory.standing()
        asker = self._asking()
        self._member.overtaken = lambda: (asker is not None and asker.taken()) or self._finished()
        try:
            start = self._member.meet(standing, fresh=fresh)
        finally:
            if asker is not None:
                asker.close()
        begun = self._memory.begun(start, self._member.graph.edges, facts, self._cause)
        begun.stage = self._member.stage
        return ZmqWorld(self._member, begun), begun

    def _finished(self) -> bool:
        """Whether a quorum has signed this agent's own last files: they have their names now."""
        member = self._member
        if not finish_own(self._folder, member.network, member.regroup.ends):
            return False
        say("finished", f"{self._folder} has finished: most agents have signed its last files", run=str(self._folder))
        return True

    def ended(self, settings: RunConfig, error: StartEnded) -> RunConfig:
        """Return the settings with which a run goes on after a start has ended; raise what ends the run."""
        if isinstance(error, RunEnded) or not self._member.goes_on:
            raise error
        if self._member.start is not None:  # nobody has left it here yet
            self._member.quit(error)
        self._cause = str(error)
        text = f"{error}; going on with the agents that are there"
        say("start-ended", text, "warning")
        print(f"admmnet: {text}", file=sys.stderr, flush=True)
        return resuming(replace(settings, resume=AUTO, out=str(folder_of(settings))))
