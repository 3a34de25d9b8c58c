"""The table of a comparison for people."""

from __future__ import annotations

from admmnet.cli.flags import lines, notes
from admmnet.experiments.figures import UNCOVERED, CompareResult, Line
from admmnet.experiments.parsing import said, short
from admmnet.record.format import NONE, count, epsilon, error, number, seconds, size
from admmnet.report.columns import console, show, table

COLUMNS = ("method", "epsilon", "error in %", "eps proven", "eps publ.", "loss", "releases", "sent", "time")


def print_comparison(result: CompareResult) -> None:
    """Print a row a method and epsilon, the references, what was tuned, and where everything lies."""
    data, metric = result.data[0], result.metric
    counts = sorted({len(line.rows) for line in result.lines})
    runs = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    splits = f", {len(result.data)} splits" if len(result.data) > 1 else ""
    whose = f"{data['agents']} agents, " if data["agents"] > 1 else ""
    title = (
        f"{data['name']}: {count(data['train'])} training and {count(data['test'])} test records{splits}, {whose}"
        f"delta {epsilon(result.delta)}; means over {runs} seeds"
    )
    grid = table(title, *("test MSE" if metric != "error" and name == "error in %" else name for name in COLUMNS))
    grid.columns[0].justify = "left"
    before = None
    for line in result.lines:
        if before not in (None, line.entry):
            grid.add_section()
        before = line.entry
        grid.add_row(*_cells(line, metric))
    if result.refused:
        grid.add_section()
    for entry, wanted in result.refused:
        grid.add_row(entry.text, _short(wanted), *NONE * (len(COLUMNS) - 2))
    show(console(), grid)
    lines(*(f"refused: {failure.message}" for failure in result.refused.values()))
    for line in result.lines:
        if (second := line.most("epsilon_if_all_collude")) is not None:
            lines(
                f"masked sums: {line.entry.text} at epsilon {_short(line.epsilon)}: A, if at most "
                f"{line.rows[0]['colluders']} other agents collude, is epsilon {epsilon(line.most('epsilon_proven'))}; "
                f"B, if all do or masks fail, {epsilon(second)}"
            )
    what, guess = ("error", "the larger class:") if metric == "error" else ("MSE", "the mean:")
    print(f"no privacy, all training records pooled: test {what} {error(result.pooled, metric)}")
    print(f"always {guess:<33} test {what} {error(result.larger_class, metric)}")
    _print_tuning(result)
    if result.missing:
        print(f"not there:            {count(result.missing)} of {count(result.missing + len(result.rows))} runs")
    print(f"figures of every run: {result.folder / 'compare.csv'}")
    for picture in result.pictures:
        print(f"picture:              {picture}")
    print(f"run folders:          {result.folder / 'runs'}   (admmnet ledger verify RUN)")
    notes(*result.notes)


def _short(value: float | None) -> str:
    return NONE if value is None else short(value)


def _cells(line: Line, metric: str) -> tuple[str, ...]:
    shown = [error(value, metric).removesuffix("%") for value in (line.error, line.spread)]
    return (
        line.entry.text,
        _short(line.epsilon),
        " +- ".join(shown[: 1 if line.spread is None else 2]),
        epsilon(line.most("epsilon_proven")),
        epsilon(line.most("epsilon_published")),
        number(line.mean("train_loss")),
        number(line.mean("releases")),
        size(line.mean("bytes_sent")),
        seconds(line.mean("seconds")),
    )


def _print_tuning(result: CompareResult) -> None:
    """Name the tuned settings, the choice, and its cost on private records."""
    if not result.choices:
        return
    names = ("method", "epsilon", "split", "chosen", "of", "trials", "validation error", "eps proven", "eps publ.")
    grid = table("tuned on a validation part of the training records", *names)
    grid.columns[0].justify = "left"
    for case, values, errors, trials, proven, published in result.choices:
        grid.add_row(
            case.entry.text,
            _short(case.epsilon),
            str(case.data_seed),
            said(values).replace(",", ", "),
            str(len(errors)),
            str(trials),
            error(min(errors.values()), result.metric),
            epsilon(proven),
            epsilon(published),
        )
    show(console(), grid)
    print(f"tuning: these epsilons cover all trials and one final run, at delta {epsilon(result.delta)}")
    print(f"        {UNCOVERED}")
