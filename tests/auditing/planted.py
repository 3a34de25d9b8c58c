"""A bug that an audit must find, planted in this process and taken out again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from admmnet.holder.holder import Secret
from admmnet.holder.measurements import minimiser, sums
from admmnet.holder.series import coordinate, gradient, single_pass


@contextmanager
def halved_noise() -> Iterator[None]:
    """Every function that draws noise draws half."""

    def half(draw: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *given: 0.5 * draw(*given)

    def smaller(draw: Callable[..., Any]) -> Callable[..., Any]:
        """With half the standard deviation, the second argument."""
        return lambda first, sigma, *given: draw(first, 0.5 * sigma, *given)

    places: list[tuple[Any, str, Any]] = [(Secret, name, half) for name in ("gaussian", "gamma_norm", "laplace")]
    places += [(single_pass, "gamma_norm_noise", half), (minimiser, "clipped_gaussian_rows", half)]
    places += [(sums, "discrete_rows", smaller)]
    places += [(one, "with_noise", smaller) for one in (coordinate, gradient, single_pass)]
    with pytest.MonkeyPatch.context() as patch:
        for owner, name, weaken in places:
            patch.setattr(owner, name, weaken(getattr(owner, name)))
        yield
