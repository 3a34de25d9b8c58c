"""The measurements: each a function of records with its noise, its cost and the theorem that joins the two."""

from admmnet.holder.measurements.counts import ColumnCounts
from admmnet.holder.measurements.gate import GradientNorm, HeldNorm, PublishedBroadcast, PublishedComparison
from admmnet.holder.measurements.gradient import NoisyGradient
from admmnet.holder.measurements.minimiser import ExactMinimiser, GammaMinimiser, PerturbedMinimiser
from admmnet.holder.measurements.sums import GradientSum, MomentSum, SecondMoments

__all__ = [
    "ColumnCounts",
    "ExactMinimiser",
    "GammaMinimiser",
    "GradientNorm",
    "GradientSum",
    "HeldNorm",
    "MomentSum",
    "NoisyGradient",
    "PerturbedMinimiser",
    "PublishedBroadcast",
    "PublishedComparison",
    "SecondMoments",
]
