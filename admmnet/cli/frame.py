"""A run at one moment, as `admmnet watch` shows it: a frame on a terminal, or a line."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from admmnet.errors import RequestError
from admmnet.evidence.follow import AgentSight, Sight
from admmnet.record.format import epsilon, error, number
from admmnet.record.format import seconds as duration
from admmnet.record.values import at, real
from admmnet.report.columns import FEW, grid_of
from admmnet.solvers.losses import get_loss, tasks_of

BLOCKS, SIGNS = "▁▂▃▄▅▆▇█", "_.-~=+*#"
"""Heights of a sparkline, and what stands for them where the terminal has no such letters."""
BAR = 40
"""Letters of the bar over rounds, and of the sparkline, at most."""
WINDOW = 30.0
"""Seconds of which the pace is the mean."""
ABOVE = 9
"""Lines of a frame besides the agents, at most."""
PHASES = {
    "running": ("running", "bold green"),
    "waiting": ("waiting for other agents", "bold yellow"),
    "finished": ("finished", "bold green"),
    "stopped": ("finished: stopped by on_round", "bold yellow"),
    "broken": ("ended without a summary", "bold red"),
    "unknown": ("not finished; whether it runs cannot be told on this file system", "bold yellow"),
}


class Screen:
    """Draws one run again and again; it remembers when rounds were seen, for the pace."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._seen: deque[tuple[float, int]] = deque()

    def of(self, sight: Sight, out: Console, *, whole: bool = False) -> RenderableType:
        """Return the picture of a sight, with ``FEW`` agents if ``whole``, else as many as the console has room for."""
        plain = not out.encoding.lower().startswith("utf")
        words, style = PHASES[sight.phase]
        mode = Text(
            f"mode: {'not known yet' if sight.mode is None else sight.mode.line()}", overflow="ellipsis", no_wrap=True
        )
        head = Text.assemble((str(self._folder), "bold"), "  ", (words, style), overflow="ellipsis", no_wrap=True)
        facts = Table.grid(padding=(0, 2))
        facts.add_column(style="dim", no_wrap=True)
        facts.add_column(overflow="fold")
        facts.add_row("run", Text(_run_words(sight)))
        facts.add_row(f"{sight.unit}s", self._rounds(sight, room(out, 62), plain=plain))
        facts.add_row("test error", _errors(sight, room(out, 54), plain=plain))
        facts.add_row("epsilon", Text(_epsilon(sight)))
        if sight.away:
            facts.add_row("away", Text(away_words(sight.away), style="bold red"))
        if sight.trouble is not None:
            facts.add_row("trouble", Text(sight.trouble, style="bold red"))
        return Group(mode, head, facts, _agents(sight, FEW if whole else max(1, out.height - ABOVE)))

    def _rounds(self, sight: Sight, width: int, *, plain: bool) -> str:
        if sight.rounds is None:
            return f"{sight.done}{self._pace(sight)}"
        done = width * min(sight.done, sight.rounds) // sight.rounds
        full, empty = "#-" if plain else "━─"
        return f"{full * done}{empty * (width - done)}  {sight.done} of {sight.rounds}{self._pace(sight)}"

    def _pace(self, sight: Sight) -> str:
        """Rounds a second and the time that is left, or how long nothing has come."""
        if sight.phase == "waiting":
            return f", the last {duration(sight.quiet)} ago"
        if sight.phase != "running":
            seconds = real(at(sight.summary, "seconds", "total"))
            return "" if seconds is None else f" in {duration(seconds)}"
        now = time.monotonic()
        self._seen.append((now, sight.done))
        while self._seen[0][0] < now - WINDOW and len(self._seen) > 2:
            self._seen.popleft()
        (begin, first), (_, last) = self._seen[0], self._seen[-1]
        if last == first:
            return f", the last {duration(sight.quiet)} ago" if sight.quiet >= WINDOW else ""
        pace = (last - first) / (now - begin)
        left = "" if sight.rounds is None else f", about {duration((sight.rounds - last) / pace)} left"
        return f", {number(pace)} a second{left}"


def room(out: Console, beside: int) -> int:
    """Letters that a bar may have beside so many others."""
    return max(5, min(BAR, out.width - beside))


