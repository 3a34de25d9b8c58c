"""What agents on several hosts tell each other of their settings before they exchange anything else."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from admmnet.config.run_config import RunConfig
from admmnet.data.settings import GIVEN, DataSettings
from admmnet.settings import settings_in
from admmnet.solvers.losses import LOSSES, get_loss
from admmnet.version import __version__


def public_settings(
    config: RunConfig, *, schedule: str | None = None, digests: bool = True, records: bool = True
) -> dict[str, Any]:
    """Return what must be the same at every agent, as JSON values; nothing in it is secret.

    Of a file with every agent's records, and of the test file, the content is compared: all must deal the same
    rows. A file of an agent's own (``{agent}`` in its path) is not looked into. Where all agents read the same disk
    (``digests`` false) files need not be compared, and without ``records`` the file of records is compared by its path.
    ``schedule`` is the digest of the graphs that take turns. Of a loss from outside the table is always compared.
    """
    known = settings_in(type(config)).values()
    values = {own.name: getattr(config, own.name) for own in known if not own.about.hosts}
    data, test = config.data, config.test
    if digests and records and "{agent}" in data:
        data = "a file of each agent's own"
    elif digests and records and data not in GIVEN and not DataSettings(data=data).named:
        data = _digest(data)
    if digests and test not in (None, "official", *GIVEN):
        test = _digest(str(test))
    if config.loss not in ("auto", *LOSSES.own) and (table := getattr(get_loss(config.loss), "digest", None)):
        values["loss"] = f"a table with sha256 {table[:16]}"
    if digests and schedule is not None:
        values["topology_schedule"] = f"graphs with sha256 {schedule[:16]}"
    resumed = config.resume is not None  # of what folder is each host's own, but all go on or none does
    return {"admmnet": __version__, "data": data, "test": test, "resume": resumed, **values}


def _digest(path: str) -> str:
    """Content of a file in a few words; a file that cannot be read is found out together, when all load."""
    try:
        with Path(path).open("rb") as file:
            return f"a file with sha256 {hashlib.file_digest(file, 'sha256').hexdigest()[:16]}"
    except OSError as error:
        return f"a file that cannot be read: {error.strerror}"
