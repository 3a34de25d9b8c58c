"""The real sets as they are published: shapes, shares of labels, errors, and that nothing is fitted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from admmnet.data import DataSettings, load, sets
from admmnet.data.files import content_digest
from tests.data.conftest import every
from tests.real_sets import folder_of, need


@pytest.mark.parametrize(("name", "width", "expected"), [("census", 109, 0.147), ("adult", 82, 0.150)])
def test_the_two_census_sets(name: str, width: int, expected: float) -> None:
    folder = folder_of(name)
    records = load(DataSettings(data=name, data_dir=folder, split="iid"), 5, range(5))
    assert (records.name, records.preprocessing) == (name, "public-bounds")
    assert records.counts == dict.fromkeys(range(5), 7000)
    assert len(records.feature_names) == len(set(records.feature_names)) == width
    assert any("public" in note for note in records.notes)
    assert any("synthetic" in note for note in records.notes) is (name == "census")
    for X, y in [*records.shards.values(), (records.X_test, records.y_test)]:
        assert X.shape == (len(y), width)
        np.testing.assert_allclose(np.linalg.norm(X, axis=1), 1, rtol=0, atol=1e-14)
    assert records.X_test.shape == (13_842, width)
    X, y = (np.concatenate([shard[k] for shard in records.shards.values()]) for k in (0, 1))
    assert np.mean(y > 0) == pytest.approx(0.24, abs=0.005)
    fitted = LogisticRegression(C=1e4 / len(y), fit_intercept=False, max_iter=200).fit(X, y)
    assert 1.0 - fitted.score(records.X_test, records.y_test) == pytest.approx(expected, abs=0.006)
    # a rank alone gets what it gets among others
    alone = load(DataSettings(data=name, data_dir=folder, split="iid"), 5, [3])
    np.testing.assert_array_equal(alone.shards[3][0], records.shards[3][0])
    np.testing.assert_array_equal(alone.X_test, records.X_test)
    other = load(DataSettings(data=name, data_dir=folder, split="iid", data_seed=5), 5, [3])
    assert not np.array_equal(alone.y_test, other.y_test)


@pytest.mark.parametrize(
    ("name", "files", "how", "counts"),
    [
        ("adult", "adult/adult.data.gz", {"test": "official"}, (32_561, 7841, 16_281, 3846)),
        ("a9a", "adult/a9a.gz", {"test": "official"}, (32_561, 7841, 16_281, 3846)),
        ("phishing", "phishing", {"no_test": True}, (11_055, 6157, 0, 0)),
        ("kddcup99", "kddcup99/kddcup.data_10_percent.gz", {"no_test": True, "project": 2}, (494_021, 396_743, 0, 0)),
        (
            "mnist:5",
            "mnist/train-images-idx3-ubyte.gz",
            {"test": "official", "project": 3},
            (60_000, 5421, 10_000, 892),
        ),
    ],
)
def test_all_records_are_read(name: str, files: str, how: dict[str, Any], counts: tuple[int, ...]) -> None:
    records = every(name, data_dir=need(files), **how)
    y = records.shards[0][1]
    assert (len(y), int(np.sum(y > 0)), len(records.y_test), int(np.sum(records.y_test > 0))) == counts
    assert records.preprocessing == "public-bounds"
    assert not any("checksum" in note for note in records.notes)


def test_downloads_of_adult_are_checked_against_the_real_files() -> None:
    folder = Path(need("adult/adult.data.gz", "adult/adult.test.gz"))
    expected = sets.KNOWN["adult"].sha256
    assert {name: content_digest(folder / f"{name}.gz") for name in expected} == expected
