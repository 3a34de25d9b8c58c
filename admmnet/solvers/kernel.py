"""What computes scores and gradients of dense records: the compiled kernel (`_kernel.c`), or numpy.

Both serve every certificate alike, whose margins hold for either: docs/proofs.md, (V1). Their last bits differ.
"""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module
from typing import Any, Literal, NamedTuple, Self, cast

import numpy as np

from admmnet.errors import RequestError
from admmnet.solvers.losses import Huber, Logistic, Loss, SmoothedHinge, Squared
from admmnet.types import Matrix, Vector

_compiled: Any = None
with suppress(ImportError):  # no compiler was there when the package was installed, or this is a bare checkout
    _compiled = import_module("admmnet.solvers._kernel")

Kernel = Literal["c", "numpy"]
NAMES: dict[Kernel, str] = {"c": "c1", "numpy": "numpy"}
"""Names that tell their bits apart."""
_compiled = _compiled if getattr(_compiled, "NAME", "") == NAMES["c"] else None  # not from another version's source
_LOSSES: dict[type, int] = {Logistic: 0, SmoothedHinge: 1, Huber: 2, Squared: 3}
"""Losses that are compiled, exact types alone, by their numbers there."""


def chosen(asked: str) -> Kernel:
    """The kernel that a setting means here: ``auto`` is the compiled one where it is built.

    RequestError if it asks for the compiled one, which is not built.
    """
    if asked == "c" and _compiled is None:
        raise RequestError(
            "kernel = 'c' is not built here: install the package with a C compiler (`pip install "
            "-e .`), or take --kernel numpy, which differs in last bits"
        )
    return "numpy" if _compiled is None else cast("Kernel", "c" if asked == "auto" else asked)


class Compiled(NamedTuple):
    """The compiled kernel for a loss."""

    loss: int
    width: float
    variant: int = -1
    """Which of the processor's vectors serve, the widest by default: the bits are the same."""

    @classmethod
    def of(cls, kernel: Kernel, loss: Loss, *arrays: Any) -> Self | None:
        """The compiled kernel for such records, where it is asked for and serves: else numpy does."""
        plain = all(type(a) is np.ndarray and a.dtype == np.float64 and a.flags.c_contiguous for a in arrays)
        if kernel == "numpy" or not plain or type(loss) not in _LOSSES:
            return None
        return cls(_LOSSES[type(loss)], getattr(loss, "width", 0.0), _compiled.VARIANTS - 1)

    def sums(
        self, X: Any, y: Matrix, theta: Matrix, rows: int, *, counts: Vector | None = None, scores: Vector | None = None
    ) -> tuple[Matrix, Vector]:
        """Sums of w_k x_k by blocks of ``rows``, shape (d,), and of w_k^2, shape (1,), as `certificate.gradient`.

        Of a stack X (B, n, d) they are of shapes (B, d) and (B,), of the first ``counts`` rows of each member.
        """
        theta = np.ascontiguousarray(theta)
        total, squares = np.empty_like(theta), np.empty(theta.size // X.shape[-1])
        _compiled.run(self.variant, self.loss, self.width, rows, X, theta, y, counts, total, squares, scores)
        return total, squares

    def scores(self, X: Matrix, theta: Vector, found: Vector) -> Vector:
        """Scores of rows X (n, d), to the bit as in ``sums``, put into ``found``, shape (n,)."""
        own = X, np.ascontiguousarray(theta), None, None, None, None, found
        _compiled.run(self.variant, self.loss, self.width, len(X), *own)
        return found
