"""The starts of one agent's run in one process: each but the last has ended by a fault (docs/protocol.md)."""

from __future__ import annotations

import gc
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

from admmnet.config.run_config import AUTO, RunConfig
from admmnet.errors import CheckFailed, StartEnded
from admmnet.log import say
from admmnet.privacy.ledger.file import Ledger
from admmnet.record.finish import FINISH, check_end, keep_drafts
from admmnet.running.arguments import resuming
from admmnet.running.closing import fits, staged
from admmnet.running.starts import HostJournal
from admmnet.transport.begun import Begun
from admmnet.transport.zmq.meeting import Standing
from admmnet.transport.zmq.member import Finished, Member, RunEnded
from admmnet.transport.zmq.transport import ZmqWorld
from admmnet.transport.zmq.wire import End


def folder_of(settings: RunConfig) -> Path:
    """Run folder of a run that begins or goes on."""
    return Path(str(settings.out if settings.resume in (None, AUTO) else settings.resume))


def only_start(member: Member) -> ZmqWorld:
    """Processes that one command has started, of which none goes on without the others."""
    start = member.meet(Standing())
    return ZmqWorld(member, Begun(start.name, 0, tuple(start.members), tuple(start.edges)))


class Starts:
    """Starts of the run of an agent on a host of its own, one after the other."""

    def __init__(self, member: Member, journal: HostJournal, folder: Path) -> None:
        self._member, self._journal, self._folder = member, journal, folder
        self._cause = ""
        member.staged = lambda: staged(folder) if journal.signed else None

    def next(self) -> ZmqWorld:
        """Form the next start, and return its processes; Finished once the run has ended, with its end."""
        gc.collect()  # frames of a start that has ended hold its arrays, in cycles
        member, journal = self._member, self._journal
        standing = journal.standing()
        member.charged = lambda: (standing.c, standing.lines, standing.head)
        start = member.meet(standing)
        begun = journal.begun(start, member.settings, len(member.graph.edges), self._cause)
        assert journal.run is not None
        member.key = journal.run.key
        if start.rule == "finish":
            self._finish(start.end)
        begun.stage = self._stage
        held = member.charged
        member.charged = lambda: held() if begun.ledger is None else _charged(journal.c, begun.ledger)
        return ZmqWorld(member, begun)

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
        if isinstance(error, RunEnded):
            raise error
        self._member.quit(error)  # if nobody has left it here yet
        self._cause = str(error)
        text = f"{error}; going on with the agents that are there"
        say("start-ended", text, "warning")
        print(f"admmnet: {text}", file=sys.stderr, flush=True)
        return resuming(settings.changed(resume=AUTO, out=str(folder_of(settings))))


def _charged(round: int, ledger: Ledger) -> tuple[int, int, str]:
    """Highest begun round, lines of the ledger, and its head, which are on the disk."""
    ledger.chain.file.commit()
    head, lines, _ = ledger.head
    return round, lines, head
