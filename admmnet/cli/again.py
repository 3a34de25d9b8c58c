"""Going on in the same process when a fault has ended a start of a run over several hosts (docs/hosts.md)."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

from admmnet.config.run_config import AUTO, RunConfig
from admmnet.errors import RunError, StartEnded
from admmnet.record.folder import CHECKPOINT
from admmnet.running.handshake import resuming


def keeping(settings: RunConfig) -> RunConfig:
    """Settings of an agent that can go on after a fault: with a checkpoint of every round, where there can be one."""
    if not settings.strikes or settings.on_loss != "stop" or settings.checkpoint_every is not None:
        return settings
    can = settings.seeded or settings.chosen_method.goes_on
    return replace(settings, checkpoint_every=1) if can else settings


class Starts:
    """Starts of one agent's run, of which each but the last has ended by a fault."""

    def __init__(self, settings: RunConfig) -> None:
        self._goes_on = settings.on_loss == "stop" and settings.checkpoint_every is not None
        self.wait = settings.connect_deadline
        """Seconds until the next process must have come to this start."""
        self._until = time.monotonic() + self.wait * (settings.resume is not None)
        self._strikes, self._done, self._moved = 0, _newest(settings), time.monotonic()

    def after(self, settings: RunConfig, error: RunError, *, met: bool) -> RunConfig:
        """Return the settings of the next start, or raise the error that ended this one, in which all had ``met``.

        It ends the run where no fault has caused it, after too many starts without a new round, or too much time.
        """
        if not self._goes_on or error.exit_code != RunError.exit_code or (met and not isinstance(error, StartEnded)):
            raise error
        now = time.monotonic()
        if met:
            done = _newest(settings)
            self._strikes += 1
            if done > self._done:
                self._strikes, self._done, self._moved = 1, done, now
            self._until = now + settings.regroup_deadline
        stands_still = now > self._moved + settings.strikes * settings.regroup_deadline
        if stands_still or self._strikes > settings.strikes or now >= self._until:
            raise error
        self.wait = self._until - now
        return resuming(replace(settings, resume=AUTO, out=str(folder_of(settings))))


def folder_of(settings: RunConfig) -> Path:
    """Run folder of a run that begins or goes on."""
    return Path(str(settings.out if settings.resume in (None, AUTO) else settings.resume))


def _newest(settings: RunConfig) -> int:
    """Rounds done in the newest checkpoint; -100 where there is none."""
    return max((int(path.name) for path in (folder_of(settings) / CHECKPOINT).glob("*[0-9]")), default=-100)
