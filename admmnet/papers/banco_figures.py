"""Figures of BANCO against SGD with a tuned learning rate: pictures, claims and tables from rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

import numpy as np

from admmnet.papers.report import Figure, Finding, verdict_on, verdict_on_sizes
from admmnet.papers.significance import duel, total
from admmnet.papers.tables import Row, Summary, by, distinct, grid_table, several, short, where
from admmnet.report.figure import BLACK, BLUE, GREEN, RED, SKY, Curve, Look, Panel, Picture, Rule

BEST, UNTUNED, PAID = "SGD, best rate", "SGD, untuned", "SGD, trials paid"
LOOKS = {
    "BANCO": Look(BLUE, "o"),
    "BANCO, poster's constant": Look(SKY, "^", "dashed"),
    BEST: Look(RED, "s"),
    UNTUNED: Look(GREEN, "D", "dashed"),
    PAID: Look(BLACK, "v", "dotted"),
}
METHODS = {"BANCO": "banco", "BANCO, poster's constant": "banco-poster"}
FACTOR = 2.0
"""Times the excess loss of the best SGD up to which BANCO is said to match it."""


def _path(rows: Sequence[Row], method: str) -> dict[float, Summary]:
    """Excess loss over T; of tuned methods, at each T with the best rate there."""
    own = where(rows, method=method)
    if method not in (BEST, PAID):
        return by(own, "steps", "excess")
    paths = [by(where(own, rate=rate), "steps", "excess") for rate in distinct(own, "rate")]
    return {
        steps: min((path[steps] for path in paths), key=lambda s: s.mean)
        for steps in sorted(distinct(own, "steps"))
    }


def over_steps(rows: list[Row], name: str, title: str, seeds: int, quick: str, words: str) -> Figure:
    """Excess loss over T, a panel a problem and epsilon."""
    heading = f"{title}{quick}"

    def picture(found: Sequence[Row]) -> Picture:
        lines = []
        for epsilon in distinct(found, "epsilon"):
            line = []
            for data in distinct(found, "data"):
                own = where(found, data=data, epsilon=epsilon)
                curves = [Curve.of(method, LOOKS[method], _path(own, method)) for method in LOOKS]
                norm = own[0]["norm"]
                place = "synthetic" if data.startswith("w*") else data
                title = f"{place}, ||w*|| = {norm:.2g}, epsilon = {short(epsilon)}"
                line.append(
                    Panel(
                        title,
                        "T, records",
                        "excess test loss",
                        tuple(c for c in curves if len(c.y)),
                        xlog=True,
                        ylog=True,
                    )
                )
            lines.append(tuple(line))
        return Picture(
            heading, tuple(lines), f"Mean and standard deviation over {several(seeds, 'seed')}.", 2.6
        )

    return Figure(name, heading, rows, picture, _step_findings, _step_tables, words + "see above.")


Place = tuple[str, float]
"""A problem and an epsilon."""


def _places(rows: Sequence[Row]) -> dict[Place, list[Row]]:
    every = product(distinct(rows, "data"), distinct(rows, "epsilon"))
    return {(data, epsilon): where(rows, data=data, epsilon=epsilon) for data, epsilon in every}


def _lasts(own: Sequence[Row], method: str, other: str) -> tuple[Summary, Summary]:
    """Excess of two methods at the last T that both have."""
    a, b = _path(own, method), _path(own, other)
    last = max(place for place in a if place in b)
    return a[last], b[last]


def _ratios(rows: Sequence[Row], method: str, other: str) -> dict[Place, float]:
    """Mean excess of a method over that of another one at the last T, by problem and epsilon."""
    pairs = {place: _lasts(own, method, other) for place, own in _places(rows).items()}
    return {place: a.mean / b.mean for place, (a, b) in pairs.items()}


START = 0.9
"""Share of the model zero's excess loss above which BANCO is said to be at its start still."""


def _at_start(rows: Sequence[Row], method: str = "BANCO") -> list[Place]:
    """Places where a method has hardly left the model zero at the last T."""
    found = []
    for place, own in _places(rows).items():
        path = _path(own, method)
        if path[max(path)].mean > START * own[0]["zero"]:
            found.append(place)
    return found


