"""Single-site methods as series of steps, answered an epoch at a time: docs/methods.md."""

from admmnet.holder.problem import SINGLE_SITE_LOSSES, Problem
from admmnet.holder.series.banco import OnlineSteps
from admmnet.holder.series.base import Series
from admmnet.holder.series.dp_scd import DualSteps
from admmnet.holder.series.gradient import GradientSteps
from admmnet.holder.series.primal_dp_scd import PrimalSteps
from admmnet.holder.series.sdca import ExactPasses
from admmnet.holder.series.seq_dp_scd import SequentialSteps
from admmnet.holder.series.song_sgd import DisjointSteps

__all__ = [
    "SINGLE_SITE_LOSSES",
    "DisjointSteps",
    "DualSteps",
    "ExactPasses",
    "GradientSteps",
    "OnlineSteps",
    "PrimalSteps",
    "Problem",
    "SequentialSteps",
    "Series",
]
