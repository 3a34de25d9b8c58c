"""Three classes or more, and labels whose task nothing declares."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from admmnet.data import DataSettings, TargetRange, load, load_new
from admmnet.data.schema import parse_schema
from admmnet.errors import DataError, RequestError
from tests.data.conftest import Write, every, refusal
from tests.data.test_data_sets import small_mnist

NAMES = ["b", "a", "c", "b", "c", "a"]
CSV = "x,y\n" + "".join(f"{k},{name}\n" for k, name in enumerate(NAMES))
SCHEMA = {"label": "y", "labels": ["a", "b", "c"]}
NUMBERS = [1.0, 0.0, 2.0, 1.0, 2.0, 0.0]


def test_declared_labels_are_numbered_in_their_order(write: Write) -> None:
    path = write("t.csv", CSV)
    records = every(path, schema=SCHEMA, test=path)
    assert (records.task, records.classes, records.labels) == ("classes", 3, ("a", "b", "c"))
    assert (records.preprocessing, records.target) == ("public-bounds", None)
    np.testing.assert_array_equal(records.y_test, NUMBERS)
    turned = every(path, schema=SCHEMA | {"labels": ["c", "b", "a"]}, test=path)
    np.testing.assert_array_equal(turned.y_test, 2.0 - np.array(NUMBERS))


def test_two_declared_labels_stay_signs(write: Write) -> None:
    path = write("t.csv", "x,y\n1,a\n2,b\n")
    records = every(path, schema=SCHEMA | {"labels": ["b", "a"]}, test=path)
    assert (records.task, records.classes, records.labels) == ("binary", 2, ("b", "a"))
    np.testing.assert_array_equal(records.y_test, [1.0, -1.0])


@pytest.mark.parametrize(
    ("schema", "values", "expected"),
    [
        ({"labels": [0, 1, 2]}, [1, 0, 2, 1, 2, 0], NUMBERS),
        ({"targets": [0, 10]}, [0.0, 10.0, 2.5, -5.0, 40.0], [-1, 1, -0.5, -1, 1]),
    ],
)
def test_every_form_of_file_has_classes_and_targets(
    schema: dict[str, Any], values: list[float], expected: list[float], write: Write, tmp_path: Path
) -> None:
    np.savez(tmp_path / "t.npz", X=np.ones((len(values), 2)), y=values)
    svm = write("t.svm", "".join(f"{y:g} 1:{k} 2:1\n" for k, y in enumerate(values)))
    for path, share in ((str(tmp_path / "t.npz"), 0.0), (svm, 0.0), (svm, 1.0)):
        records = load(DataSettings(data=path, features=2, schema=schema, test=path), 1, [0], sparse=share)
        for y in (records.y_test, records.shards[0][1]):
            np.testing.assert_allclose(y, expected, rtol=0, atol=1e-15)
        assert records.task == ("classes" if "labels" in schema else "real")
        assert records.labels == (("0", "1", "2") if "labels" in schema else records.labels)


def test_a_task_is_asked_for_where_labels_leave_it_open(tmp_path: Path) -> None:
    path = str(tmp_path / "digits.npz")
    np.savez(path, X=np.arange(1.0, 12.0)[:, None], y=np.arange(11))
    assert "labels = [a, b, c]" in refusal(path, features=1)
    classes = every(path, features=1, task="classes", test=path)
    assert classes.labels == tuple(str(k) for k in range(11))  # by size, not as words
    assert classes.preprocessing == "data-dependent"
    assert classes.encoding is not None
    assert parse_schema(classes.encoding).task == "classes"
    real = every(path, features=1, task="real", test=path)
    assert (real.target, real.task, real.classes) == (TargetRange(0.0, 10.0, 5.0), "real", 0)
    assert real.preprocessing == "data-dependent"
    again = load_new(DataSettings(data=path, schema=real.encoding or {}), real.feature_names)
    np.testing.assert_array_equal(again.y_test, real.y_test)


def test_a_task_against_the_declaration_is_refused(write: Write) -> None:
    path = write("t.csv", CSV)
    assert "--task real contradicts [data.schema], which declares 3 classes" in refusal(
        path, schema=SCHEMA, task="real"
    )
    assert "--task classes does not go with 'census', whose labels are two classes" in refusal("census", task="classes")
    assert "--positive b goes with two classes, not with --task classes" in refusal(
        path, label="y", task="classes", positive="b"
    )
    assert "--positive b goes with two labels, and 3 are declared" in refusal(
        path, schema=SCHEMA, positive="b", test=path
    )
    assert every(path, schema=SCHEMA, task="classes", test=path).classes == 3


def test_faults_of_classes_name_row_and_values(write: Write) -> None:
    path = write("t.csv", CSV + "9,d\n")
    with pytest.raises(DataError, match="line 8, column 'y': undeclared label 'd'; the labels are 'a', 'b', 'c'"):
        every(path, schema=SCHEMA, test=path)
    assert "labels must be different values" in refusal(path, schema=SCHEMA | {"labels": [1, "1.0", 2]})
    two = write("u.csv", "x,y\n1,a\n2,b\n")
    with pytest.raises(DataError, match="2 label values, 'a', 'b'; --task classes is for 3 to 1000"):
        every(two, label="y", task="classes", test=two)


def test_files_of_one_agent_each_may_lack_classes(write: Write) -> None:
    write("own-1.csv", "x,y\n1,b\n2,c\n")
    pattern = write("own-0.csv", "x,y\n1,a\n2,a\n").replace("own-0.csv", "own-{agent}.csv")
    schema = SCHEMA | {"columns": {"x": {"kind": "numeric", "low": 0, "high": 9}}}
    settings = DataSettings(data=pattern, schema=schema, no_test=True)
    records = load(settings, 2, [0, 1])
    assert records.classes == 3
    np.testing.assert_array_equal(records.shards[0][1], [0.0, 0.0])
    np.testing.assert_array_equal(records.shards[1][1], [1.0, 2.0])
    open_ = {key: value for key, value in schema.items() if key != "labels"}
    with pytest.raises(RequestError, match=r"--task classes leaves the labels.*declare labels = \[\.\.\.\]"):
        load(DataSettings(data=pattern, schema=open_, task="classes", no_test=True), 2, [0])


def test_all_ten_digits(tmp_path: Path) -> None:
    mnist = small_mnist(tmp_path)
    records = load(DataSettings(data="mnist", data_dir=mnist, test="official"), 2, [0, 1])
    assert (records.classes, records.labels) == (10, tuple("0123456789"))
    one = load(DataSettings(data="mnist:3", data_dir=mnist, test="official"), 2, [0, 1])
    np.testing.assert_array_equal(records.y_test == 3.0, one.y_test == 1.0)
    np.testing.assert_array_equal(records.X_test, one.X_test)
