"""Accounts of a run's agents: opened before it plans, refused where they belong to other records."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from admmnet.config.defaults import with_delta
from admmnet.config.run_config import RunConfig
from admmnet.data import DataSettings
from admmnet.errors import RequestError
from admmnet.files import load_json
from admmnet.privacy.ledger.account import AccountFile, account_path, delta_of
from admmnet.privacy.ledger.lines import KEPT
from admmnet.privacy.settings import ANOTHER_FOLDER, PrivacySettings
from admmnet.running.checkpoint.resume import begun_at
from admmnet.transport import World
from admmnet.transport.collective import gather_owned

RECORDS = "records.json"
"""File in an account's folder that says of which records it is, and which agents' accounts have been begun."""


def delta_for_all(
    config: RunConfig, world: World, owners: Sequence[Sequence[int]], counts: Mapping[int, int]
) -> RunConfig:
    """Settings with delta as a number; what an agent's account has is taken from its owner's word alone."""
    if config.delta != "auto" or not config.budgeted:
        return config
    found: dict[int, float] = {}
    if config.account is not None or world.name == "zmq":  # each host chooses whether it has an account
        folder = None if config.account is None else Path(config.account)
        own = {i: None if folder is None else delta_of(folder, i) for i in owners[world.rank]}
        told = gather_owned(world, owners, own, lambda i, delta: delta is None or _is_delta(delta), "account's delta")
        found = {i: delta for i, delta in told.items() if delta is not None}
    return with_delta(config, list(counts.values()), found)


def _is_delta(value: object) -> bool:
    return type(value) is float and 0.0 < value < 1.0


def open_accounts(
    config: RunConfig, world: World, counts: Mapping[int, int], mine: Sequence[int]
) -> dict[int, AccountFile]:
    """Accounts of this process's agents, none without ``--account``.

    Raises
    ------
    RequestError
        If one cannot be opened, is missing, or is of other records.
    """
    if config.account is None:
        return {}
    folder = Path(config.account)
    _complete(folder, _same_records(folder, config), mine)
    accounts: dict[int, AccountFile] = {}
    try:
        for i in mine:
            since = begun_at(config, i, len(counts))
            budget = PrivacySettings.budget_of(config, i)
            accounts[i] = AccountFile(
                folder, i, counts[i], *budget, since=since, mode=config.mode, kept=len(mine) <= KEPT
            )
    except BaseException:
        for account in accounts.values():
            account.close()
        raise
    return accounts


def _complete(folder: Path, then: Mapping[str, Any], agents: Sequence[int]) -> None:
    """Refuse a folder that lacks an account of these agents: what was spent would be forgotten."""
    begun = then.get("begun")
    if begun is None:  # older folders say only whether they hold the accounts of all agents
        used = any(path.stat().st_size for path in folder.glob("agent-*.jsonl"))
        begun = agents if used and then.get("all_agents") is True else ()
    for i in agents:
        path = account_path(folder, i)
        # a lock that is there knows what an empty one lacks
        whole = path.exists() and (path.stat().st_size > 0 or path.with_suffix(".lock").exists())
        if i in begun and not whole:
            raise RequestError(
                f"the account {path} is missing, or empty: by {folder / RECORDS} a run has used it, and what this "
                "agent spent stood there; put it back"
            )


def note_begun(config: RunConfig, accounts: Mapping[int, AccountFile]) -> None:
    """Write down which accounts have been begun, so that none goes missing in silence."""
    if config.account is None:
        return
    with (Path(config.account) / RECORDS).open("r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # against the other processes of this run
        then = load_json(file.read() or json.dumps(_dealing(config)))
        begun = sorted({*then.get("begun", ()), *accounts})
        if begun != then.get("begun"):
            file.seek(0)  # it only grows
            file.write(json.dumps({**then, "begun": begun}, indent=2).encode())
            file.flush()
            os.fsync(file.fileno())


def _dealing(config: RunConfig) -> dict[str, Any]:
    """What the account's folder says of its records."""
    return {
        "mode": config.mode,
        "noise": "seeded" if config.seeded else "private",
        "data": config.data,
        "data_seed": config.data_seed,
        "split": config.split,
        "test": config.test,
        "test_fraction": config.test_fraction,
        "no_test": config.no_test,
        "agents": config.agents or 1,
        "begun": [],
    }


def _same_records(folder: Path, config: RunConfig) -> dict[str, Any]:
    """Refuse an account of other records, or of another kind of noise: what it adds up would be nobody's cost.

    Return what the folder says.
    """
    now, path = _dealing(config), folder / RECORDS
    try:
        folder.mkdir(parents=True, exist_ok=True)
        try:
            with path.open("x", encoding="utf-8") as file:
                json.dump(now, file, indent=2)
            return now
        except FileExistsError:
            # another rank of this run may be writing it: the content is the same then
            text = path.read_text(encoding="utf-8")
            then = load_json(text) if text else now
    except (OSError, ValueError) as error:
        raise RequestError(f"cannot open the account {folder}: {error}") from None
    if not isinstance(then, dict) or not _is_list(then.get("begun", [])):
        raise RequestError(f"cannot open the account {folder}: {path} is damaged; put it back")
    before = _dealt({**now, "no_test": False, "mode": None, **then})
    for key, value in _dealt(now).items():
        if before[key] != value:
            why, remedy = "a record's cost would be spread over accounts that do not add up", ANOTHER_FOLDER
            if key in ("mode", "noise"):
                why = "what a simulation shows is no cost that an account of private runs could hold"
                remedy = "name another folder with --account"
            elif key == "data":
                why = "if these are the same records in another form, give them as they were"
            raise RequestError(
                f"the account {folder} was opened with {key} = {before[key]!r}, this run has {value!r}: {why}; {remedy}"
            )
    return then


def _is_list(value: object) -> bool:
    return isinstance(value, list) and all(type(agent) is int for agent in value)


def _dealt(values: Mapping[str, Any]) -> dict[str, Any]:
    """What decides the agents' records and what their account means; older accounts do not say their mode."""
    dealt = {name: value for name, value in values.items() if name not in ("no_test", "begun")}
    if values["no_test"] or (values["test"] is not None and not DataSettings(data=values["data"]).named):
        dealt["test"] = "nothing drawn"  # whatever file the errors are measured on
    if values["mode"] is None:
        dealt["mode"] = "simulation" if values["noise"] == "seeded" else RunConfig(data=values["data"]).mode
    return dealt
