"""The settings of a run, the same at every process: from the arguments of ``run``, another host's, a run folder."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from admmnet.config.run_config import AUTO, RunConfig
from admmnet.data.settings import AGENT, GIVEN, reserved
from admmnet.errors import RequestError
from admmnet.record.folder import is_begun
from admmnet.running.agreement import agreed, numbered
from admmnet.running.arguments import Arguments, checked, taken
from admmnet.running.resume import resumed_config, saved_config
from admmnet.running.takeover import told_of
from admmnet.transport import World
from admmnet.version import __version__

if TYPE_CHECKING:
    from admmnet.data.given import Given


OWN = "a file of each agent's own"
"""All that is told of a file that no other agent need have."""


def arguments(
    world: World, config: RunConfig | None, typed: Mapping[str, Any], asked: Arguments, *, stoppable: bool
) -> tuple[RunConfig, Given | None]:
    """Settings and records in memory of the arguments of ``run``, in ``as_one``.

    RequestError if arguments are wrong, differ, or leave an agent out.
    """
    if not isinstance(config, RunConfig | None):
        raise RequestError(
            f"run was given a {type(config).__name__} without a name: it takes a RunConfig there; records go by "
            "name, run(X=X, y=y), run(shards=[(X, y), ...]) or run(data=frame, label=NAME)"
        )
    before = {} if config is None else config.flat
    settings, given = taken(before, typed, asked)
    found = config if config is not None and settings == before else RunConfig(**settings)
    if given is not None:
        method, network = found.sections.method, found.sections.network
        changes, given = checked(given, method, network, found.split, simulation=found.simulation)
        found = found.changed(**changes) if changes else found
    elif found.data in GIVEN and asked.loader is None:
        raise RequestError(reserved(found.data))
    shown = partial(public_settings, found, digests=found.simulation)
    own = {"account": found.account and "DIR", "stoppable": stoppable, "loader": asked.loader and "a function"}
    own |= {name: getattr(found, name) for name in ("transport", "no_account", "out", "resume")}
    known = agreed(world, given, lambda: shown() | own, simulation=found.simulation)
    if known is None:
        return found, given
    agents = numbered(known, found.agents, named=found.topology is not None or found.topology_schedule is not None)
    return found.changed(agents=agents) if found.agents != agents else found, given


def resuming(config: RunConfig) -> RunConfig:
    """Settings of a run whose ``resume`` is set: what it does not say is as in the folder.

    RequestError as ``resumed_config``.
    """
    folder = Path(str(config.out if config.resume == AUTO else config.resume))
    if config.resume == AUTO and not is_begun(folder):
        return config.changed(resume=None)
    saved = saved_config(folder)
    known = config.known
    kept = [name for name in saved.keeps if name not in known or known[name].about.saved]
    if all(getattr(config, name) == getattr(saved, name) for name in kept):
        return config.changed(out=str(folder), resume=str(folder))  # from `resumed_config`
    plain = RunConfig()
    given = {name: getattr(config, name) for name in known}
    given = {name: value for name, value in given.items() if value != getattr(plain, name, known[name].default)}
    return resumed_config(folder, given)


def public_settings(config: RunConfig, *, schedule: str | None = None, digests: bool = True) -> dict[str, Any]:
    """Return what must be the same at every agent, as JSON values; nothing in it is secret.

    Where all agents read the same disk (``digests`` false) files are compared by their paths. Over hosts a simulation
    compares the content of a file with every agent's records, as all must deal the same rows, and of the test file. Of
    a private run's files nothing is told: each agent has its own. ``schedule`` is the digest of the graphs that take
    turns.
    """
    known = config.known.values()
    values = {own.name: getattr(config, own.name) for own in known if not own.about.hosts}
    data, test = config.data, config.test
    values["encode"] = told_of(config.sections.data, config.sections.run)
    if digests and data not in GIVEN and not config.sections.data.named:
        data = _digest(data) if config.simulation and AGENT not in data else OWN
    if digests and test not in (None, "official", *GIVEN):
        test = _digest(str(test)) if config.simulation else OWN
    if digests and schedule is not None:
        values["topology_schedule"] = f"graphs with sha256 {schedule[:16]}"
    return {"admmnet": __version__, "data": data, "test": test, **values}


def _digest(path: str) -> str:
    """Content of a file in a few words; a file that cannot be read is found out together, when all load."""
    try:
        with Path(path).open("rb") as file:
            return f"a file with sha256 {hashlib.file_digest(file, 'sha256').hexdigest()[:16]}"
    except OSError as error:
        return f"a file that cannot be read: {error.strerror}"