def line(sight: Sight) -> str:
    """Return a sight in one line."""
    rounds = f"{sight.unit} {sight.done}" + ("" if sight.rounds is None else f" of {sight.rounds}")
    parts = [PHASES[sight.phase][0], rounds]
    if sight.errors:
        parts.append(f"test error {_figure(sight, _last(sight.errors))}")
    most = sight.most_spent
    if most is not None:
        parts.append(f"epsilon {epsilon(most.spent)} of {epsilon(most.target)} spent")
    if sight.away:
        parts.append("away: " + away_words(sight.away))
    if sight.trouble is not None:
        parts.append(f"trouble: {sight.trouble}")
    return ", ".join(parts)


def away_words(away: Sequence[int]) -> str:
    """Say who is away."""
    return ", ".join(f"agent {i}" for i in away[:4]) + (f" and {len(away) - 4} more" if len(away) > 4 else "")


def _run_words(sight: Sight) -> str:
    kind = sight.word("algorithm", "method")
    where = "one holder" if sight.unit == "epoch" else sight.word("network", "topology")
    return f"{sight.word('algorithm', 'algorithm')} ({kind}) on {sight.word('data', 'data')}, {where}"


def _figure(sight: Sight, value: float | None) -> str:
    """A test figure by the run's measure; while it runs, by its loss's."""
    name, metric = at(sight.settings, "problem", "loss"), at(sight.summary, "metric")
    try:
        shares = "real" not in tasks_of(get_loss(str(name))) if metric is None else metric == "error"
    except RequestError:  # a loss of a package that is not installed here
        shares = False
    return error(value, "error" if shares else None)


def _last(errors: Mapping[int, float]) -> float | None:
    return errors[max(errors)] if errors else None


def _errors(sight: Sight, width: int, *, plain: bool) -> str:
    errors = sight.errors
    if not errors:
        return "none: there are no test records" if sight.done else "-"
    least = min(errors, key=lambda round: (errors[round], round))
    words = f"{_figure(sight, _last(errors))}  {sparkline(list(errors.values()), width, SIGNS if plain else BLOCKS)}"
    return f"{words}  least {_figure(sight, errors[least])} in {sight.unit} {least}"


def sparkline(values: list[float], width: int, heights: str = BLOCKS) -> str:
    """Return values as a row of letters, the lowest to the highest; of many, the mean of each stretch."""
    size = min(width, len(values))
    stretches = [values[len(values) * k // size : len(values) * (k + 1) // size] for k in range(size)]
    means = [sum(part) / len(part) for part in stretches]
    low, high = min(means), max(means)
    top = len(heights) - 1
    return "".join(heights[0 if high == low else round(top * (mean - low) / (high - low))] for mean in means)


def _epsilon(sight: Sight) -> str:
    most = sight.most_spent
    if most is None:
        return "none: the method has no budget" if sight.agents else "-"
    words = f"{epsilon(most.spent)} of {epsilon(most.target)} spent"
    words += f" by agent {most.agent}, the largest share" if len(sight.agents) > 1 else ""
    if at(sight.settings, "privacy", "account") is not None:
        words += f" in this run; admmnet account show {sight.word('privacy', 'account')} has all runs"
    return words


def _agents(sight: Sight, most: int) -> RenderableType:
    if len(sight.agents) <= 1:
        return Text("")
    shown = _chosen(sight.agents, most)
    rows = [
        {
            "agent": seen.agent,
            "eps spent": seen.spent,
            "budget": seen.target,
            "releases": seen.releases,
            "last": "?" if seen.last is None and seen.releases else seen.last,
            "own error": _figure(sight, seen.error),
            "": seen.state,
        }
        for seen in shown
    ]
    grid = grid_of("", rows)
    grid.box, grid.header_style, grid.columns[-1].style = None, "dim", "red"
    if len(shown) < len(sight.agents):
        return Group(grid, Text(f"  and {len(sight.agents) - len(shown)} agents more", style="dim"))
    return grid


def _chosen(agents: tuple[AgentSight, ...], most: int) -> list[AgentSight]:
    """Agents for which there is room: those of which there is something to say first, in order of their numbers."""
    first = sorted(agents, key=lambda seen: (not seen.state, seen.agent))[:most]
    return sorted(first, key=lambda seen: seen.agent)
