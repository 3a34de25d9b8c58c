"""Fits that are runs on records in memory, of which no folder stays but an account; and what those of a process cost.

Private fits of this process are added up in memory as if all were on the same records (docs/library.md, "Many fits").
That is too much for fits on other records, and never too little. Worker processes count their own fits.
"""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Any

from admmnet.errors import AdmmnetError, PrivacyWarning, RequestError, short
from admmnet.library import RunResult, run
from admmnet.methods import METHODS
from admmnet.predict.apply import NewData, rows_for
from admmnet.predict.model import Model
from admmnet.privacy.budget import Totals, added, empty, largest
from admmnet.privacy.events import Unprotected
from admmnet.record.format import epsilon
from admmnet.record.reader import read_run
from admmnet.transport import World

IN_MEMORY = "process"
"""The ``account`` of fits that this tally alone adds up."""
_BETWEEN = frozenset({"admmnet", "sklearn", "joblib"})
"""Packages that call a fit in place of the caller's own line."""


@dataclass
class Tally:
    """What the private fits of a process have cost together."""

    fits: int = 0  # that have charged anything
    totals: Totals = field(default_factory=partial(empty, "proven"))  # their proven costs, composed
    delta: float = 1.0  # the smallest of theirs, at which the sum is read
    adjacency: str = "replace-one"  # or "zero-out", where one holds for that alone: bounds for the first hold for both
    accounts: frozenset[str] = frozenset()  # where they are added up: folders, or ``IN_MEMORY``
    _lock: Lock = field(default_factory=Lock)

    def add(self, spent: Sequence[Totals], delta: float, adjacency: str, account: str) -> dict[str, Any] | None:
        """Count a fit each of whose agents has spent at most this; return ``privacy_["process"]``, None for no cost.

        Warn from the second fit on, unless one folder adds up all of them.
        """
        if not any(totals.rho for totals in spent):
            return None
        with self._lock:
            self.fits, self.totals = self.fits + 1, added([self.totals, largest(spent)])
            self.delta, self.accounts = min(self.delta, delta), self.accounts | {account}
            self.adjacency = "zero-out" if adjacency == "zero-out" else self.adjacency
            fits, relation, only = self.fits, self.adjacency, self.accounts == {account}
            read, delta = float(self.totals.epsilon_proven(self.delta)), self.delta
        if fits > 1 and not (only and account != IN_MEMORY):
            told = f"epsilon {epsilon(read)} together (delta {epsilon(delta)}, {relation})"
            _warn(f"{fits} private fits of this process: {told} where they share records; account=DIR keeps one budget")
        return {"fits": fits, "epsilon": read if math.isfinite(read) else None, "delta": delta, "adjacency": relation}


PROCESS = Tally()
"""The tally of this process."""


def _warn(text: str) -> None:
    """Warn at the line of the caller who asked for the fit, or for a search that fits."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).partition(".")[0] in _BETWEEN:
        frame, level = frame.f_back, level + 1
    warnings.warn(text, PrivacyWarning, stacklevel=level)


def run_on(account: str | Path, seed: int | None, **asked: Any) -> RunResult:
    """Run a method as ``admmnet.run`` does, in one process; private without a ``seed``. Errors are those of ``run``.

    ``process`` in ``privacy`` of the summary says what the fits of this process have cost together.
    """
    if not isinstance(account, str | Path):
        raise RequestError(
            f"account = {short(account)} is not allowed: it must be a folder, or {IN_MEMORY!r}, which adds up in memory"
        )
    folder, method = None if account == IN_MEMORY else str(account), METHODS[asked["algorithm"]]
    private, process = seed is None and method.private, None
    how: dict[str, Any] = {"account": folder, "no_account": folder is None, "no_test": True, "seed": seed}
    with TemporaryDirectory() as place:
        out = Path(place) / "run"
        try:
            how |= {"private": private, "simulate": not private, "out": str(out)}
            result = run(world=World(lasting=False), **how, **asked)
            _ = result.model  # is read while there is a folder
        except AdmmnetError as error:  # callers such as cross validation turn errors into nan
            if folder is not None:
                _warn(
                    f"no model from this fit with account = {folder!r}: {error}; folds of a cross validation are other "
                    f"records than the whole: account={IN_MEMORY!r} counts them"
                )
            raise
        finally:  # what was charged is spent, whatever came then
            begun = private and (out / "ledger").is_dir()
            if ledgers := list(read_run(out, events=False).ledgers.values()) if begun else []:
                delta = max(float(one.header["budget"]["delta"]) for one in ledgers)
                nothing = Totals.of([(Unprotected(), 1)], "proven")
                spent = [one.totals if method.covered else nothing for one in ledgers]
                where = IN_MEMORY if folder is None else str(Path(folder).resolve())
                process = PROCESS.add(spent, delta, ledgers[0].header["adjacency"], where)
    result.summary["privacy"]["process"] = process
    return result


def rows_by(model: Model, X: Any) -> Any:
    """Rows of X (n, d) as those that the model was fitted to."""
    return rows_for(model, NewData(data=X), labelled=False).X_test
