"""The starts of one agent's run in one process: each but the last has ended by a fault (docs/protocol.md)."""

from __future__ import annotations

import gc
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

from admmnet.config.run_config import AUTO, RunConfig
from admmnet.errors import CheckFailed, RequestError, StartEnded
from admmnet.log import say
from admmnet.privacy.ledger.file import Ledger
from admmnet.record.finish import FINISH, check_end, keep_drafts
from admmnet.running.ending import fits, staged
from admmnet.running.handshake import resuming
from admmnet.running.journal import Journal
from admmnet.transport.begun import NEVER, Begun
from admmnet.transport.zmq.member import Finished, Member, RunEnded
from admmnet.transport.zmq.transport import ZmqWorld
from admmnet.transport.zmq.wire import End


def keeping(settings: RunConfig) -> RunConfig:
    """Settings of an agent that can go on after a fault: with a checkpoint of every round, where there can be one."""
    if settings.checkpoint_every not in (None, 1):
        raise RequestError("an agent keeps a checkpoint of every round: leave out --checkpoint-every")
    can = settings.seeded or not settings.baseline
    return settings.changed(checkpoint_every=1) if can else settings


def folder_of(settings: RunConfig) -> Path:
    """Run folder of a run that begins or goes on."""
    return Path(str(settings.out if settings.resume in (None, AUTO) else settings.resume))


class Starts:
    """Starts of an agent's run, one after the other."""

    def __init__(self, member: Member, journal: Journal, folder: Path, *, goes_on: bool) -> None:
        self._member, self._journal, self._folder, self._goes_on = member, journal, folder, goes_on
        self._cause = ""
        member.staged = lambda: staged(folder) if journal.signed else None

    def next(self) -> tuple[ZmqWorld, Begun]:
        """Form the next start, and return its processes; Finished once the run has ended, with its end."""
        gc.collect()  # frames of a start that has ended hold its arrays, in cycles
        member, (standing, facts) = self._member, self._journal.standing()
        member.charged = lambda: (standing.c, standing.lines, standing.head)
        start = member.meet(standing)
        begun = self._journal.begun(start, member.settings, len(member.graph.edges), facts, self._cause)
        assert self._journal.run is not None
        member.key = self._journal.run.key
        if start.rule == "finish":
            self._finish(start.end)
        begun.stage = self._stage
        held = member.charged
        member.charged = lambda: held() if begun.ledger is None else _charged(begun.ledger)
        return ZmqWorld(member, begun), begun

    def _finish(self, digest: str) -> NoReturn:
        """Sign the end that this start is about, if it is this agent's, too."""
        own = staged(self._folder) if self._journal.signed else None
        end = own if own is not None else self._member.wanted()
        if own is None:
            fault = fits(self._folder, self._member.rank, self._journal.models, end)
            if fault is not None or end.digest != digest or not self._journal.sign(digest):
                say("refused", f"the end that others have signed is not signed here: {fault}", "warning")
                end = End("", {})
        raise Finished(End(end.digest, end.files, self._member.stage(end))).of_all()

    def _stage(self, digest: str, files: Mapping[str, bytes]) -> bytes:
        if self._journal.signed not in ("", digest):  # of an earlier start: it signs no second one
            earlier = staged(self._folder)
            assert earlier is not None
            raise Finished(End(earlier.digest, earlier.files, self._member.stage(earlier))).of_all()
        keep_drafts(self._folder, files)
        self._journal.sign(digest)
        finish = self._member.stage(End(digest, dict(files)))
        try:
            check_end(self._folder, {**files, FINISH: finish}, "the end that the relay gave")
        except CheckFailed as error:
            raise StartEnded(str(error)).of_all() from None
        return finish

    def ended(self, settings: RunConfig, error: StartEnded) -> RunConfig:
        """Return the settings with which a run goes on after a start has ended; raise what ends the run."""
        if isinstance(error, RunEnded) or not self._goes_on:
            raise error
        self._member.quit(error)  # if nobody has left it here yet
        self._cause = str(error)
        text = f"{error}; going on with the agents that are there"
        say("start-ended", text, "warning")
        print(f"admmnet: {text}", file=sys.stderr, flush=True)
        return resuming(settings.changed(resume=AUTO, out=str(folder_of(settings))))


def _charged(ledger: Ledger) -> tuple[int, int, str]:
    """Highest charged round of a ledger, its lines, and its head, which are on the disk."""
    ledger.chain.file.commit()
    head, lines, _ = ledger.head
    return max(ledger.charged, NEVER), lines, head
