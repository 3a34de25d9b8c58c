"""The table of a comparison for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from admmnet.cli.flags import lines, notes
from admmnet.experiments.figures import UNCOVERED, Choice, CompareResult
from admmnet.experiments.parsing import said, short
from admmnet.record.format import count, epsilon, error, number, seconds, size
from admmnet.report.columns import Row, print_table


def print_comparison(result: CompareResult) -> None:
    """Print a row a method and epsilon, the references, what was tuned, and where everything lies."""
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
                f"masked sums: {line['name']} at epsilon {short(line['epsilon'])}: A, if at most {line['colluders']} "
                f"other agents collude, is epsilon {epsilon(line['epsilon_proven'])}; B, if all do or masks fail, "
                f"{epsilon(line['epsilon_if_all_collude'])}"
            )
    what, guess = ("error", "the larger class:") if metric == "error" else ("MSE", "the mean:")
    print(f"no privacy, all training records pooled: test {what} {error(held['pooled'], metric)}")
    print(f"always {guess:<33} test {what} {error(held['larger_class'], metric)}")
    if result.choices:
        tuned = [_tuned(choice, metric) for choice in result.choices]
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
