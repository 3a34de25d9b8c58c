"""Labels: two values, classes and real targets, as they are declared, asked for or written."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from admmnet.data import DataSettings, TargetRange, load, load_new
from admmnet.data.schema import parse_schema
from admmnet.errors import RequestError
from tests.data.conftest import Write, every, refusal

NAMES = ["b", "a", "c", "b", "c", "a"]
CSV = "x,y\n" + "".join(f"{k},{name}\n" for k, name in enumerate(NAMES))
CLASSES: dict[str, Any] = {"label": "y", "labels": ["a", "b", "c"]}
NUMBERS = np.array([1.0, 0.0, 2.0, 1.0, 2.0, 0.0])
VALUES = [0.0, 10.0, 2.5, -5.0, 40.0]
TARGETS = "a,b,y\n" + "".join(f"{k + 1},{k * k},{v:g}\n" for k, v in enumerate(VALUES))
CLIPPED = np.clip(VALUES, 0, 10)


@pytest.mark.parametrize(
    ("words", "how", "signs"),
    [
        (["1", "0", "1.0", "-0"], {}, [1, -1, 1, -1]),
        (["+1", "-1", "1", "-1.0"], {}, [1, -1, 1, -1]),
        (["no", "yes", "yes", "no"], {"schema": {"labels": ["no", "yes"]}}, [-1, 1, 1, -1]),
        (["no", "yes", "yes", "no"], {"schema": {"labels": ["no", "yes"]}, "positive": "no"}, [1, -1, -1, 1]),
        (
            ["No", "Y", "1", "no"],
            {"schema": {"labels": {"no": ["no", "No", "0"], "yes": ["Y", "1.0"]}}},
            [-1, 1, 1, -1],
        ),
        (["0", "10", "2.5", "40"], {"schema": {"threshold": 2.5}}, [-1, 1, -1, 1]),
        (["0", "10", "-2.5", "0"], {"schema": {"threshold": 0}}, [-1, 1, -1, -1]),
    ],
)
def test_two_classes(words: list[str], how: dict[str, Any], signs: list[int], write: Write) -> None:
    path = write("t.csv", "x,y\n" + "".join(f"{k},{word}\n" for k, word in enumerate(words)))
    records = every(path, label="y", test=path, **how)
    np.testing.assert_array_equal(records.y_test, signs)
    assert (records.task, records.classes, records.preprocessing) == ("binary", 2, "public-bounds")
    assert records.target is None
    if "threshold" in how.get("schema", {}):
        assert records.labels == tuple(f"{side} {how['schema']['threshold']:g}" for side in ("at most", "above"))


def test_the_negative_value_is_read_from_the_rows_where_the_positive_one_alone_is_named(write: Write) -> None:
    path = write("t.csv", "a,y\n1,no\n2,yes\n3,yes\n4,no\n")
    records = every(path, label="y", positive="yes", test=path)
    np.testing.assert_array_equal(records.y_test, [-1, 1, 1, -1])
    assert records.preprocessing == "data-dependent"
    assert any("negative label 'no'" in note for note in records.notes)
    other = write("u.csv", "a,y\n1,1.0\n2,+1\n3,2\n4,3\n")
    assert "line 5, column 'y': undeclared label '3'; the labels are '2' and '1'" in refusal(
        other, label="y", positive="1"
    )
    assert "no row has the label 'si'" in refusal(path, label="y", positive="si")
    assert "every row has the label '1'" in refusal(write("v.csv", "a,y\n1,1.0\n2,+1\n"), label="y", positive="1")
    assert "line 3, column 'y': the label is missing" in refusal(
        write("w.csv", "a,y\n1,1\n2,?\n"), label="y", positive="1"
    )
    declared: dict[str, Any] = {"label": "y", "schema": {"labels": ["no", "yes"]}}
    assert "--positive si is none of the declared labels" in refusal(path, positive="si", **declared)
    assert "--positive b goes with two labels, and 3 are declared" in refusal(
        write("c.csv", CSV), schema=CLASSES, positive="b"
    )


def test_classes_are_numbered_in_the_order_of_their_declaration(write: Write) -> None:
    path = write("t.csv", CSV)
    records = every(path, schema=CLASSES, test=path, task="classes")
    assert (records.task, records.classes, records.labels) == ("classes", 3, ("a", "b", "c"))
    assert (records.preprocessing, records.target) == ("public-bounds", None)
    np.testing.assert_array_equal(records.y_test, NUMBERS)
    turned = every(path, schema=CLASSES | {"labels": ["c", "b", "a"]}, test=path)
    np.testing.assert_array_equal(turned.y_test, 2.0 - NUMBERS)
    faulty = write("u.csv", CSV + "9,d\n")
    assert "line 8, column 'y': undeclared label 'd'; the labels are 'a', 'b', 'c'" in refusal(faulty, schema=CLASSES)
    two = write("v.csv", "x,y\n1,a\n2,b\n")
    assert "2 label values, 'a', 'b'; --task classes is for 3 to 1000" in refusal(two, label="y", task="classes")


def test_files_of_one_agent_each_may_lack_classes(write: Write) -> None:
    write("own-1.csv", "x,y\n1,b\n2,c\n")
    pattern = write("own-0.csv", "x,y\n1,a\n2,a\n").replace("own-0.csv", "own-{agent}.csv")
    schema = CLASSES | {"columns": {"x": {"kind": "numeric", "low": 0, "high": 9}}}
    records = load(DataSettings(data=pattern, schema=schema, no_test=True), 2, [0, 1])
    assert records.classes == 3
    np.testing.assert_array_equal(records.shards[0][1], [0.0, 0.0])
    np.testing.assert_array_equal(records.shards[1][1], [1.0, 2.0])


@pytest.mark.parametrize(
    ("schema", "values", "expected"),
    [
        ({"labels": [0, 1, 2]}, [1.0, 0.0, 2.0, 1.0, 2.0, 0.0], NUMBERS),
        ({"targets": [0, 10]}, VALUES, (CLIPPED - 5) / 5),
        ({"targets": [0, 10], "centre": 2}, VALUES, (CLIPPED - 2) / 8),
        ({"targets": [0, 10], "centre": 9}, VALUES, (CLIPPED - 9) / 9),
    ],
)
def test_every_form_of_file_has_classes_and_targets(
    schema: dict[str, Any], values: list[float], expected: Any, write: Write
) -> None:
    csv = write("t.csv", "a,b,y\n" + "".join(f"{k},1,{y:g}\n" for k, y in enumerate(values)))
    svm = write("t.svm", "".join(f"{y:g} 1:{k} 2:1\n" for k, y in enumerate(values)))
    npz = csv.replace(".csv", ".npz")
    np.savez(npz, X=np.ones((len(values), 2)), y=values)
    for path, share in ((csv, 0.0), (npz, 0.0), (svm, 0.0), (svm, 1.0)):
        form: dict[str, Any] = {"label": "y"} if path == csv else {"features": 2}
        records = load(DataSettings(data=path, schema=schema, test=path, **form), 1, [0], sparse=share)
        for y in (records.y_test, records.shards[0][1]):
            np.testing.assert_allclose(y, expected, rtol=0, atol=1e-15)
            assert "labels" in schema or np.abs(y).max() <= 1.0
        assert records.task == ("classes" if "labels" in schema else "real")
        assert records.preprocessing == "public-bounds"
        if records.target is not None:
            np.testing.assert_allclose(records.target.unscaled(records.y_test), CLIPPED, rtol=0, atol=1e-15)


def test_a_task_is_asked_for_where_labels_leave_it_open(write: Write) -> None:
    path = write("digits.svm", "".join(f"{k} 1:{k + 1}\n" for k in range(11)))
    assert "labels = [a, b, c]" in refusal(path, features=1)
    classes = every(path, features=1, task="classes", test=path)
    assert classes.labels == tuple(str(k) for k in range(11))  # by size, not as words
    assert classes.preprocessing == "data-dependent"
    assert parse_schema(classes.encoding).task == "classes"
    real = every(path, features=1, task="real", test=path)
    assert (real.target, real.task, real.classes) == (TargetRange(0.0, 10.0, 5.0), "real", 0)
    assert real.preprocessing == "data-dependent"
    again = load_new(DataSettings(data=path, schema=real.encoding or {}), real.feature_names)
    np.testing.assert_array_equal(again.y_test, real.y_test)
    alike = write("one.csv", "a,y\n1,3\n2,3.0\n")
    assert "every target is the same" in refusal(alike, label="y", task="real")


def test_a_centre_is_public_or_the_mean_of_the_training_records(write: Write) -> None:
    path = write("t.csv", TARGETS)
    schema: dict[str, Any] = {"label": "y", "targets": [0, 10]}
    public: list[dict[str, Any]] = [{"centre": 2.0}, {"centre": "2"}, {"schema": schema | {"centre": 2}}]
    for others in public:
        records = every(path, test=path, **{"schema": schema, **others})
        assert (records.target, records.preprocessing) == (TargetRange(0, 10, 2), "public-bounds")
        assert any("targets are centred at 2, a public number" in note for note in records.notes)
    assert "--centre must lie in the range of the targets, 0 to 10, got 11" in refusal(path, schema=schema, centre=11.0)
    mean = every(path, schema=schema, test_fraction=0.4, centre="mean")
    assert mean.target is not None
    held = mean.target.unscaled(mean.shards[0][1])
    assert mean.target.centre == pytest.approx(np.mean(held), rel=1e-12)
    assert (mean.target.low, mean.target.high) == (0, 10)
    assert mean.preprocessing == "data-dependent"
    assert any("mean of the targets" in note for note in mean.notes)
    assert mean.encoding is not None
    request = DataSettings(data=path, schema=mean.encoding, centre="mean", test_fraction=0.4)
    new = load_new(request, mean.feature_names, part="test")
    np.testing.assert_array_equal(new.y_test, mean.y_test)
    assert (new.target, new.task) == (mean.target, "real")
    with pytest.raises(RequestError, match="--centre mean would be read from the rows"):
        load_new(request.changed(schema=schema), mean.feature_names)
    assert "--split dirichlet:1 deals by class" in refusal(path, schema=schema, split="dirichlet:1")
    assert "is not finite" in refusal(write("u.svm", "1 1:1\nnan 1:1\n"), features=1, schema={"targets": [0, 1]})
    classes: list[dict[str, Any]] = [{"centre": 1.0}, {"schema": {"label": "y", "threshold": 3, "centre": 1.0}}]
    for others in classes:
        given = {"schema": {"label": "y", "threshold": 3}, **others}
        assert "--centre goes with real targets" in refusal(path, **given)


def test_records_that_are_left_out(write: Write) -> None:
    path = write("t.csv", TARGETS)
    schema = {"label": "y", "threshold": 2.5, "leave_out": ["10.0", -5]}
    records = every(path, schema=schema, test=path)
    np.testing.assert_array_equal(records.y_test, [-1, -1, 1])
    np.testing.assert_allclose((records.X_test / records.X_test[:, -1:])[:, 0], [1, 3, 5])
    assert records.left_out
    assert records.preprocessing == "data-dependent"
    assert any("that was read from the rows, and no budget covers it" in note for note in records.notes)
    whole = write("w.csv", TARGETS.replace("10", "9").replace("-5", "5"))
    assert every(whole, schema=schema, test=path).preprocessing == "public-bounds"  # of a test file nothing is said
    faulty = write("u.csv", TARGETS.replace("5,16,40", "5,red,40"))
    assert "u.csv, line 6, column 'b': 'red' is no number" in refusal(faulty, schema=schema, test=faulty)
    nobody = write("v.csv", "a,y\n1,9\n2,9\n")
    assert "every record has a label of leave_out" in refusal(nobody, schema={"label": "y", "leave_out": [9]})
