"""Accounts of a run's agents: opened before it plans, refused where they belong to other records."""

from __future__ import annotations

import fcntl
import json
import math
import os
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from admmnet.data import DataSettings
from admmnet.data.settings import split_of
from admmnet.errors import CheckFailed, RequestError
from admmnet.files import load_json, stay_open
from admmnet.methods.base import Method
from admmnet.privacy.budget import Totals
from admmnet.privacy.calibrate import Target
from admmnet.privacy.contract import Contract
from admmnet.privacy.ledger.account import AccountFile, account_path
from admmnet.privacy.ledger.checks import header_line
from admmnet.privacy.settings import ANOTHER_FOLDER, PrivacySettings
from admmnet.record.folder import ledger_name

RECORDS = "records.json"
"""File in an account's folder that says of which records it is, and which agents' accounts have been begun."""


def open_accounts(
    settings: PrivacySettings,
    records: Mapping[str, Any],
    counts: Mapping[int, int],
    mine: Sequence[int],
    since: str | None,
    opened: ExitStack,
) -> dict[int, AccountFile]:
    """Accounts of this process's agents, which ``opened`` closes.

    ``records`` is what ``records_of`` says, ``since`` the folder of a run that goes on. RequestError if one cannot be
    opened, is missing, or is of other records.
    """
    folder = Path(str(settings.account))
    begun = _same_records(folder, records)["begun"]
    for i in mine:  # what was spent would be forgotten
        path = account_path(folder, i)
        # a lock that is there knows what an empty one lacks
        whole = path.exists() and (path.stat().st_size > 0 or path.with_suffix(".lock").exists())
        if i in begun and not whole:
            raise RequestError(
                f"the account {path} is missing, or empty, but by {folder / RECORDS} a run has used it: "
                "put it back, it holds this agent's spending"
            )
    # as PrivacySettings has it: settings of another package's method do not say what was promised
    budgets = {i: PrivacySettings.budget_of(settings, i) for i in mine}
    accounts: dict[int, AccountFile] = {}
    how: dict[str, Any] = {"mode": records["mode"], "kept": stay_open(len(mine)), "alone": len(mine) == 1}
    for i in mine:
        accounts[i] = AccountFile(folder, i, counts[i], *budgets[i], since=begun_at(since, i, len(counts)), **how)
        opened.callback(accounts[i].close)
    return accounts


def begun_at(resume: str | None, agent: int, agents: int) -> str | None:
    """Digest after which a run that goes on began in an agent's account; None of a new run."""
    if resume is None:
        return None
    path = Path(resume) / ledger_name(agent, agents)
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


def restore(folder: Path, agent: int, epsilon: float) -> None:
    """Count as spent, in an agent's account, all that its filter has left up to epsilon: see ``AccountFile.restore``.

    RequestError if it cannot be opened, CheckFailed if it does not verify.
    """
    path = account_path(folder, agent)
    if not path.exists() or not path.stat().st_size:
        return  # no run has begun there
    with path.open("rb") as file:
        header = header_line(file.readline()[:-1])
    delta = header.budget.delta
    assert delta is not None  # no account without
    account = AccountFile(folder, agent, header.records, epsilon, delta)
    try:
        account.restore()
    finally:
        account.close()


