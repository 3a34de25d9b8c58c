"""Array types used everywhere: float64, C order unless said otherwise."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
"""One-dimensional float64 array, usually of shape (d,)."""
Matrix = NDArray[np.float64]
"""Two-dimensional float64 array, usually of shape (n, d)."""
