"""Types used everywhere: arrays in C order unless said otherwise, numbers in files, and a sum over the network."""

from __future__ import annotations

from typing import Annotated, Literal, NamedTuple

import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

Vector = NDArray[np.float64]
"""One-dimensional float64 array, usually of shape (d,)."""
Matrix = NDArray[np.float64]
"""Two-dimensional float64 array, usually of shape (n, d)."""
Integers = NDArray[np.int64]
"""One-dimensional int64 array; sums of them are modulo 2^64."""
Whole = Annotated[int, Meta(ge=0, le=1 << 53)]
Figure = Annotated[float, Meta(ge=0.0, le=1e300)]
Real = Annotated[float, Meta(ge=-1e300, le=1e300)]
"""Numbers in files that others may have written."""
LabelKind = Literal["binary", "classes", "real"]
"""Labels -1 and +1, labels 0, 1, ..., K - 1 of K >= 3 classes, or finite targets."""
BEFORE = -(2**31)
"""Number before that of every round."""
NEVER = -5
"""Round of an agent that has been charged nothing, as agents tell each other: before that of every stage."""


class Total(NamedTuple):
    """Sum of agents' integer vectors.

    Attributes
    ----------
    value : ndarray of int64
        The sum modulo 2^64, as a signed number.
    agents : tuple of int
        Agents whose vectors are in it, ascending.
    """

    value: Integers
    agents: tuple[int, ...]