def note_begun(folder: Path, agents: Collection[int]) -> None:
    """Write down which accounts have been begun, so that none goes missing in silence."""
    with (folder / RECORDS).open("r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # against the other processes of this run
        then = load_json(file.read())
        begun = sorted({*then["begun"], *agents})
        if begun != then["begun"]:
            file.seek(0)  # it only grows
            file.write(json.dumps({**then, "begun": begun}, indent=2).encode())
            file.flush()
            os.fsync(file.fileno())


def records_of(data: DataSettings, agents: int, mode: str) -> dict[str, Any]:
    """What the folder of accounts says of its records."""
    dealing = {name: getattr(data, name) for name in ("data", "data_seed", "split", "test", "test_fraction", "no_test")}
    dealing["split"] = split_of(data, agents)
    return {"mode": mode, "noise": "private", **dealing, "agents": agents, "begun": []}


def _same_records(folder: Path, now: Mapping[str, Any]) -> Mapping[str, Any]:
    """Refuse an account of other records, or of another kind of noise: its sum would be no agent's cost.

    Return what the folder says.
    """
    path = folder / RECORDS
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
    whole = isinstance(then, dict) and set(then) == set(now) and isinstance(then["begun"], list)
    if not whole or {*map(type, then["begun"])} - {int}:
        raise RequestError(f"cannot open the account {folder}: {path} is damaged; put it back")
    before = _dealt(then)
    for key, value in _dealt(now).items():
        if before[key] != value:
            why, remedy = "a record's cost would be spread over accounts that do not add up", ANOTHER_FOLDER
            if key in ("mode", "noise"):
                why = "an account of private runs holds no costs of simulations"
                remedy = "name another folder with --account"
            elif key == "data":
                why = "if these are the same records in another form, give them as they were"
            raise RequestError(
                f"the account {folder} was opened with {key} = {before[key]!r}, this run has {value!r}: {why}; {remedy}"
            )
    return then


def _dealt(values: Mapping[str, Any]) -> dict[str, Any]:
    """What decides the agents' records and what their account means."""
    dealt = {name: value for name, value in values.items() if name not in ("no_test", "begun")}
    if values["no_test"] or (values["test"] is not None and not DataSettings(data=str(values["data"])).named):
        dealt["test"] = "nothing drawn"  # whatever file the errors are measured on
    return dealt


def check_gaussian(account: AccountFile, method: Method, agent: int, target: Target, *, asked: bool) -> None:
    """Refuse a plan that an account of mu^2 cannot add up, before anything is calibrated to what is left.

    ``asked`` says whether an order was asked for, which is fixed when an account is opened. RequestError names what the
    plan would charge.
    """
    if asked:
        raise RequestError(
            f"account_order came too late: the account {account.path} was opened without a Renyi order; leave it out, "
            "or name another folder with --account: its epsilon comes on top"
        )
    fresh = method.plan(agent, replace(target, spent=None, account=None))
    other = sorted(
        {event.mechanism for event, _ in fresh.charges if math.isinf(Totals.of([(event, 1)], "").mu_squared)}
    )
    if other:
        raise RequestError(
            f"the account {account.path} adds up mu^2, which {', '.join(other)} of {method.settings.algorithm!r} has "
            "none of here. Take an algorithm with Gaussian noise (noisy-gd, ssp; pp-admm and ipp-admm where --eta or "
            "--proximal is large enough), or name another folder with --account: its epsilon comes on top of this "
            "one's. With --account-order it takes every method"
        )


def check_promise(account: AccountFile, method: Method, contract: Contract) -> None:
    """Refuse to add up what is proven for another relation, or masked among more agents, than before.

    RequestError names what the account has, and what this run has.
    """
    if account.adjacency not in (None, contract.adjacency):
        raise RequestError(
            f"the account {account.path} adds up costs for {account.adjacency}, but {method.name} is for "
            f"{contract.adjacency}: {ANOTHER_FOLDER}"
        )
    parts = 1 if contract.filter is None else contract.filter.parts
    if account.filter is not None and parts > account.filter.parts:
        raise RequestError(
            f"the account {account.path} was opened for masked sums of at most {account.filter.parts} agents that do "
            f"not collude, this run has {parts}: raise --colluders; else {ANOTHER_FOLDER}"
        )


def delta_of(folder: Path, agent: int) -> float | None:
    """Delta that an agent's account was opened with; None of one that is new, or cannot be read."""
    try:
        with account_path(folder, agent).open("rb") as file:
            return header_line(file.readline()[:-1]).budget.delta
    except (OSError, CheckFailed):
        return None  # opening it says what is wrong
