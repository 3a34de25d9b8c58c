"""Names, looks and readings of the figures of Ding et al. 2020."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from admmnet.papers.tables import (
    Summary,
)
from admmnet.report.figure import (
    BLACK,
    BLUE,
    GREEN,
    PINK,
    RED,
    SKY,
    Look,
)

NON_PRIVATE = "admm"


PAPER, PUBLISHED, PROVEN = (
    "paper's settings, equal published epsilon",
    "tuned, equal published epsilon",
    "tuned, equal proven epsilon",
)


SHORT = {
    PAPER: "paper's settings, published epsilon",
    PUBLISHED: "tuned, published epsilon",
    PROVEN: "tuned, proven epsilon",
}


OWN, RIVALS = ("pp-admm", "ipp-admm"), ("dvp", "m-admm", "r-admm")


NAMES = {
    "admm": "non-private",
    "dvp": "DVP",
    "m-admm": "M-ADMM",
    "r-admm": "R-ADMM",
    "pp-admm": "PP-ADMM",
    "ipp-admm": "IPP-ADMM",
}


LOOKS = {
    "admm": Look(BLACK, "", "dashed"),
    "dvp": Look(SKY, "^"),
    "m-admm": Look(GREEN, "s"),
    "r-admm": Look(PINK, "D"),
    "pp-admm": Look(BLUE, "o"),
    "ipp-admm": Look(RED, "v"),
}


def in_percent(found: Mapping[Any, Summary]) -> dict[Any, Summary]:
    """Shares times 100."""
    return {x: Summary(100.0 * s.mean, 100.0 * s.spread, 100.0 * s.median, s.count) for x, s in found.items()}
