"""Settings that a private run must have before it starts, and those that it cannot have (docs/cli.md, "Modes")."""

from __future__ import annotations

import os

from admmnet.config.run_config import RunConfig, RunSettings
from admmnet.data.sets import OFFICIAL
from admmnet.data.settings import AGENT, GIVEN, DataSettings, parse_split
from admmnet.errors import RequestError
from admmnet.methods.settings import MethodSettings

SIMULATE = "if these records are public or made up, --simulate makes this a simulation, which protects nothing"


def check_mode(config: RunConfig) -> None:
    """Refuse a private run that leaves open what it must say; simulations need say nothing."""
    if config.simulation:
        return
    parts = []
    if not config.budgeted:
        parts.append(f"{config.algorithm} has no privacy")
    wrong = _refused(config.request)
    from admmnet.solvers.losses import LOSSES, is_ours  # imports numpy

    if config.loss != "auto" and not (config.baseline or is_ours(LOSSES[config.loss])):
        wrong.append(f"--loss {config.loss}, whose code would see the records")
    if wrong:
        parts.append("it cannot have " + ", ".join(wrong))
    missing = [word for word in (_test(config.request), _account(config.sections.method)) if word is not None]
    if missing:
        parts.append("it needs " + " and ".join(missing))
    if parts:
        _check_files(config.request)
        why, remedy = f"data = {config.data!r} is not declared public", SIMULATE
        if config.private:
            why, remedy = "private was asked for", "without --private, --simulate makes this a simulation"
        if config.resume is not None:
            remedy = "the run in that folder was begun without it: run anew"
        raise RequestError(f"{why}, so this run is private: {'; '.join(parts)}; {remedy}")


def check_comparable(data: DataSettings, run: RunSettings) -> None:
    """Refuse to compare methods on records that nobody has said to be public: tuning and references read them all."""
    if run.private:
        raise RequestError("private does not go with compare, a simulation: its figures depend on the records")
    if data.encode != "declared":
        raise RequestError(
            f"encode = {data.encode!r} does not go with compare, whose methods see the same rows: leave it out"
        )
    if not (data.public_data or run.simulate):
        _check_files(data)
        raise RequestError(
            f"data = {data.data!r} is not declared public, and figures of compare depend on the records: {SIMULATE}"
        )


def _check_files(data: DataSettings) -> None:
    """A mistaken name is no private file: it comes before the questions of a private run."""
    if not data.named and data.data not in GIVEN:
        from admmnet.data.sources import validate

        validate(data)


def _refused(data: DataSettings) -> list[str]:
    wrong = []
    if data.test not in (None, *GIVEN) and _is_training_file(str(data.test), data.data):
        wrong.append(f"--test {data.test}, which is a file of its own records")
    if data.test_fraction is not None:
        wrong.append("--test-fraction, which publishes a draw of the records")
    if parse_split(data.split).kind in ("dirichlet", "by-column"):
        wrong.append(f"--split {data.split}, which deals by the records' values and shows the shard sizes")
    if data.record_epsilon is not None:
        wrong.append(f"--record-epsilon {data.record_epsilon}, whose values decide batches and steps, which are shown")
    return wrong


def _is_training_file(test: str, data: str) -> bool:
    """Whether test records are those of the run; with {agent} in the path those of any agent."""
    before, agent, after = os.path.realpath(data).partition(AGENT)
    own = os.path.realpath(test)
    if not agent:
        return own == before
    number = own[len(before) : len(own) - len(after)]
    return own == before + number + after and number.isdecimal()


def _test(data: DataSettings) -> str | None:
    if data.test is not None or data.no_test:
        return None
    if data.own_set or (data.public_data and data.data not in OFFICIAL):
        return "--no-test"
    own = "official" if data.public_data else "FILE"
    return f"--test {own} (records on which errors may be published) or --no-test"


def _account(settings: MethodSettings) -> str | None:
    if settings.account is not None or settings.no_account:
        return None
    if settings.method == "published":
        return "--no-account (an account adds up proven costs alone)"
    return "--account DIR (which adds up the cost of all runs on these records) or --no-account"
