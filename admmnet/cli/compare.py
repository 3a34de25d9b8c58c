"""admmnet compare | reproduce | audit: commands of many tasks."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from admmnet.cli import flags as common
from admmnet.cli.flags import asked, executor_flag, jobs_flag, lines, notes, output_flags, show, talks, told_as_json
from admmnet.cli.run import Progress
from admmnet.cli.settings import SettingsCommand, given_in, setting_flags, words_after
from admmnet.config.run_config import known_settings
from admmnet.errors import AdmmnetError, CheckFailed, RequestError, RunError
from admmnet.experiments.parsing import REASONS, Entry, listed, parse_entry, parse_part, said
from admmnet.experiments.parsing import short as plain
from admmnet.files import read_toml
from admmnet.gone import GONE
from admmnet.methods import METHODS
from admmnet.papers import PAPERS
from admmnet.record.format import count, epsilon, error, number, seconds, size

if TYPE_CHECKING:
    from admmnet.experiments import Comparison
    from admmnet.experiments.figures import CompareResult
    from admmnet.report.columns import Row


def _compared(args: list[str]) -> Iterator[str]:
    """NAME of every NAME[:METHOD[:ACCOUNTANT]] behind --algorithms."""
    for text in words_after(args, "--algorithms"):
        yield from (parse_entry(part).algorithm for part in listed(text))


@click.command(
    cls=SettingsCommand,
    named=_compared,
    more="compare --algorithms NAME,...",
    hidden=set(REASONS) - {"out"},
    changes={"out": {"help": "folder; the same again goes on with it"}},
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
    executor: Any, /, grid: str | None, jobs: int | None, part: str | None, plot: str | None, **flags: Any
) -> None:
    """Run a grid of methods, epsilons and seeds, and compare the errors.

    Every run is an ordinary seeded run folder below DIR; the same call goes on where an earlier one stopped. The other
    flags are those of `run` and hold for all runs. GRID.toml has all of this in a file, for several places if it
    wants. Writes compare.csv, compare.png, compare.json; `compare DIR` makes them of the runs that are there.
    """
    from admmnet.experiments import compare as run_grid
    from admmnet.experiments.driver import WHOLE

    wanted: dict[str, Any] = _there(Path(grid), flags) if grid and Path(grid).is_dir() else _wanted(grid, flags)
    if plot is not None and len(wanted) > 1:
        raise RequestError(f"--plot {plot} is for one picture, and {grid} has {len(wanted)} places: leave it out")
    answers, failures = dict[str, Any](), dict[str, AdmmnetError]()
    picture, own = None if plot is None else Path(plot), WHOLE if part is None else parse_part(part)
    for name, one in wanted.items():
        try:
            with Progress("finished runs") as progress:
                result = run_grid(one, jobs=jobs, plot=picture, watch=progress, executor=executor, part=own)
        except RequestError as refused:
            if len(wanted) == 1:
                raise
            failures[name] = refused  # a set that is not here stops no other
            continue
        answers[name] = result.told
        failures |= {f"{name}: {words}" if name else words: failed for words, failed in result.failed.items()}
        if talks():
            print(f"\n{name}\n" if name else "", end="")
            if result.rows:
                _print_comparison(result)
        if result.undrawn is not None:
            notes(result.undrawn)
    told_as_json(answers.get("", answers))
    for words, failed in failures.items():
        print(f"failed: {words}: {failed}", file=sys.stderr)
        if asked("debug"):
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
    from admmnet.experiments.grid import WORDS, grids_of

    words = {word: value for word in WORDS if (value := flags.pop(word)) not in (None, ())}
    out = flags.pop("out")
    if out is None:
        raise RequestError("compare needs a folder for its runs: name it with --out, -o")
    tables = {} if grid is None else read_toml(Path(grid))
    return grids_of(tables, Path(grid or "compare"), words, given_in(flags), out)


def _print_comparison(result: CompareResult) -> None:
    """Print a row a method and epsilon, the references, what was tuned, and where everything lies."""
    from admmnet.experiments.figures import UNCOVERED
    from admmnet.report.columns import print_table

    told, data = result.told, result.told["data"][0]
    metric, held, delta = told["metric"], told["references"], epsilon(told["delta"])
    counts = sorted({line["seeds"] for line in told["lines"]})
    runs = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    splits = f", {len(told['data'])} splits" if len(told["data"]) > 1 else ""
    whose = f"{data['agents']} agents, " if data["agents"] > 1 else ""
    title = (
        f"{data['name']}: {count(data['train'])} training and {count(data['test'])} test records{splits}, {whose}"
        f"delta {delta}; means over {runs} seeds"
    )
    rows = [_row(line, metric) for line in told["lines"]]
    nothing = dict.fromkeys(list(rows[0])[2:])
    rows += [{"method": one["name"], "epsilon": one["epsilon"]} | nothing for one in told["refused"]]
    print_table(title, rows)
    lines(*(f"refused: {one['reason']}" for one in told["refused"]))
    for line in told["lines"]:
        if line["epsilon_if_all_collude"] is not None:
            lines(
                f"masked sums: {line['name']} at epsilon {plain(line['epsilon'])}: A, if at most {line['colluders']} "
                f"other agents collude, is epsilon {epsilon(line['epsilon_proven'])}; B, if all do or masks fail, "
                f"{epsilon(line['epsilon_if_all_collude'])}"
            )
    what, guess = ("error", "the larger class:") if metric == "error" else ("MSE", "the mean:")
    print(f"no privacy, all training records pooled: test {what} {error(held['pooled'], metric)}")
    print(f"always {guess:<33} test {what} {error(held['larger_class'], metric)}")
    if told["tuning"]:
        tuned = [_tuned(choice, metric) for choice in told["tuning"]]
        print_table("tuned on a validation part of the training records", tuned)
        print(f"tuning: these epsilons cover all trials and one final run, at delta {delta}")
        print(f"        {UNCOVERED}")
    if told["missing"]:
        print(f"not there:            {count(told['missing'])} of {count(told['missing'] + len(result.rows))} runs")
    print(f"figures of every run: {told['csv']}")
    for picture in told["pictures"]:
        print(f"picture:              {picture}")
    print(f"run folders:          {result.folder / 'runs'}   (admmnet ledger verify RUN)")
    notes(*told["notes"])


def _row(line: Mapping[str, Any], metric: str) -> Row:
    shown = [error(line[name], metric).removesuffix("%") for name in ("error", "spread")]
    return {
        "method": line["name"],
        "epsilon": line["epsilon"],
        "error in %" if metric == "error" else "test MSE": " +- ".join(shown[: 1 if line["spread"] is None else 2]),
        "eps proven": line["epsilon_proven"],
        "eps published": line["epsilon_published"],
        "loss": line["train_loss"],
        "releases": number(line["releases"]),
        "sent": size(line["bytes_sent"]),
        "time": seconds(line["seconds"]),
    }


def _tuned(choice: Mapping[str, Any], metric: str) -> Row:
    return {
        "method": str(Entry(choice["algorithm"], choice["method"], choice["accountant"])),
        "epsilon": choice["epsilon"],
        "split": choice["data_seed"],
        "chosen": said(tuple(choice["chosen"].items())).replace(",", ", "),
        "of": len(choice["validation_error"]),
        "trials": choice["trials"],
        "validation error": error(min(one["error"] for one in choice["validation_error"]), metric),
        "eps proven": choice["epsilon_proven_with_trials"],
        "eps published": choice["epsilon_published_with_trials"],
    }


@click.command()
@click.argument("paper", type=click.Choice(PAPERS), metavar="|".join(PAPERS))
@click.option("--quick", is_flag=True, help="few seeds and points: under three minutes")
@setting_flags("data_dir")
@click.option("--seeds", type=int, metavar="N", help="runs of each point (default: the figure's)")
@jobs_flag
@executor_flag
@click.option("--out", "-o", required=True, metavar="DIR", help="folder; the same again goes on with it")
@common.quiet_flag
@common.debug_flag
@click.pass_obj
def reproduce(executor: Any, /, jobs: int | None, **asked: Any) -> None:
    """Make the figures of a paper, and say which of its claims hold.

    Writes a CSV file and a picture for each figure, claims.csv and report.md. Sets that are not in the data folder have
    stand-ins, named in titles and text; those that are there count as public. The same call goes on where an earlier
    one stopped.
    """
    from admmnet.papers import reproduce as make

    with Progress("finished runs") as progress:
        made = make(**asked, jobs=jobs, watch=progress, executor=executor)
    if made.undrawn is not None:
        notes(made.undrawn)
    if not talks():
        return
    for title, claims in made.claims.items():
        print(title)
        for theirs, ours, holds, place in claims:
            print(f"  {holds} ({ours}): {theirs}{place and f' ({place})'}")
    print(f"written: {made.report}, {len(made.pictures)} pictures and their CSV files beside it")


def refused() -> set[str]:
    """Settings that an audit cannot have: data and network are the auditor's, and what ``REASONS`` names is fixed."""
    known, tables = known_settings(), ("problem", "algorithm", "baseline", "privacy")
    own = {name for name, setting in known.items() if setting.table in tables} - {*REASONS, "answer"}
    return known.keys() - own - {"epsilon", "seed", "simulate", "out"}


def _audited(args: list[str]) -> Iterator[str]:
    """NAME of NAME[:METHOD[:ACCOUNTANT]], the first word."""
    for word in args[:1]:
        if (instead := GONE.get(f"audit {word}")) is not None:
            raise RequestError(f"audit {word} is gone: {instead}")
        with suppress(AdmmnetError):  # the command itself says what is wrong
            yield parse_entry(word).algorithm


@click.command(
    cls=SettingsCommand,
    methods=lambda: [name for name, kind in METHODS.items() if "proven" in kind.forms and kind.covered],
    named=_audited,
    more="audit NAME",
    hidden={*refused(), "simulate", "schema", "trust", "colluders"},
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
