"""The end of a run that others have signed: an agent signs what it has made itself, and takes what most signed."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from admmnet.errors import CheckFailed, RequestError
from admmnet.record.finish import FINISH, adopt, drafts_of, keep_drafts, read_end, received
from admmnet.record.folder import ledger_name, sha256
from admmnet.running.closing import made_of
from admmnet.transport.zmq.wire import End


def fits(folder: Path, agent: int, models: Collection[str], end: End) -> str | None:
    """Why an agent does not sign an end that others have; None once its files are on this disk as drafts.

    It must know the agent's ledger as it is, and have a model that the agent has made with it: one of ``models``.
    """
    try:
        summary, digest = read_end(end.files)
        name = ledger_name(agent, summary.agents)
        if digest != end.digest:
            return "its files are not those that were signed"
        if name not in summary.ledgers or not (folder / name).exists():
            return "it is of a start without this agent"
        if sha256(folder / name) != summary.ledgers[name]:
            return "it does not match the ledger of this agent"
        if made_of(summary.ledgers[name], end.files) not in models:
            return "it has another model than this agent has made with its ledger"
        keep_drafts(folder, received(folder, end.files, "the end"))
    except (CheckFailed, RequestError) as error:
        return str(error)
    return None


def staged(folder: Path) -> End | None:
    """The end whose files are drafts in a folder."""
    files = drafts_of(folder)
    return End(read_end(files)[1], files) if files else None


def take_end(folder: Path, end: End) -> None:
    """Finish an agent's folder with an end that most have signed: by its own drafts, or the files of others."""
    own = staged(folder)
    mine = own is not None and own.digest == end.digest
    files = own.files if own is not None and mine else end.files
    adopt(folder, {**files, FINISH: end.finish}, "the end that most agents have signed", own=mine)
