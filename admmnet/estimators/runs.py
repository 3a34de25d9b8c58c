"""Fits that are runs on records in memory: methods of a network, and fits whose account is a folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

from admmnet.config.run_config import RunConfig
from admmnet.data.records import SIGNS, Records, TargetRange
from admmnet.data.table import numbered
from admmnet.estimators import tally
from admmnet.holder.encoding import Encoding, RawRows
from admmnet.library import run
from admmnet.methods import METHODS
from admmnet.privacy.budget import Totals
from admmnet.privacy.events import Unprotected
from admmnet.record.encoding import Found, read_found
from admmnet.record.reader import read_run
from admmnet.running.plan import Plan
from admmnet.transport.local import LocalWorld
from admmnet.types import Matrix


class Ran(NamedTuple):
    """What a fit keeps of its run.

    Models, plan, ``privacy`` of the summary with ``process``, facts of the method, and what was measured.
    """

    theta: Matrix
    plan: Plan
    privacy: dict[str, Any]
    summary: Mapping[str, Any]
    found: Found


def run_on(
    rows: Any,
    y: Any,
    parts: Sequence[Any],
    settings: Mapping[str, Any],
    *,
    account: str | Path,
    seed: int | None,
    graph: Any = None,
    target: TargetRange | None = None,
    labels: tuple[str, ...] = SIGNS,
    names: tuple[str, ...] = (),
    raw: Encoding | None = None,
) -> Ran:
    """Run a method on rows in memory; no run folder stays. Errors are those of ``run``.

    ``rows`` (n, w) and ``y`` (n,) are what methods see, ``parts`` are the places of every agent's rows, ``names`` those
    of the d features, where they matter. Raw rows come with the encoding ``raw``, of which nothing is measured yet.
    Without a ``seed`` the run is private.
    """
    folder, width, method = tally.folder_of(account), rows.shape[1], METHODS[settings["algorithm"]]
    private = seed is None and method.private

    def chosen(part: Any) -> Any:
        raw_rows = isinstance(rows, RawRows)
        return RawRows(rows.numbers[part], rows.codes[part], rows.width) if raw_rows else rows[part]

    data = Records(
        name="fit(X, y)",
        shards={i: (chosen(part), y[part]) for i, part in enumerate(parts)},
        counts={i: len(part) for i, part in enumerate(parts)},
        X_test=chosen(parts[0][:0]) if raw is not None else np.zeros((0, width)),
        y_test=np.zeros(0),
        feature_names=names or numbered(width),
        preprocessing="public-bounds",
        target=target,
        labels=labels,
        raw=raw,
    )
    plans: list[Plan] = []
    process = None
    with TemporaryDirectory() as place, tally.telling(folder):
        out = Path(place) / "run"
        config = RunConfig(
            data="arrays",
            account=folder,
            no_account=folder is None,
            no_test=True,
            private=private,
            simulate=not private,
            seed=seed,
            out=str(out),
            **settings,
        )
        try:
            result = run(
                config, graph=graph, world=LocalWorld(lasting=False), loader=lambda *_: data, on_start=plans.append
            )
            _, found = read_found(out)
        finally:  # what was charged is spent, whatever came then
            begun = private and (out / "ledger").is_dir()
            if ledgers := list(read_run(out, events=False).ledgers.values()) if begun else []:
                delta = max(float(one.header["budget"]["delta"]) for one in ledgers)
                nothing = Totals.of([(Unprotected(), 1)], "proven")
                spent = [one.totals if method.covered else nothing for one in ledgers]
                account_of = tally.IN_MEMORY if folder is None else str(Path(folder).resolve())
                process = tally.PROCESS.add(spent, delta, ledgers[0].header["adjacency"], account_of)
    summary = dict(result.summary)
    return Ran(result.theta, plans[0], {**summary["privacy"], "process": process}, summary, found)
