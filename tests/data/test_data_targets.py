"""Real targets, thresholds, and labels that are left out."""

from __future__ import annotations

import numpy as np
import pytest

from admmnet.data import DataSettings, TargetRange, load_new
from admmnet.errors import RequestError
from tests.data.conftest import Write, every, refusal

VALUES = [0.0, 10.0, 2.5, -5.0, 40.0]
CSV = "a,b,y\n" + "".join(f"{k + 1},{k * k},{v:g}\n" for k, v in enumerate(VALUES))
CLIPPED = np.clip(VALUES, 0, 10)
SCHEMA = {"label": "y", "targets": [0, 10]}


def test_the_range_becomes_minus_one_to_one(write: Write) -> None:
    path = write("t.csv", CSV)
    records = every(path, schema=SCHEMA, test=path)
    assert records.task == "real"
    assert records.preprocessing == "public-bounds"
    assert records.target == TargetRange(0, 10, 5)
    np.testing.assert_allclose(records.y_test, [-1, 1, -0.5, -1, 1], rtol=0, atol=1e-15)
    np.testing.assert_allclose(records.target.unscaled(records.y_test), CLIPPED, rtol=0, atol=1e-15)
    assert records.encoding is not None
    assert records.encoding["targets"] == [0.0, 10.0]


def test_a_target_is_a_finite_number(write: Write) -> None:
    bad = write("u.svm", "1 1:1\nnan 1:1\n")
    assert "line 2, column 'label': 'nan' is not finite" in refusal(
        bad, features=1, schema={"targets": [0, 1]}, test=bad
    )


def test_a_public_centre(write: Write) -> None:
    path = write("t.csv", CSV)
    for others in (
        {"centre": 2.0, "schema": SCHEMA},
        {"centre": "2", "schema": SCHEMA},
        {"schema": SCHEMA | {"centre": 2}},
    ):
        records = every(path, test=path, **others)
        assert records.target == TargetRange(0, 10, 2)
        assert records.preprocessing == "public-bounds"
        assert any("targets are centred at 2, a public number" in note for note in records.notes)
        np.testing.assert_allclose(records.y_test, (CLIPPED - 2) / 8)
        assert np.abs(records.y_test).max() <= 1
    assert "--centre must lie in the range of the targets, 0 to 10, got 11" in refusal(
        path, schema=SCHEMA, test=path, centre=11.0
    )


def test_the_mean_is_data_dependent(write: Write) -> None:
    path = write("t.csv", CSV)
    records = every(path, schema=SCHEMA, test=path, centre="mean")
    assert records.preprocessing == "data-dependent"
    assert any("mean of the targets" in note for note in records.notes)
    mean = float(np.mean(CLIPPED))
    assert records.target == TargetRange(0, 10, mean)
    assert np.mean(records.y_test) == pytest.approx(0, abs=1e-15)
    assert records.encoding is not None
    assert records.encoding["centre"] == mean
    request = DataSettings(data=path, schema=records.encoding, centre="mean")
    new = load_new(request, records.feature_names)
    np.testing.assert_array_equal(new.y_test, records.y_test)
    assert new.target == records.target
    assert new.task == "real"
    with pytest.raises(RequestError, match="--centre mean would be read from the rows"):
        load_new(request.changed(schema=SCHEMA), records.feature_names)


def test_what_goes_with_classes_alone(write: Write) -> None:
    path = write("t.csv", CSV)
    assert "--split dirichlet:1 deals by class, and t.csv has real targets" in refusal(
        path, schema=SCHEMA, test=path, split="dirichlet:1"
    )
    assert "--positive 1 and data.schema.targets exclude each other" in refusal(path, schema=SCHEMA, positive="1")


def test_a_threshold_makes_classes(write: Write) -> None:
    path = write("t.csv", CSV)
    schema = {"label": "y", "threshold": 2.5}
    records = every(path, schema=schema, test=path)
    assert records.task == "binary"
    assert records.preprocessing == "public-bounds"
    np.testing.assert_array_equal(records.y_test, [-1, 1, -1, -1, 1])
    new = load_new(DataSettings(data=path, schema=schema), records.feature_names)
    assert new.labels == ("at most 2.5", "above 2.5")
    zero = every(path, schema=schema | {"threshold": 0}, test=path)
    np.testing.assert_array_equal(zero.y_test, [-1, 1, 1, -1, 1])
    assert "--positive 1 and data.schema.threshold exclude each other" in refusal(path, schema=schema, positive="1")


def test_records_that_are_left_out(write: Write) -> None:
    path = write("t.csv", CSV)
    schema = {"label": "y", "threshold": 2.5, "leave_out": ["10.0", -5]}
    records = every(path, schema=schema, test=path)
    np.testing.assert_array_equal(records.y_test, [-1, -1, 1])
    raw = records.X_test / records.X_test[:, -1:]
    np.testing.assert_allclose(raw[:, 0], [1, 3, 5])
    faulty = write("u.csv", CSV.replace("5,16,40", "5,red,40"))
    assert "u.csv, line 6, column 'b': 'red' is no number" in refusal(faulty, schema=schema, test=faulty)
    assert "every record has a label of leave_out" in refusal(
        write("v.csv", "a,y\n1,9\n2,9\n"), schema={"label": "y", "leave_out": [9]}
    )
    svm = write("t.svm", "1 1:1\n")
    assert "data.schema.leave_out goes with csv files" in refusal(svm, schema={"leave_out": [9]}, features=1)
    assert records.left_out
    assert records.preprocessing == "data-dependent"  # the test file is the same, and would not make it so
    assert any("that was read from the rows, and no budget covers it" in note for note in records.notes)
    whole = write("w.csv", CSV.replace("10", "9").replace("-5", "5"))
    assert every(whole, schema=schema, test=path).preprocessing == "public-bounds"
