"""The settings of a run that goes on: those of its folder, and nothing else that would change a number."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from admmnet.config.run_config import RunConfig
from admmnet.config.toml import load_saved
from admmnet.errors import RequestError
from admmnet.record.folder import SUMMARY, followed, ledger_files
from admmnet.record.format import epsilon
from admmnet.record.journal import journals


def resumed_config(folder: str | Path, flags: Mapping[str, Any] | None = None) -> RunConfig:
    """Settings with which an interrupted run goes on.

    Of ``flags``, by setting, None counts as not given. Transport and deadlines alone may differ from the folder's.
    RequestError if the folder is no run's, the run is finished or cannot go on, or a setting differs.
    """
    folder = Path(folder)
    saved = saved_config(folder)
    given = {name: value for name, value in (flags or {}).items() if value is not None and name != "resume"}
    known = saved.described
    may = [name for name in known if name not in saved.keeps]
    for name, value in given.items():
        own = str(folder) if name == "out" else getattr(saved, name, None)
        if name not in may and value != own:
            raise RequestError(
                f"{name} = {value!r} differs from the interrupted run's {own!r}: a resumed run keeps its settings, "
                f"other than {', '.join(may)}; leave it out, or run anew"
            )
    free = {name: value for name, value in given.items() if name in may}
    transport = free.get("transport", saved.transport)  # another one's own settings fall away
    fallen = {name: own.default for name, own in known.items() if own.scope not in ("", "network", transport)}
    free = fallen | free
    return saved.changed(out=str(folder), resume=str(folder), **free)


def saved_config(folder: Path) -> RunConfig:
    """Settings of a run that can go on.

    RequestError if the folder is no run's, the run is finished, or it has charged what no journal has.
    """
    if not (folder / "config.toml").is_file():
        raise RequestError(f"{folder} is no run folder: it has no config.toml; name one with --resume")
    if (folder / SUMMARY).exists():
        raise RequestError(f"the run in {folder} is finished: there is nothing to resume")
    saved = load_saved(folder)
    if saved.seeded or journals(folder) or all(path.read_bytes().count(b"\n") < 2 for path in ledger_files(folder)):
        return saved  # else there are charges behind the headers
    known = [0.0 if one.total is None else one.total.epsilon_spent or 0.0 for one in followed(folder)]
    spent = f"epsilon {epsilon(max(known))} is spent" if any(known) else "its ledgers have charges"
    why = f"{saved.algorithm} keeps none" if saved.baseline else "it was removed, or another version wrote the folder"
    raise RequestError(
        f"{folder} has no journal to go on from ({why}), and {spent}: run anew with --account, so that spent budget "
        "counts, or remove the folder"
    )
