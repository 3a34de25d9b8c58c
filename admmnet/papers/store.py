"""Measurements of a folder: missing ones are made and kept at once, finished ones never repeated."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

from admmnet.errors import BudgetError, RequestError, RunError
from admmnet.experiments.pool import Call, Failure, Pool
from admmnet.files import load_json, refusing
from admmnet.version import __version__

RESULTS = "results.jsonl"
"""One line a finished measurement: its key, its description, its result."""

Result = dict[str, Any]
"""Figures of a measurement; ``{"refused": message}`` where the settings are refused."""


class Job:
    """A measurement: a picklable, hashable task of a pool, given by the fields of its dataclass."""

    @property
    def words(self) -> str:
        """How messages call it."""
        raise NotImplementedError

    def __call__(self, shelf: Any) -> Result:
        """Measure."""
        raise NotImplementedError

    def key(self) -> dict[str, Any]:
        """Everything that its result depends on but the version, as JSON takes it."""
        return {field.name: _plain(getattr(self, field.name)) for field in fields(self)}  # type: ignore[arg-type]


def _plain(value: Any) -> Any:
    if hasattr(value, "key"):
        return value.key()
    return [_plain(part) for part in value] if isinstance(value, tuple) else value


def fingerprint(job: Job) -> str:
    """Key of a measurement in ``RESULTS``."""
    content = json.dumps([__version__, type(job).__name__, job.key()], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()[:24]


J = TypeVar("J", bound=Job)


class Lab:
    """Measurements of one folder, in its file ``RESULTS``, which this process alone writes."""

    def __init__(self, folder: Path, pool: Pool) -> None:
        self._pool, self._path = pool, folder / RESULTS
        self._known = _read(self._path)
        self._keys: dict[Job, str] = {}
        self.made = 0

    def _key(self, job: Job) -> str:
        if job not in self._keys:
            self._keys[job] = fingerprint(job)
        return self._keys[job]

    def measure(self, phase: str, jobs: Sequence[J]) -> dict[J, Result]:
        """Return the results of all jobs, running those that have none.

        RunError if any failed, naming the first; the others are kept, and the same call tries it again.
        """
        wanted, failed = list(dict.fromkeys(jobs)), []
        missing = [job for job in wanted if self._key(job) not in self._known]
        for number, answer in self._pool.run(
            [Call(job.words, _call, (job,)) for job in missing], phase, len(wanted) - len(missing)
        ):
            if not isinstance(answer, Failure):
                self._keep(missing[number], answer)
            elif answer.code in (RequestError.exit_code, BudgetError.exit_code):
                self._keep(missing[number], {"refused": answer.message})
            else:
                failed.append((missing[number].words, answer))
        if failed:
            words, failure = failed[0]
            error = RunError(
                f"{phase}: {len(failed)} failed, first {words}: {failure.message}; the same call tries them again"
            )
            error.add_note(failure.trace)
            raise error
        return {job: self._known[self._key(job)] for job in wanted}

    def _keep(self, job: Job, result: Result) -> None:
        key = self._key(job)
        line = json.dumps({"key": key, "job": job.key(), "result": result}, allow_nan=True)
        try:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(line + "\n")
        except OSError as error:
            raise RunError(
                f"cannot write {self._path}: {error.strerror}; free some space and make the same call again"
            ) from None
        self._known[key] = json.loads(line)["result"]  # as a later call will read it
        self.made += 1


def _call(shelf: Any, job: Job) -> Result:
    return job(shelf)


def _read(path: Path) -> dict[str, Result]:
    """Results of earlier calls; a line that an ended process left unfinished is cut off."""
    whole = b""
    with refusing(f"use {path}", "; mend that, or name another folder with -o"), suppress(FileNotFoundError):
        data = path.read_bytes()
        whole = data[: data.rfind(b"\n") + 1]
        if len(whole) < len(data):
            os.truncate(path, len(whole))
    known: dict[str, Result] = {}
    for number, text in enumerate(whole.split(b"\n")[:-1], start=1):
        try:
            line = load_json(text)
            key, result = line["key"], line["result"]
            if not isinstance(key, str) or not isinstance(result, dict):
                raise TypeError("no measurement")
        except (ValueError, KeyError, TypeError) as error:
            raise RequestError(
                f"{path}, line {number} is damaged ({error}): delete this line, and the same call measures it again"
            ) from None
        known[key] = result
    return known
