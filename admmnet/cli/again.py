"""The starts of one agent's run in one process: each but the last has ended by a fault (docs/protocol.md)."""

from __future__ import annotations

import gc
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from admmnet.config.run_config import AUTO, RunConfig
from admmnet.errors import CheckFailed, StartEnded
from admmnet.log import say
from admmnet.record.finish import FINISH, check_end
from admmnet.running.checkpoint.memory import Memory
from admmnet.running.ending import fits, staged
from admmnet.running.handshake import resuming
from admmnet.transport.begun import Begun
from admmnet.transport.zmq.member import Member, RunEnded
from admmnet.transport.zmq.transport import ZmqWorld
from admmnet.transport.zmq.wire import End


def keeping(settings: RunConfig) -> RunConfig:
    """Settings of an agent that can go on after a fault: with a checkpoint of every round, where there can be one."""
    can = settings.seeded or settings.chosen_method.goes_on
    return replace(settings, checkpoint_every=1) if can and settings.checkpoint_every is None else settings


def folder_of(settings: RunConfig) -> Path:
    """Run folder of a run that begins or goes on."""
    return Path(str(settings.out if settings.resume in (None, AUTO) else settings.resume))


class Starts:
    """Starts of an agent's run, one after the other."""

    def __init__(self, member: Member, memory: Memory, folder: Path, *, goes_on: bool) -> None:
        self._member, self._memory, self._folder, self._goes_on = member, memory, folder, goes_on
        self._cause = ""
        member.sign, member.staged = self._sign, lambda: staged(folder) if memory.kept.signed else None

    def next(self) -> tuple[ZmqWorld, Begun]:
        """Form the next start, and return its processes."""
        gc.collect()  # frames of a start that has ended hold its arrays, in cycles
        standing, facts = self._memory.standing()
        start = self._member.meet(standing)
        begun = self._memory.begun(start, len(self._member.graph.edges), facts, self._cause)
        self._member.run = self._memory.kept.run
        begun.stage = self._stage
        return ZmqWorld(self._member, begun), begun

    def _stage(self, digest: str, files: Mapping[str, bytes]) -> bytes:
        if not self._memory.sign(digest):
            raise StartEnded("this agent has signed another end of the run, and signs no second one").of_all()
        finish = self._member.stage(End(digest, {name: data for name, data in files.items() if name != "noise.npy"}))
        try:
            check_end(self._folder, {**files, FINISH: finish}, "the end that the relay gave")
        except CheckFailed as error:
            raise StartEnded(str(error)).of_all() from None
        return finish

    def _sign(self, end: End) -> bool:
        fault = fits(self._folder, self._member.rank, self._memory.kept.models, end)
        if fault is not None:
            say("refused", f"the end that others have signed is not signed here: {fault}", "warning")
        return fault is None and self._memory.sign(end.digest)

    def ended(self, settings: RunConfig, error: StartEnded) -> RunConfig:
        """Return the settings with which a run goes on after a start has ended; raise what ends the run."""
        if isinstance(error, RunEnded) or not self._goes_on:
            raise error
        if self._member.start is not None:  # nobody has left it here yet
            self._member.quit(error)
        self._cause = str(error)
        text = f"{error}; going on with the agents that are there"
        say("start-ended", text, "warning")
        print(f"admmnet: {text}", file=sys.stderr, flush=True)
        return resuming(replace(settings, resume=AUTO, out=str(folder_of(settings))))
