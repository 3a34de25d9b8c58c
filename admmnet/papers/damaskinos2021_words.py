"""Problems, looks and readings of the figures of Damaskinos et al. 2021."""

from __future__ import annotations

from dataclasses import dataclass

from admmnet.papers.sources import Source
from admmnet.report.figure import (
    BLACK,
    BLUE,
    GREEN,
    RED,
    SKY,
    Look,
)

PUBLISHED, PROVEN = "equal published epsilon", "equal proven epsilon"


LOOKS = {
    "SCD": Look(BLACK, "", "dashed"),
    "SGD": Look(BLACK, "", "dotted"),
    "DP-SGD": Look(RED, "s"),
    "DP-SCD": Look(BLUE, "o"),
    "DP-SCD, the paper's": Look(SKY, "^", "dashed"),
    "seqDP-SCD": Look(GREEN, "D"),
}


@dataclass(frozen=True)
class Problem:
    """One application of the paper; ``constant`` is the test figure of a model that knows no features."""

    name: str
    source: Source
    loss: str
    regularisation: float
    constant: float

    @property
    def words(self) -> str:
        """Title of its panel."""
        head = {"ridge": "(a) ridge regression", "logistic": "(b) logistic regression", "svm": "(c) SVM"}[
            self.name
        ]
        return f"{head}\n{self.source.words}"
