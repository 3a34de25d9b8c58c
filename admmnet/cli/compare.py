"""admmnet compare."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from admmnet.cli.flags import jobs_flag, notes, output_flags
from admmnet.cli.progress import Lines, new_bar
from admmnet.cli.settings import SettingsCommand, given_in, words_after
from admmnet.errors import RequestError, RunError
from admmnet.experiments.parsing import OWN, listed, parse_entry, parse_epsilons, parse_seeds
from admmnet.experiments.progress import Watch

if TYPE_CHECKING:
    from admmnet.experiments import Comparison


class GridProgress(Watch):
    """One bar a phase where standard error is a terminal, else lines; nothing at all unless shown.

    An interrupt that passes tells what is ``kept``.
    """

    def __init__(self, *, shown: bool, kept: str = "finished runs") -> None:
        self._shown, self._kept = shown, kept
        self._bar: Any = None
        self._task: Any = None
        self._lines, self._done = Lines(), 0

    def phase(self, name: str, total: int, done: int) -> None:
        """Show the next bar."""
        self._done = done
        self._lines.begin(name, total, done)
        if not (self._shown and sys.stderr.isatty()):
            return
        if self._bar is None:
            self._bar = new_bar()
        if self._task is not None:
            self._bar.remove_task(self._task)
        self._task = self._bar.add_task(name, total=total, completed=done, words="")

    def step(self, words: str) -> None:
        """Count a step."""
        self._done += 1
        if self._bar is not None:
            self._bar.update(self._task, advance=1, words=words)
        elif self._shown:
            self._lines.tell(self._done, words)

    def waiting(self) -> None:
        """Say how long the work has taken; a bar shows that it waits."""
        if self._bar is None and self._shown:
            self._lines.tell(self._done)

    def __enter__(self) -> GridProgress:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if self._bar is not None:
            self._bar.stop()
        if isinstance(error, KeyboardInterrupt):
            error.args = (f"{self._kept} are kept, and the same call goes on with the others",)


class _Compare(SettingsCommand):
    """Settings of all methods that are compared."""

    more = "Methods' own settings: admmnet compare --algorithms NAME,... --help."

    def algorithms(self, args: list[str]) -> Iterator[str]:
        """NAME of every NAME[:METHOD[:ACCOUNTANT]]."""
        for text in words_after(args, "--algorithms"):
            yield from (parse_entry(part).algorithm for part in listed(text))


@click.command(
    cls=_Compare,
    hidden=set(OWN) - {"out"},
    changes={"out": {"required": True, "help": "folder; the same again goes on with it"}},
)
@click.argument("grid", required=False, metavar="[GRID.toml]")
@click.option("--algorithms", metavar="NAME[:METHOD[:ACCOUNTANT]],...", help="methods to compare")
@click.option("--epsilons", metavar="X,X,...", show_default="0.5,1,2,10", help="privacy budgets epsilon")
@click.option("--seeds", metavar="A:B|N,N,...", show_default="0:10", help="seeds, a run each; B excluded")
@click.option("--resplit", is_flag=True, default=None, help="every seed also draws its own test set and shards")
@click.option("--tune", multiple=True, metavar="[METHOD.]SETTING=X:X,...", help="choose settings on a validation part")
@click.option("--tune-seeds", type=int, show_default="3", metavar="N", help="trials of every combination")
@jobs_flag
@click.option("--plot", metavar="FILE", help="also draw it: .png, .svg or .pdf")
@output_flags
@click.pass_obj
def compare(
    executor: Any,
    /,
    grid: str | None,
    jobs: int | None,
    plot: str | None,
    quiet: bool,
    as_json: bool,
    debug: bool,
    **flags: Any,
) -> None:
    """Run a grid of methods, epsilons and seeds, and compare the errors.

    Every run is an ordinary seeded run folder below DIR; the same call goes on where an earlier one stopped. The other
    flags are those of `run` and hold for all runs. GRID.toml has all of this in a file, for several places if it
    wants. Writes compare.csv, compare.png, compare.json.
    """
    wanted = _wanted(grid, flags)
    if plot is not None and len(wanted) > 1:
        raise RequestError(f"--plot {plot} is for one picture, and {grid} has {len(wanted)} places: leave it out")
    from admmnet.cli.compare_table import print_comparison
    from admmnet.experiments import compare as run_grid
    from admmnet.experiments.figures import Failed

    answers, failures = dict[str, Any](), list[Failed]()
    for name, comparison in wanted.items():
        try:
            with GridProgress(shown=not quiet and not as_json) as progress:
                picture = None if plot is None else Path(plot)
                result = run_grid(comparison, jobs=jobs, plot=picture, watch=progress, executor=executor)
        except RequestError as error:
            if len(wanted) == 1:
                raise
            failures.append(Failed(name, str(error)))  # a set that is not here stops no other
            continue
        answers[name] = result.as_dict()
        failures += [replace(one, words=f"{name}: {one.words}" if name else one.words) for one in result.failed]
        if not quiet and not as_json:
            print(f"\n{name}\n" if name else "", end="")
            print_comparison(result)
        if result.undrawn is not None:
            notes(result.undrawn)
    if as_json and not quiet:
        print(json.dumps(answers.get("", answers), indent=2))
    for failed in failures:
        print(f"failed: {failed.words}: {failed.message}", file=sys.stderr)
        if debug:
            print(failed.trace, file=sys.stderr)
    if failures:
        raise RunError(f"{len(failures)} failed, see above; they are in no table, and the same call tries them again")


def _wanted(grid: str | None, flags: dict[str, Any]) -> dict[str, Comparison]:
    """Comparisons by the names of their places; a single one has no name."""
    from admmnet.experiments import Comparison
    from admmnet.experiments.grid_file import WORDS, read_grids

    words = {word: value for word in WORDS if (value := flags.pop(word)) not in (None, ())}
    for word, parse in (("algorithms", listed), ("epsilons", parse_epsilons), ("seeds", parse_seeds)):
        if word in words:
            words[word] = parse(words[word])
    out = flags.pop("out")
    if grid is not None:
        return read_grids(Path(grid), words, given_in(flags), out)
    if "algorithms" not in words:
        raise RequestError("compare needs --algorithms NAME,..., as in pp-admm,ipp-admm, or a file with a grid")
    return {"": Comparison(**words, settings=given_in(flags), out=out)}
