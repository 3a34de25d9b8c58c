"""Fits that are runs on records in memory, of which no folder stays but an account."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from admmnet.estimators import tally
from admmnet.library import RunResult, run
from admmnet.methods import METHODS
from admmnet.predict.apply import NewData, rows_for
from admmnet.predict.model import Model
from admmnet.privacy.budget import Totals
from admmnet.privacy.events import Unprotected
from admmnet.record.reader import read_run
from admmnet.running.plan import Plan
from admmnet.transport.local import LocalWorld


class Ran(NamedTuple):
    """What a fit keeps of its run: model and plan, and ``privacy`` of the summary with ``process``."""

    result: RunResult
    model: Model
    plan: Plan
    privacy: dict[str, Any]


def run_on(account: str | Path, seed: int | None, **asked: Any) -> Ran:
    """Run a method as ``admmnet.run`` does, in one process; private without a ``seed``. Errors are those of ``run``."""
    folder, method = tally.folder_of(account), METHODS[asked["algorithm"]]
    private, plans, process = seed is None and method.private, list[Plan](), None
    how: dict[str, Any] = {"account": folder, "no_account": folder is None, "no_test": True, "seed": seed}
    with TemporaryDirectory() as place, tally.telling(folder):
        out = Path(place) / "run"
        try:
            world = LocalWorld(lasting=False)
            how |= {"private": private, "simulate": not private, "out": str(out)}
            result = run(world=world, on_start=plans.append, **how, **asked)
            model = result.model
        finally:  # what was charged is spent, whatever came then
            begun = private and (out / "ledger").is_dir()
            if ledgers := list(read_run(out, events=False).ledgers.values()) if begun else []:
                delta = max(float(one.header["budget"]["delta"]) for one in ledgers)
                nothing = Totals.of([(Unprotected(), 1)], "proven")
                spent = [one.totals if method.covered else nothing for one in ledgers]
                where = tally.IN_MEMORY if folder is None else str(Path(folder).resolve())
                process = tally.PROCESS.add(spent, delta, ledgers[0].header["adjacency"], where)
    return Ran(result, model, plans[0], {**result.summary["privacy"], "process": process})


def rows_by(model: Model, X: Any) -> Any:
    """Rows of X (n, d) as those that the model was fitted to."""
    return rows_for(model, NewData(data=X), labelled=False).X_test
