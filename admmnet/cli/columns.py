"""What the columns of tables of runs and ledgers mean, for ``--explain`` (docs/cli.md)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from textwrap import fill

import click

WORDS = {
    "agent": "number of the participant",
    "network": "the row of all agents together",
    "records": "training records",
    "degree": "neighbours, which get every vector that it sends",
    "releases": "vectors that it sent; in brackets what else became of it",
    "features": "numbers that describe a record, the intercept with them",
    "epochs": "passes over the records",
    "steps": "steps of the optimisation",
    "batch": "records of a step",
    "noise multiplier": "standard deviation of a step's noise over the most that one record can change",
    "events": "charges in the ledger: each says what was released, and its noise",
    "rounds": "rounds in which something was charged",
    "rho": "what all charges cost, proven, in zCDP; costs of several runs on the same records add up",
    "rho spent": "what all charges cost, proven, in zCDP; costs of several runs on the same records add up",
    "eps spent": "the same as an epsilon, of steps on drawn records far below what rho (without the draw) says: a "
    "reading of what was released so far, no promise",
    "eps proven": "the promise, fixed before the first round for the worst case: whatever comes out is at most "
    "exp(eps) times as likely as it is with one record exchanged, plus delta",
    "eps published": "epsilon by the arithmetic of the method's paper, which may read back a few percent more than its "
    "budget; a dash where the paper has none",
    "K": "of masked sums: other agents that may work together without breaking eps spent",
    "eps B": "of masked sums: epsilon if more do, or the masks fail",
    "budget": "epsilon that is never exceeded",
    "delta": "of every epsilon here: exp(eps) times as likely, plus delta",
    "state": "finished: the run wrote its end line; of an account, how many runs it adds up",
    "test error": "test records that the model gets wrong",
    "test MSE": "mean square of what is predicted less the target, of targets scaled to [-1, 1]",
    "always the larger class": "error of who looks at no record and says the same of everybody",
    "always the mean": "error of who looks at no record and says the same of everybody",
    "no privacy, pooled": "error of the best model by this run's loss where all records lie in one place, none hidden",
}
"""What a column says, or a row below the agents'."""
_ASKED = "admmnet.explain"


def explain_flag(function: Callable[..., None]) -> Callable[..., None]:
    """Give a command that prints such a table the flag ``--explain``."""

    def note(ctx: click.Context, param: click.Parameter, value: bool) -> None:
        ctx.meta[_ASKED] = value

    words = "say below the table what its columns mean"
    return click.option("--explain", is_flag=True, expose_value=False, callback=note, help=words)(function)


def asked() -> bool:
    """Whether the command at work was given ``--explain``."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(_ASKED))


def explained(names: Iterable[str]) -> str:
    """Return what columns and rows mean, under a heading."""
    told = list(names)
    wide = max(map(len, told)) + 4
    lines = (
        fill(f"{name:>{wide - 2}}  {WORDS[name]}", 118, subsequent_indent=" " * wide, initial_indent="")
        for name in told
    )
    return "\n".join(["what it means:", *lines])
