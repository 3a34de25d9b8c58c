"""The table of a comparison for people."""

from __future__ import annotations

from admmnet.cli.flags import lines, notes
from admmnet.experiments.figures import UNCOVERED, Choice, CompareResult, Line
from admmnet.experiments.parsing import said, short
from admmnet.record.format import count, epsilon, error, number, seconds, size
from admmnet.report.columns import Row, print_table


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
    rows = [_row(line, metric) for line in result.lines]
    left_out = dict.fromkeys(list(rows[0])[2:]) if rows else {}
    rows += [{"method": entry.text, "epsilon": wanted} | left_out for entry, wanted in result.refused]
    print_table(title, rows)
    lines(*(f"refused: {failure.message}" for failure in result.refused.values()))
    for line in result.lines:
        if (second := line.most("epsilon_if_all_collude")) is not None:
            lines(
                f"masked sums: {line.entry.text} at epsilon {short(line.epsilon)}: A, if at most "
                f"{line.rows[0]['colluders']} other agents collude, is epsilon {epsilon(line.most('epsilon_proven'))}; "
                f"B, if all do or masks fail, {epsilon(second)}"
            )
    what, guess = ("error", "the larger class:") if metric == "error" else ("MSE", "the mean:")
    print(f"no privacy, all training records pooled: test {what} {error(result.pooled, metric)}")
    print(f"always {guess:<33} test {what} {error(result.larger_class, metric)}")
    if result.choices:
        print_table(
            "tuned on a validation part of the training records", [_tuned(one, metric) for one in result.choices]
        )
        print(f"tuning: these epsilons cover all trials and one final run, at delta {epsilon(result.delta)}")
        print(f"        {UNCOVERED}")
    if result.missing:
        print(f"not there:            {count(result.missing)} of {count(result.missing + len(result.rows))} runs")
    print(f"figures of every run: {result.folder / 'compare.csv'}")
    for picture in result.pictures:
        print(f"picture:              {picture}")
    print(f"run folders:          {result.folder / 'runs'}   (admmnet ledger verify RUN)")
    notes(*result.notes)


def _row(line: Line, metric: str) -> Row:
    shown = [error(value, metric).removesuffix("%") for value in (line.error, line.spread)]
    return {
        "method": line.entry.text,
        "epsilon": line.epsilon,
        "error in %" if metric == "error" else "test MSE": " +- ".join(shown[: 1 if line.spread is None else 2]),
        "eps proven": line.most("epsilon_proven"),
        "eps published": line.most("epsilon_published"),
        "loss": line.mean("train_loss"),
        "releases": number(line.mean("releases")),
        "sent": size(line.mean("bytes_sent")),
        "time": seconds(line.mean("seconds")),
    }


def _tuned(choice: Choice, metric: str) -> Row:
    case, values, errors, trials, proven, published = choice
    return {
        "method": case.entry.text,
        "epsilon": case.epsilon,
        "split": case.data_seed,
        "chosen": said(values).replace(",", ", "),
        "of": len(errors),
        "trials": trials,
        "validation error": error(min(errors.values()), metric),
        "eps proven": proven,
        "eps published": published,
    }
