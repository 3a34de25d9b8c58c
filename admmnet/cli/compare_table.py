"""The table of a comparison for people."""

from __future__ import annotations

from admmnet.cli.flags import lines, notes
from admmnet.experiments.figures import CompareResult, Line
from admmnet.experiments.parsing import said, short
from admmnet.experiments.tuning import UNCOVERED
from admmnet.record.format import count, epsilon, number, percent, seconds, size
from admmnet.report.columns import console, show, table

COLUMNS = ("method", "epsilon", "error in %", "eps proven", "eps publ.", "loss", "releases", "sent", "time")


def print_comparison(result: CompareResult) -> None:
    """Print a row a method and epsilon, the references, what was tuned, and where everything lies."""
    survey = result.surveys[0]
    counts = sorted({line.seeds for line in result.lines}) or [0]
    runs = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    splits = f", {len(result.surveys)} splits" if len(result.surveys) > 1 else ""
    whose = f"{survey.agents} agents, " if survey.agents > 1 else ""
    title = (
        f"{survey.name}: {count(survey.train)} training and {count(survey.test)} test records{splits}, {whose}"
        f"delta {epsilon(result.delta)}; means over {runs} seeds"
    )
    real = result.real
    columns = tuple("test MSE" if real and name == "error in %" else name for name in COLUMNS)
    grid = table(title, *columns)
    grid.columns[0].justify = "left"
    before = None
    for line in result.lines:
        if before not in (None, line.entry):
            grid.add_section()
        before = line.entry
        grid.add_row(*_cells(line, real=real))
    if result.refused:
        grid.add_section()
    for one in result.refused:
        grid.add_row(one.entry.text, "-" if one.epsilon is None else short(one.epsilon), *"-" * (len(COLUMNS) - 2))
    show(console(), grid)
    lines(*(f"refused: {one.reason}" for one in result.refused))
    for line in result.lines:
        if line.epsilon_if_all_collude is not None:
            target = "-" if line.epsilon is None else short(line.epsilon)
            lines(
                f"masked sums: {line.entry.text} at epsilon {target}: A, if at most {line.colluders} other agents "
                f"collude, is epsilon {epsilon(line.epsilon_proven)}; B, if all do or masks fail, "
                f"{epsilon(line.epsilon_if_all_collude)}"
            )
    shown, what = (number, "MSE") if real else (percent, "error")
    guess = "always the mean:        " if real else "always the larger class:"
    print(f"no privacy, all training records pooled: test {what} {shown(result.pooled)}")
    print(f"{guess}                 test {what} {shown(result.larger_class)}")
    _print_tuning(result)
    print(f"figures of every run: {result.folder / 'compare.csv'}")
    for picture in result.pictures:
        print(f"picture:              {picture}")
    print(f"run folders:          {result.folder / 'runs'}   (admmnet ledger verify RUN)")
    notes(*result.notes)


def _cells(line: Line, *, real: bool) -> tuple[str, ...]:
    shown = [number(value) if real else percent(value).removesuffix("%") for value in (line.error, line.spread)]
    return (
        line.entry.text,
        "-" if line.epsilon is None else short(line.epsilon),
        " +- ".join(shown[: 1 if line.spread is None else 2]),
        epsilon(line.epsilon_proven),
        epsilon(line.epsilon_published),
        number(line.train_loss),
        number(line.releases),
        size(line.bytes_sent),
        seconds(line.seconds),
    )


def _print_tuning(result: CompareResult) -> None:
    """Name the tuned settings, the choice, and its cost on private records."""
    if not result.choices:
        return
    rows = []
    for choice in result.choices:
        case = choice.case
        rows.append(
            {
                "method": case.entry.text,
                "epsilon": "-" if case.epsilon is None else short(case.epsilon),
                "split": str(case.data_seed),
                "chosen": said(choice.values).replace(",", ", "),
                "of": str(len(choice.errors)),
                "trials": str(choice.trials),
                "validation error": (number if result.real else percent)(min(error for _, error in choice.errors)),
                "eps proven": epsilon(choice.cost_proven),
                "eps publ.": epsilon(choice.cost_published),
            }
        )
    columns = [name for name in rows[0] if name != "split" or len(result.surveys) > 1]
    grid = table("tuned on a validation part of the training records", *columns)
    grid.columns[0].justify = "left"
    for row in rows:
        grid.add_row(*(row[name] for name in columns))
    show(console(), grid)
    print(f"tuning: these epsilons cover all trials and one final run, at delta {epsilon(result.delta)}")
    print(f"        {UNCOVERED}")
