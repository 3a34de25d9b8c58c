"""Tools of scikit-learn that fit again and again on the same people: what all fits cost together is told."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

pytest.importorskip("sklearn")

from sklearn.model_selection import cross_val_score

from admmnet import NetworkClassifier, PrivacyWarning
from admmnet.estimators import tally

MODEL = NetworkClassifier(epsilon=0.5, delta=1e-5, rounds=5)


@pytest.fixture(autouse=True)
def fresh_tally(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tally, "PROCESS", tally.Tally())


def people() -> tuple[Any, Any]:
    X = np.random.default_rng(0).standard_normal((300, 3))
    return X, np.where(X[:, 0] > 0.0, "yes", "no")


def test_cross_validation_at_epsilon_one_half_is_told_to_be_more_than_twice_that() -> None:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        cross_val_score(MODEL, *people())
    assert {one.category for one in said} == {PrivacyWarning}
    messages = [str(one.message) for one in said]
    assert [text.split(":")[0] for text in messages] == [f"{n} private fits of this process" for n in (2, 3, 4, 5)]
    assert "together (delta 1e-05, replace-one)" in messages[-1]
    assert float(messages[-1].partition("epsilon ")[2].split()[0]) == pytest.approx(1.207, abs=0.006)


def test_a_caller_can_make_the_second_fit_an_error() -> None:
    """What is released then is one fit: the second one's model does not come back."""
    X, y = people()
    MODEL.fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrivacyWarning)
        with pytest.raises(PrivacyWarning, match="2 private fits"):
            MODEL.fit(X, y)
