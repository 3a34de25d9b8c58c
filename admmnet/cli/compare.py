"""admmnet compare."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from admmnet.cli.flags import executor_flag, jobs_flag, lines, notes, output_flags
from admmnet.cli.progress import Bar
from admmnet.cli.settings import SettingsCommand, given_in, words_after
from admmnet.errors import AdmmnetError, RequestError, RunError
from admmnet.experiments.parsing import REASONS, listed, parse_entry, parse_epsilons, parse_part, parse_seeds
from admmnet.experiments.progress import Watch
from admmnet.files import read_toml
from admmnet.record.format import count, size
from admmnet.record.format import seconds as duration

if TYPE_CHECKING:
    from admmnet.experiments import Comparison


class GridProgress(Watch):
    """Phases of a grid and their steps; nothing at all unless shown. An interrupt tells what is ``kept``."""

    def __init__(self, *, shown: bool, kept: str = "finished runs") -> None:
        self._bar, self._kept, self._done = Bar(shown=shown), kept, 0

    def phase(self, name: str, total: int, done: int) -> None:
        """Show the next bar."""
        self._done = done
        if self._bar.shown and name and total > done:
            there = f", {count(done)} are there" if done else ""
            lines(f"{name}: {count(total - done)} to make{there}", err=True)
        self._bar.begin(name or "preparing", total, done)

    def step(self, words: str) -> None:
        """Count a step."""
        self._done += 1
        self._bar.tell(self._done, words)

    def first(self, seconds: float, memory: int) -> None:
        """Say what one takes."""
        if self._bar.shown:
            lines(f"the first took {duration(seconds)}, in a process of {size(memory)} of memory", err=True)

    def waiting(self) -> None:
        """Say how long the work has taken."""
        self._bar.tell(self._done)

    def __enter__(self) -> GridProgress:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._bar.close()
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
    cls=_Compare, hidden=set(REASONS) - {"out"}, changes={"out": {"help": "folder; the same again goes on with it"}}
)
@click.argument("grid", required=False, metavar="[GRID.toml|DIR]")
@click.option("--algorithms", metavar="NAME[:METHOD[:ACCOUNTANT]],...", help="methods to compare")
@click.option("--epsilons", metavar="X,X,...", show_default="0.5,1,2,10", help="privacy budgets epsilon")
@click.option("--seeds", metavar="A:B|N,N,...", show_default="0:10", help="seeds, a run each; B excluded")
@click.option("--resplit", is_flag=True, default=None, help="every seed also draws its own test set and shards")
@click.option("--tune", multiple=True, metavar="[METHOD.]SETTING=X:X,...", help="choose settings on a validation part")
@click.option("--tune-seeds", type=int, show_default="3", metavar="N", help="trials of every combination")
@jobs_flag
@executor_flag
@click.option("--part", metavar="I/N", help="make one of N parts of the runs alone; all write into one folder")
@click.option("--plot", metavar="FILE", help="also draw it: .png, .svg or .pdf")
@output_flags
@click.pass_obj
def compare(
    executor: Any,
    /,
    grid: str | None,
    jobs: int | None,
    part: str | None,
    plot: str | None,
    quiet: bool,
    as_json: bool,
    debug: bool,
    **flags: Any,
) -> None:
    """Run a grid of methods, epsilons and seeds, and compare the errors.

    Every run is an ordinary seeded run folder below DIR; the same call goes on where an earlier one stopped. The other
    flags are those of `run` and hold for all runs. GRID.toml has all of this in a file, for several places if it
    wants. Writes compare.csv, compare.png, compare.json; `compare DIR` makes them of the runs that are there.
    """
    from admmnet.cli.compare_table import print_comparison
    from admmnet.experiments import compare as run_grid
    from admmnet.experiments.driver import WHOLE, summed_up

    wanted: dict[str, Any] = _there(Path(grid), flags) if grid and Path(grid).is_dir() else _wanted(grid, flags)
    if plot is not None and len(wanted) > 1:
        raise RequestError(f"--plot {plot} is for one picture, and {grid} has {len(wanted)} places: leave it out")
    answers, failures = dict[str, Any](), dict[str, AdmmnetError]()
    picture, own = None if plot is None else Path(plot), WHOLE if part is None else parse_part(part)
    for name, one in wanted.items():
        try:
            if isinstance(one, Path):
                result = summed_up(one, jobs=jobs, plot=picture)
            else:
                with GridProgress(shown=not quiet and not as_json) as progress:
                    result = run_grid(one, jobs=jobs, plot=picture, watch=progress, executor=executor, part=own)
        except RequestError as error:
            if len(wanted) == 1:
                raise
            failures[name] = error  # a set that is not here stops no other
            continue
        answers[name] = result.told
        failures |= {f"{name}: {words}" if name else words: failed for words, failed in result.failed.items()}
        if not quiet and not as_json:
            print(f"\n{name}\n" if name else "", end="")
            if result.rows:
                print_comparison(result)
        if result.undrawn is not None:
            notes(result.undrawn)
    if as_json and not quiet:
        print(json.dumps(answers.get("", answers), indent=2))
    for words, failed in failures.items():
        print(f"failed: {words}: {failed}", file=sys.stderr)
        if debug:
            print(*getattr(failed, "__notes__", ()), file=sys.stderr)
    if failures:
        raise RunError(f"{len(failures)} failed, see above; they are in no table, and the same call tries them again")


def _there(folder: Path, flags: dict[str, Any]) -> dict[str, Path]:
    """The folder of a comparison, or those of its places by name."""
    given = [name for name, value in flags.items() if value not in (None, ())]
    if given:
        flag = f"--{given[0].replace('_', '-')}"
        raise RequestError(f"{flag} does not go with {folder}, whose runs are there: leave it out")
    if (folder / "compare.json").exists():
        return {"": folder}
    found = {path.parent.name: path.parent for path in sorted(folder.glob("*/compare.json"))}
    return found or {"": folder}


def _wanted(grid: str | None, flags: dict[str, Any]) -> dict[str, Comparison]:
    """Comparisons by the names of their places; a single one has no name."""
    from admmnet.experiments import Comparison
    from admmnet.experiments.grid_file import WORDS, grids_of

    words = {word: value for word in WORDS if (value := flags.pop(word)) not in (None, ())}
    for word, parse in (("algorithms", listed), ("epsilons", parse_epsilons), ("seeds", parse_seeds)):
        if word in words:
            words[word] = parse(words[word])
    out = flags.pop("out")
    if out is None:
        raise RequestError("compare needs a folder for its runs: name it with --out, -o")
    if grid is not None:
        return grids_of(read_toml(Path(grid)), Path(grid), words, given_in(flags), out)
    if "algorithms" not in words:
        raise RequestError("compare needs --algorithms NAME,..., as in pp-admm,ipp-admm, or a file with a grid")
    return {"": Comparison(**words, settings=given_in(flags), out=out)}
