"""admmnet compare."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from admmnet.cli.flags import output_flags
from admmnet.cli.progress import new_bar
from admmnet.cli.settings import SettingsCommand, given_in, words_after
from admmnet.config.toml import read_values
from admmnet.errors import RequestError, RunError
from admmnet.experiments.parsing import OWN, listed, parse_entry, parse_epsilons, parse_seeds
from admmnet.experiments.progress import Watch

if TYPE_CHECKING:
    from admmnet.experiments import Comparison
    from admmnet.experiments.figures import Failed


class GridProgress(Watch):
    """One bar a phase, where standard error is a terminal; nothing at all unless shown.

    An interrupt that passes tells what is ``kept``.
    """

    def __init__(self, *, shown: bool, kept: str = "finished runs") -> None:
        self._shown, self._kept = shown, kept
        self._bar: Any = None
        self._task: Any = None

    def phase(self, name: str, total: int, done: int) -> None:
        """Show the next bar."""
        if not self._shown:
            return
        if self._bar is None:
            self._bar = new_bar()
        if self._task is not None:
            self._bar.remove_task(self._task)
        self._task = self._bar.add_task(name, total=total, completed=done, words="")

    def step(self, words: str) -> None:
        """Count a step."""
        if self._bar is not None:
            self._bar.update(self._task, advance=1, words=words)

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
    changes={"out": {"required": True, "help": "folder of the comparison; the same again goes on with it"}},
)
@click.argument("config", required=False, metavar="[CONFIG.toml]")
@click.option(
    "--algorithms", metavar="NAME[:METHOD[:ACCOUNTANT]],...", help="methods to compare; with --suite further ones"
)
@click.option("--suite", is_flag=True, help="the benchmark: fixed data, networks, methods, epsilons, seeds")
@click.option("--quick", is_flag=True, help="of --suite the smallest part")
@click.option("--epsilons", default="0.5,1,2,10", show_default=True, metavar="X,X,...", help="privacy budgets epsilon")
@click.option("--seeds", default="0:10", show_default=True, metavar="A:B|N,N,...", help="seeds, a run each; B excluded")
@click.option("--resplit", is_flag=True, help="every seed also draws its own test set and shards")
@click.option("--tune", multiple=True, metavar="[METHOD.]SETTING=X:X,...", help="choose settings on a validation part")
@click.option("--tune-seeds", type=int, default=3, show_default=True, metavar="N", help="trials of every combination")
@click.option("--jobs", type=int, metavar="N", help="processes (default: as many as there are processors)")
@click.option("--plot", metavar="FILE", help="draw the picture here, too: .png, .svg or .pdf")
@output_flags
def compare(
    config: str | None,
    jobs: int | None,
    plot: str | None,
    suite: bool,
    quick: bool,
    quiet: bool,
    as_json: bool,
    debug: bool,
    **flags: Any,
) -> None:
    """Run a grid of methods, epsilons and seeds, and compare the errors.

    Every run is an ordinary seeded run folder below DIR; the same call goes on where an earlier one stopped.
    The other flags are those of `run` and hold for all runs. Writes compare.csv, compare.png, compare.json.
    """
    from admmnet.experiments.workers import processors, ready

    if (jobs or processors()) > 1:
        ready()  # its imports go on beside those of this process
    from admmnet.experiments import compare as run_grid

    progress = GridProgress(shown=not quiet and not as_json and sys.stderr.isatty())
    if quick and not suite:
        raise RequestError("--quick is the smallest part of --suite: give both")
    if suite:
        from admmnet.cli.compare_suite import print_suite, run_wanted

        with progress:
            made = run_wanted(flags, config, jobs=jobs, quick=quick, watch=progress)
        print_suite(made, quiet=quiet, as_json=as_json)
        _tell_failed(made.failed, made.folder, debug=debug)
        return
    wanted, picture = _comparison(config, flags), None if plot is None else Path(plot)
    with progress:
        result = run_grid(wanted, jobs=jobs, plot=picture, watch=progress)
    if as_json and not quiet:
        print(json.dumps(result.as_dict(), indent=2))
    elif not quiet:
        from admmnet.cli.compare_table import print_comparison

        print_comparison(result)
    if result.undrawn is not None:
        print(f"note: {result.undrawn}", file=sys.stderr)
    _tell_failed(result.failed, result.folder / "compare.csv", debug=debug)


def _tell_failed(failures: Sequence[Failed], where: Path, *, debug: bool) -> None:
    for failed in failures:
        print(f"failed: {failed.words}: {failed.message}", file=sys.stderr)
        if debug:
            print(failed.trace, file=sys.stderr)
    if failures:
        raise RunError(
            f"{len(failures)} failed, see above; they are not in {where}, and the same call tries them again"
        )


def _comparison(config: str | None, flags: dict[str, Any]) -> Comparison:
    from admmnet.experiments import Comparison

    algorithms, epsilons, seeds = flags.pop("algorithms"), flags.pop("epsilons"), flags.pop("seeds")
    if algorithms is None:
        raise RequestError("compare needs --algorithms NAME,..., as in pp-admm,ipp-admm; or --suite")
    settings = {} if config is None else read_values(Path(config))
    tune, tune_seeds = flags.pop("tune"), flags.pop("tune_seeds")
    out, resplit = flags.pop("out"), flags.pop("resplit")
    return Comparison(
        algorithms=listed(algorithms),
        epsilons=parse_epsilons(epsilons),
        seeds=parse_seeds(seeds),
        out=out,
        settings=settings | given_in(flags),
        resplit=resplit,
        tune=tune,
        tune_seeds=tune_seeds,
    )
