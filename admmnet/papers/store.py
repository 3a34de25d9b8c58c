"""Measuring: what is asked for is looked up in the folder, and what is missing is run and kept there at once."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

from admmnet.errors import BudgetError, RequestError, RunError
from admmnet.experiments.pool import Failure, Pool
from admmnet.experiments.progress import Watch
from admmnet.version import __version__

RESULTS = "results.jsonl"
"""One line a finished measurement: its key, what it is, what came out."""

Result = dict[str, Any]
"""Figures of a measurement; ``{"refused": message}`` where the settings are refused."""


class Job(Protocol):
    """A measurement: a picklable, hashable task of a pool."""

    @property
    def words(self) -> str:
        """What it is, in messages and beside the bar."""

    def key(self) -> dict[str, Any]:
        """Everything that its result depends on but the version, as JSON takes it."""

    def __call__(self, shelf: Any) -> Result:
        """Measure."""


J = TypeVar("J", bound=Job)


def fingerprint(job: Job) -> str:
    """Key of a measurement in ``RESULTS``."""
    content = json.dumps([__version__, type(job).__name__, job.key()], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()[:24]


class Lab:
    """Measurements of one folder.

    Parameters
    ----------
    folder : Path
        Holds ``RESULTS``; this process alone writes there.
    pool : Pool
        Processes.
    watch : Watch
        Is told of progress.
    """

    def __init__(self, folder: Path, pool: Pool, watch: Watch) -> None:
        self._pool, self._watch, self._path = pool, watch, folder / RESULTS
        self._known = _read(self._path)
        self.made = 0

    def measure(self, phase: str, jobs: Sequence[J]) -> dict[J, Result]:
        """Return the results of all jobs, running those that have none.

        Raises
        ------
        RunError
            If any failed, naming the first; the others are kept, and the same call tries it again.
        """
        keys = {job: fingerprint(job) for job in jobs}
        missing = [job for job, key in keys.items() if key not in self._known]
        self._watch.phase(phase, len(keys), len(keys) - len(missing))
        failed: list[tuple[str, Failure]] = []
        for number, answer in self._pool.run(missing):
            job = missing[number]
            if isinstance(answer, Failure):
                if answer.code not in (RequestError.exit_code, BudgetError.exit_code):
                    failed.append((job.words, answer))
                    continue
                answer = {"refused": answer.message}
            self._keep(keys[job], job, answer)
            self._watch.step(job.words)
        if failed:
            words, failure = failed[0]
            error = RunError(
                f"{phase}: {len(failed)} failed, first {words}: {failure.message}; the same call tries "
                "them again"
            )
            error.add_note(failure.trace)
            raise error
        return {job: self._known[key] for job, key in keys.items()}

    def _keep(self, key: str, job: Job, result: Result) -> None:
        line = json.dumps({"key": key, "job": job.key(), "result": result}, allow_nan=True)
        try:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(line + "\n")
                file.flush()
        except OSError as error:
            raise RunError(
                f"cannot write {self._path}: {error.strerror}; free some space and make the same call again"
            ) from None
        self._known[key] = json.loads(line)["result"]  # as a later call will read it
        self.made += 1


def _read(path: Path) -> dict[str, Result]:
    """Results of earlier calls; a line that an ended process left unfinished is cut off."""
    try:
        data = path.read_bytes()
        whole = data[: data.rfind(b"\n") + 1]
        if len(whole) < len(data):
            os.truncate(path, len(whole))
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise RequestError(
            f"cannot use {path}: {error.strerror}; mend that, or name another folder with -o"
        ) from None
    known: dict[str, Result] = {}
    for number, text in enumerate(whole.split(b"\n")[:-1], start=1):
        try:
            line = json.loads(text)
            key, result = line["key"], line["result"]
            if not isinstance(key, str) or not isinstance(result, dict):
                raise TypeError("no measurement")
        except (ValueError, KeyError, TypeError) as error:
            raise RequestError(
                f"{path}, line {number} is damaged ({error}): delete this line, and the same call measures it again"
            ) from None
        known[key] = result
    return known


def plain(settings: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    """Settings as a hashable tuple, in their order."""
    return tuple(settings.items())
