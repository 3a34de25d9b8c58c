"""The settings of a run that goes on: those of its folder, and nothing else that would change a number."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from admmnet.config.run_config import RunConfig
from admmnet.config.toml import load_saved
from admmnet.errors import RequestError
from admmnet.files import load_json
from admmnet.record.folder import CHECKPOINT, SUMMARY, ledger_path
from admmnet.record.format import epsilon


def resumed_config(folder: str | Path, flags: Mapping[str, Any] | None = None) -> RunConfig:
    """Settings with which an interrupted run goes on.

    Of ``flags``, by setting, None counts as not given. Transport, deadlines and ``checkpoint_every`` alone may differ
    from the folder's. RequestError if the folder is no run's, the run is finished or has no checkpoint, or a setting
    differs.
    """
    folder = Path(folder)
    saved = saved_config(folder)
    given = {name: value for name, value in (flags or {}).items() if value is not None and name != "resume"}
    known = saved.known
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


def begun_at(resume: str | None, agent: int, agents: int) -> str | None:
    """Digest after which a run that goes on began in an agent's account; None of a new run."""
    if resume is None:
        return None
    path = ledger_path(Path(resume), agent, agents)
    if not path.exists():
        return None  # the run died before it was made
    try:
        with path.open("rb") as file:
            header = load_json(file.readline())
        return str(header["account"])
    except (OSError, ValueError, KeyError, TypeError):
        raise RequestError(
            f"the ledger {path} does not say where its run began in the account: the interrupted run had none, or the "
            "file is damaged; run anew"
        ) from None


def saved_config(folder: Path) -> RunConfig:
    """Settings of a run that can go on.

    RequestError if the folder is no run's, the run is finished or has no checkpoint.
    """
    if not (folder / "config.toml").is_file():
        raise RequestError(f"{folder} is no run folder: it has no config.toml; name one with --resume")
    if (folder / SUMMARY).exists():
        raise RequestError(f"the run in {folder} is finished: there is nothing to resume")
    saved = load_saved(folder)
    spent = None if any((folder / CHECKPOINT).glob("*/part-*")) else _spent(folder)
    if spent is not None and (saved.checkpoint_every is None or spent):  # else it died before its first round
        keep = "--checkpoint-every K keeps checkpoints"
        if saved.seeded:  # whoever has the seed has the noise: nothing is spent
            raise RequestError(f"{folder} has no checkpoint: remove it and run anew; {keep}")
        raise RequestError(
            f"{folder} has no checkpoint ({spent or 'nothing is spent'}): run anew with --account, so that "
            f"spent budget counts, or remove the folder; {keep}"
        )
    return saved


def _spent(folder: Path) -> str:
    from admmnet.record.reader import read_run
    from admmnet.record.shelf import ledger_files

    books = read_run(folder, events=False).ledgers.values() if ledger_files(folder) else ()
    spent = [book.total()["epsilon_spent"] or 0.0 for book in books if book.count]
    return f"epsilon {epsilon(max(spent))} is spent" if spent else ""
