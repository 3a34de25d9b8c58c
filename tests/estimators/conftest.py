"""Every test has a tally of its own: what another one fitted is no earlier fit of its rows."""

from __future__ import annotations

import pytest

from admmnet.estimators import tally


@pytest.fixture(autouse=True)
def fresh_tally(monkeypatch: pytest.MonkeyPatch) -> tally.Tally:
    """Return the one that a fit of this test adds to."""
    fresh = tally.Tally()
    monkeypatch.setattr(tally, "PROCESS", fresh)
    return fresh