def _slope(path: Mapping[float, Summary]) -> float:
    """Exponent of T that fits the later half of a path."""
    points = [(x, s.mean) for x, s in path.items() if s.mean > 0.0]
    points = points[len(points) // 2 :]
    if len(points) < 2:
        return float("nan")
    x, y = np.log(np.array(points)).T
    return float(np.polyfit(x, y, 1)[0])


def _said(ratios: Mapping[Place, float]) -> str:
    return ", ".join(
        f"{value:.2g} ({data}, epsilon {short(epsilon)})" for (data, epsilon), value in ratios.items()
    )


FALLS = -0.1
"""Exponent of T down to which the loss of the best SGD is said not to fall, so that nothing can fall as fast."""
AS_FAST = 0.15
"""By how much BANCO's exponent may be above the best SGD's."""


def _step_findings(rows: Sequence[Row]) -> list[Finding]:
    found = [_match(rows, method) for method in METHODS]
    slopes = {
        place: (_slope(_path(own, "BANCO")), _slope(_path(own, BEST))) for place, own in _places(rows).items()
    }
    falling = [(mine, other) for mine, other in slopes.values() if other <= FALLS]
    found.append(
        Finding(
            "its loss falls with T as fast as that of tuned SGD",
            verdict_on_sizes(sum(a <= b + AS_FAST for a, b in falling), len(falling), rows),
            "exponents of T over the later half, BANCO and the best SGD: "
            + ", ".join(
                f"{a:.2f} and {b:.2f} ({data}, epsilon {short(e)})" for (data, e), (a, b) in slopes.items()
            )
            + f"; as fast is at most {AS_FAST:g} above, and counts where SGD's is {FALLS:g} or less",
        )
    )
    for rival, claim in (
        (UNTUNED, "it needs no rate: ahead of SGD with the rate that knows no w*"),
        (PAID, "it saves privacy budget: ahead of SGD whose trials are paid from the same total"),
    ):
        ahead = total(duel(*_lasts(own, "BANCO", rival)) for own in _places(rows).values())
        found.append(
            Finding(
                claim,
                verdict_on(ahead),
                f"excess loss of BANCO over that of {rival}: {_said(_ratios(rows, 'BANCO', rival))}; "
                f"{ahead.words}",
            )
        )
    return found


def _match(rows: Sequence[Row], method: str) -> Finding:
    """Whether a form of BANCO is as good as SGD with the best rate."""
    ratios, start = _ratios(rows, method, BEST), _at_start(rows, method)
    return Finding(
        f"{method} essentially matches SGD with the best learning rate",
        verdict_on_sizes(sum(value <= FACTOR for value in ratios.values()), len(ratios), rows),
        f"excess loss over that of SGD with the best rate, at the last T: {_said(ratios)}; a match is at most "
        f"{FACTOR:g}. In {len(start)} of {len(ratios)} it has hardly left the model zero by then",
        "Where w is held back, its magnitude m starts near zero and grows only as evidence against the noise comes "
        "in: that takes a number of records proportional to sigma^2/2 + 1, where sigma^2 is proportional to "
        "d/epsilon^2 with the tight constant and to d^2/epsilon^2 with the poster's. The best rate in hindsight is "
        "not to be had either.",
    )


def _step_tables(rows: Sequence[Row]) -> str:
    lines = []
    for data, epsilon, method in product(distinct(rows, "data"), distinct(rows, "epsilon"), LOOKS):
        path = _path(where(rows, data=data, epsilon=epsilon), method)
        if path:
            last = max(path)
            lines.append(
                {"set": f"{data}, epsilon {short(epsilon)}", "method": method, "at": path[last].mean}
            )
    return grid_table(
        lines,
        line="set",
        column="method",
        value="at",
        show=lambda s: f"{s.mean:.3g}",
        head="excess loss at the last T",
    )


def over_rates(rows: list[Row], steps: int, seeds: int, quick: str) -> Figure:
    """Figure 2: excess loss at the last T over SGD's learning rate, BANCO as a line across."""
    heading = f"Figure 2. Excess test loss against the learning rate, T = {steps:,}, d = 5{quick}"

    def picture(found: Sequence[Row]) -> Picture:
        lines = []
        for epsilon in distinct(found, "epsilon"):
            line = []
            for data in distinct(found, "data"):
                own = where(found, data=data, epsilon=epsilon)
                curve = Curve.of(
                    "SGD of a constant rate", LOOKS[BEST], by(where(own, method=BEST), "rate", "excess")
                )
                rules = [
                    Rule(method, by(where(own, method=method), "steps", "excess")[steps].mean, dash)
                    for method, dash in zip(METHODS, ("solid", "dotted"), strict=True)
                ]
                title = f"||w*|| = {own[0]['norm']:.2g}, epsilon = {short(epsilon)}"
                line.append(
                    Panel(
                        title,
                        "learning rate",
                        "excess test loss",
                        (curve,),
                        tuple(rules),
                        xlog=True,
                        ylog=True,
                    )
                )
            lines.append(tuple(line))
        return Picture(
            heading, tuple(lines), f"Mean and standard deviation over {several(seeds, 'seed')}.", 2.5
        )

    def findings(found: Sequence[Row]) -> list[Finding]:
        sensitive, wins = [], []
        for data, epsilon in product(distinct(found, "data"), distinct(found, "epsilon")):
            own = where(found, data=data, epsilon=epsilon)
            means = [s.mean for s in by(where(own, method=BEST), "rate", "excess").values()]
            mine = by(where(own, method="BANCO"), "steps", "excess")[steps].mean
            sensitive.append(max(means) / min(means))
            wins.append(sum(mine < mean for mean in means) / len(means))
        grow, every = _growth(found), len(distinct(found, "epsilon"))
        return [
            Finding(
                "the loss of SGD depends largely on the learning rate",
                verdict_on_sizes(sum(value > FACTOR for value in sensitive), len(sensitive), found),
                "worst over best excess in the grid: "
                f"{', '.join(f'{value:.2g}' for value in sensitive)}; BANCO is ahead of "
                f"{', '.join(f'{100.0 * value:.0f} %' for value in wins)} of the rates",
            ),
            Finding(
                "BANCO's distance from the best rate does not grow with ||w*||",
                verdict_on_sizes(sum(b <= FACTOR * a for a, b in grow), len(grow), found),
                f"excess over the best SGD's, least and largest ||w*||, at {len(grow)} of {every} epsilons where "
                f"BANCO has left the model zero for both: "
                + (", ".join(f"{a:.2g} and {b:.2g}" for a, b in grow) or "none")
                + f"; it grows if the second is more than {FACTOR:g} times the first",
            ),
        ]

    return Figure(
        "figure2", heading, rows, picture, findings, lambda found: "", "as figure 1, the same runs."
    )


def _growth(rows: Sequence[Row]) -> list[tuple[float, float]]:
    """Ratio to the best SGD at the least and at the largest norm, for each epsilon at which BANCO got under way."""
    ratios, start, sets = _ratios(rows, "BANCO", BEST), _at_start(rows), distinct(rows, "data")
    ends = [((sets[0], epsilon), (sets[-1], epsilon)) for epsilon in distinct(rows, "epsilon")]
    return [(ratios[a], ratios[b]) for a, b in ends if a not in start and b not in start]
