"""admmnet audit: a lower bound on the epsilon of a method, from trials."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from admmnet.cli.flags import executor_flag, jobs_flag, output_flags, show
from admmnet.cli.progress import Progress
from admmnet.cli.settings import SettingsCommand, given_in
from admmnet.config.run_config import known_settings
from admmnet.errors import AdmmnetError, CheckFailed, RequestError
from admmnet.experiments.parsing import REASONS, parse_entry
from admmnet.gone import GONE
from admmnet.methods import METHODS
from admmnet.record.format import count, epsilon, number

TABLES = ("problem", "algorithm", "baseline", "privacy")
"""Tables whose settings an audit has; data and network are the auditor's."""
MASKED = ("trust", "colluders")
"""Settings of masked sums, which are audited by another command."""
GIVEN = {"seed", "simulate"}
"""Settings of other tables: the trials' seed, and the fixed ones of an audit."""


def refused() -> set[str]:
    """Settings that an audit cannot have."""
    own = known_settings().items()
    elsewhere = {name for name, setting in own if setting.table not in TABLES} - GIVEN
    return elsewhere | {*REASONS, "answer"} - {"epsilon", "seed"}


class _Audit(SettingsCommand):
    """Settings of the method that is named first."""

    more = "A method's own settings: admmnet audit NAME --help."

    def methods(self) -> list[str]:
        """Those with a proof."""
        return [name for name, kind in METHODS.items() if "proven" in kind.forms and kind.covered]

    def algorithms(self, args: list[str]) -> Iterator[str]:
        """NAME of NAME[:METHOD[:ACCOUNTANT]]."""
        for word in args[:1]:
            if (instead := GONE.get(f"audit {word}")) is not None:
                raise RequestError(f"audit {word} is gone: {instead}")
            try:
                yield parse_entry(word).algorithm
            except AdmmnetError:  # the command itself says what is wrong
                return


@click.command(
    cls=_Audit,
    hidden={*refused(), "simulate", "schema", *MASKED} - {"out"},
    changes={
        "seed": {"help": "seed of all trials (default 0)"},
        "delta": {"help": "delta of all epsilons", "metavar": "X", "default": "1e-5", "show_default": True},
        "out": {"required": True, "help": "folder; the same again goes on with it"},
    },
)
@click.argument("name", metavar="NAME[:METHOD[:ACCOUNTANT]]")
@click.option("--trials", type=int, default=2000, show_default=True, metavar="N", help="runs in each of the two worlds")
@click.option("--confidence", type=float, default=0.99, show_default=True, metavar="X", help="of either lower bound")
@click.option(
    "--canary",
    type=click.Choice(("mirror", "zeros")),
    help="in the canary's place: its mirror image, or zeros (default: by the proof's relation)",
)
@click.option("--records", type=int, default=1000, show_default=True, metavar="N", help="records of the audited agent")
@jobs_flag
@executor_flag
@output_flags
@click.pass_obj
def audit(
    executor: Any,
    /,
    name: str,
    trials: int,
    confidence: float,
    canary: Any,
    records: int,
    jobs: int | None,
    **flags: Any,
) -> None:
    """Bound the epsilon of a method from below, from trials with and without one record.

    NAME is a private method of `run` or `baseline`. Each trial is a run of one agent through its door, on records of
    the auditor, who also plays the neighbours. Exit code 1 if a bound exceeds what is proven. Writes audit.json and
    the trials.
    """
    from admmnet.experiments.audits import run_audit

    given = given_in(flags)
    folder, seed, _ = given.pop("out"), given.pop("seed", 0), given.pop("simulate", None)
    for word in sorted(given.keys() & refused()):
        flag = f"--{word.replace('_', '-')}"
        raise RequestError(f"{flag} does not go with audit, whose records and network are its own: leave it out")
    how: dict[str, Any] = {"trials": trials, "seed": seed, "confidence": confidence, "canary": canary}
    with Progress("finished trials") as progress:
        how |= {"jobs": jobs, "watch": progress, "executor": executor}
        found = run_audit(name, folder, given, records=records, **how)
    words = "nothing contradicts the proof" if found["holds"] else "a bound is more than the proof allows"
    show(found, words, title=f"{name},{found['mechanism'].rpartition(',')[2]}: lower bounds on epsilon")
    if not found["holds"]:
        best = max(found["lower"], found["lower_gaussian"] or 0.0)
        raise CheckFailed(
            f"epsilon is at least {number(best)}, but {epsilon(found['proven'])} is proven: the program "
            f"violates its proof ({folder}/audit.json); a true claim fails so once in "
            f"{count(round(1.0 / (2.0 * (1.0 - confidence))))} audits"
        )
