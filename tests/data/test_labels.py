"""Labels as they are declared, asked for or written; figures of models on them are those of scikit-learn."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.special import expit, softmax
from sklearn import metrics

from admmnet.data import DataSettings, Records, load
from admmnet.data import figures as own
from admmnet.data.loading import load_new
from admmnet.data.records import TargetRange
from admmnet.data.schema import parse_schema
from admmnet.errors import RequestError
from tests.data.conftest import Write, every, refusal

NAMES = ["b", "a", "c", "b", "c", "a"]
CLASSES: dict[str, Any] = {"labels": ["a", "b", "c"]}
SPELT = {"labels": {"no": ["no", "No", "0"], "yes": ["Y", "1.0"]}}
WORDS = ["no", "yes", "yes", "no"]
TWO = {"labels": ["no", "yes"]}
DIGITS = [str(k) for k in range(11)]
VALUES = [0.0, 10.0, 2.5, -5.0, 40.0]
RANGE: dict[str, Any] = {"targets": [0, 10]}
CLIPPED = np.clip(VALUES, 0, 10)


def csv(labels: list[Any]) -> str:
    return "x,y\n" + "".join(f"{k + 1},{label}\n" for k, label in enumerate(labels))


@pytest.mark.parametrize(
    ("labels", "how", "expected"),
    [
        (["1", "0", "1.0", "-0"], {}, [1, -1, 1, -1]),
        (["+1", "-1", "1", "-1.0"], {}, [1, -1, 1, -1]),
        (WORDS, {"schema": TWO}, [-1, 1, 1, -1]),
        (WORDS, {"schema": TWO, "positive": "no"}, [1, -1, -1, 1]),
        (["No", "Y", "1", "no"], {"schema": SPELT}, [-1, 1, 1, -1]),
        (["0", "10", "2.5", "40"], {"schema": {"threshold": 2.5}}, [-1, 1, -1, 1]),
        (["0", "10", "-2.5", "0"], {"schema": {"threshold": 0}}, [-1, 1, -1, -1]),
        (NAMES, {"schema": CLASSES, "task": "classes"}, [1, 0, 2, 1, 2, 0]),
        (NAMES, {"schema": {"labels": ["c", "b", "a"]}}, [1, 2, 0, 1, 0, 2]),
    ],
)
def test_declared_labels(labels: list[str], how: dict[str, Any], expected: list[int], write: Write) -> None:
    path = write("t.csv", csv(labels))
    records = every(path, label="y", test=path, **how)
    np.testing.assert_array_equal(records.y_test, expected)
    kind = ("classes", 3) if labels is NAMES else ("binary", 2)
    assert (records.task, records.classes, records.preprocessing, records.target) == (*kind, "public-bounds", None)


@pytest.mark.parametrize(
    ("labels", "how", "words"),
    [
        (["1.0", "+1", "2", "3"], {"positive": "1"}, "line 5, column 'y': undeclared label '3'; the labels are '2'"),
        (WORDS, {"positive": "si"}, "no row has the label 'si'"),
        (["1.0", "+1"], {"positive": "1"}, "every row has the label '1'"),
        (["1", "?"], {"positive": "1"}, "line 3, column 'y': the label is missing"),
        (WORDS, {"positive": "si", "schema": TWO}, "--positive si is none of the declared labels"),
        (NAMES, {"positive": "b", "schema": CLASSES}, "--positive b goes with two labels, and 3 are declared"),
        ([*NAMES, "d"], {"schema": CLASSES}, "line 8, column 'y': undeclared label 'd'; the labels are 'a', 'b', 'c'"),
        (["a", "b"], {"task": "classes"}, "2 label values, 'a', 'b'; --task classes is for 3 to 1000"),
        (DIGITS, {}, "labels = [a, b, c]"),
        (["3", "3.0"], {"task": "real"}, "every target is the same"),
        (["1", "nan"], {"schema": RANGE}, "is not finite"),
        (VALUES, {"schema": RANGE, "centre": "11"}, "--centre must lie in the range of the targets, 0 to 10, got 11"),
        (VALUES, {"schema": RANGE, "split": "dirichlet:1"}, "--split dirichlet:1 deals by class"),
        (VALUES, {"schema": {"threshold": 3}, "centre": "1"}, "--centre goes with real targets"),
        (VALUES, {"schema": {"threshold": 3, "centre": 1.0}}, "--centre goes with real targets"),
        (["9", "9"], {"schema": {"leave_out": [9]}}, "every record has a label of leave_out"),
    ],
)
def test_labels_that_are_refused(labels: list[Any], how: dict[str, Any], words: str, write: Write) -> None:
    assert words in refusal(write("t.csv", csv(labels)), label="y", **how)


@pytest.mark.parametrize(
    ("schema", "values", "expected"),
    [
        ({"labels": [0, 1, 2]}, [1.0, 0.0, 2.0, 1.0, 2.0, 0.0], [1.0, 0.0, 2.0, 1.0, 2.0, 0.0]),
        (RANGE, VALUES, (CLIPPED - 5) / 5),
        (RANGE | {"centre": 2}, VALUES, (CLIPPED - 2) / 8),
        (RANGE | {"centre": 9}, VALUES, (CLIPPED - 9) / 9),
    ],
)
def test_every_form_of_file_has_classes_and_targets(
    schema: dict[str, Any], values: list[float], expected: Any, write: Write
) -> None:
    table = write("t.csv", csv(values))
    svm = write("t.svm", "".join(f"{y:g} 1:{k + 1}\n" for k, y in enumerate(values)))
    npz = table.replace(".csv", ".npz")
    np.savez(npz, X=np.ones((len(values), 1)), y=values)
    for path, share in ((table, 0.0), (npz, 0.0), (svm, 0.0), (svm, 1.0)):
        form: dict[str, Any] = {"label": "y"} if path == table else {"features": 1}
        records = load(DataSettings(data=path, schema=schema, test=path, **form), 1, [0], sparse=share)
        for y in (records.y_test, records.shards[0][1]):
            np.testing.assert_allclose(y, expected, rtol=0, atol=1e-15)
        assert records.task == ("classes" if "labels" in schema else "real")
        assert records.preprocessing == "public-bounds"
        if records.target is not None:
            np.testing.assert_allclose(records.target.unscaled(records.y_test), CLIPPED, rtol=0, atol=1e-15)


def test_a_task_is_asked_for_where_labels_leave_it_open(write: Write) -> None:
    path = write("digits.svm", "".join(f"{k} 1:{k + 1}\n" for k in range(11)))
    classes = every(path, features=1, task="classes", test=path)
    assert classes.labels == tuple(DIGITS)  # by size, not as words
    assert classes.preprocessing == "data-dependent"
    assert parse_schema(classes.encoding).task == "classes"
    real = every(path, features=1, task="real", test=path)
    assert (real.target, real.task, real.classes) == (TargetRange(0.0, 10.0, 5.0), "real", 0)
    assert real.preprocessing == "data-dependent"
    again = load_new(DataSettings(data=path, schema=real.encoding or {}), real.feature_names)
    np.testing.assert_array_equal(again.y_test, real.y_test)


def test_a_centre_is_public_or_the_mean_of_the_training_records(write: Write) -> None:
    path, schema = write("t.csv", csv(VALUES)), {"label": "y", **RANGE}
    public: list[dict[str, Any]] = [{"centre": 2.0}, {"centre": "2"}, {"schema": schema | {"centre": 2}}]
    for others in public:
        records = every(path, test=path, **{"schema": schema, **others})
        assert (records.target, records.preprocessing) == (TargetRange(0, 10, 2), "public-bounds")
        assert any("targets are centred at 2, a public number" in note for note in records.notes)
    mean = every(path, schema=schema, test_fraction=0.4, centre="mean")
    assert mean.target is not None
    held = mean.target.unscaled(mean.shards[0][1])
    assert mean.target.centre == pytest.approx(np.mean(held), rel=1e-12)
    assert (mean.target.low, mean.target.high) == (0, 10)
    assert mean.preprocessing == "data-dependent"
    assert any("mean of the targets" in note for note in mean.notes)
    request = DataSettings(data=path, schema=mean.encoding or {}, centre="mean", test_fraction=0.4)
    new = load_new(request, mean.feature_names, part="test")
    np.testing.assert_array_equal(new.y_test, mean.y_test)
    assert new.target == mean.target
    with pytest.raises(RequestError, match="--centre mean would be read from the rows"):
        load_new(request.changed(schema=schema), mean.feature_names)


def test_records_that_are_left_out(write: Write) -> None:
    path = write("t.csv", csv(VALUES))
    schema = {"label": "y", "threshold": 2.5, "leave_out": ["10.0", -5]}
    records = every(path, schema=schema, test=path)
    assert records.labels == ("at most 2.5", "above 2.5")
    np.testing.assert_array_equal(records.y_test, [-1, -1, 1])
    np.testing.assert_allclose((records.X_test / records.X_test[:, -1:])[:, 0], [1, 3, 5])
    assert records.left_out
    assert records.preprocessing == "data-dependent"
    assert any("that was read from the rows, and no budget covers it" in note for note in records.notes)
    whole = write("w.csv", csv([0, 9, 2.5, 5, 40]))
    assert every(whole, schema=schema, test=path).preprocessing == "public-bounds"  # of a test file nothing is said
    faulty = write("u.csv", csv(VALUES).replace("5,40", "red,40"))
    assert "u.csv, line 6, column 'x': 'red' is no number" in refusal(faulty, schema=schema, test=faulty)


RNG = np.random.default_rng(3)
X = RNG.standard_normal((200, 4))
THETA = RNG.standard_normal((5, 4))
SIGNS = np.where(X[:, 0] + RNG.standard_normal(200) > 0.4, 1.0, -1.0)
CLASS_OF = np.digitize(X[:, 0] + RNG.standard_normal(200), [-0.5, 1.0]).astype(float)
WIDE = RNG.standard_normal((5, 12))
"""Models of five agents, of two classes and of three."""


def test_two_classes() -> None:
    records = Records("r", {}, {}, X, SIGNS, ("a", "b", "c", "d"), "public-bounds")
    score = own.scores(X, THETA[0], 2)
    np.testing.assert_allclose(score, X @ THETA[0])
    said = own.decided("binary", score)
    error = own.figure("binary", score, SIGNS)
    assert error == pytest.approx(1.0 - metrics.accuracy_score(SIGNS, said))
    np.testing.assert_allclose(own.test_errors(records, THETA), [own.figure("binary", X @ one, SIGNS) for one in THETA])
    assert own.test_errors(records, THETA[:1])[0] == error
    np.testing.assert_allclose(own.probabilities(score), expit(score), rtol=1e-12)
    assert own.probabilities(np.array([-1e5, 1e5])).tolist() == [0.0, 1.0]
    loss = metrics.log_loss(SIGNS, expit(score))
    assert -own.log_probability(score, SIGNS).mean() == pytest.approx(loss, rel=1e-9)
    names = ("true_negative", "false_positive", "false_negative", "true_positive")
    counts = metrics.confusion_matrix(SIGNS, said).ravel().tolist()
    assert own.confusion("binary", score, SIGNS) == dict(zip(names, counts, strict=True))
    assert own.constant_figure("binary", SIGNS) == min(np.mean(SIGNS > 0), np.mean(SIGNS < 0))
    assert own.further_figures(records, THETA[0]) == {}
    assert [own.only_class("binary", one * np.ones(3), ("no", "yes")) for one in (1, -1, 0)] == ["yes", "no", "no"]
    assert own.only_class("binary", score, ("no", "yes")) is own.only_class("binary", score[:0], ("no", "yes")) is None


def test_three_classes() -> None:
    labels = ("a", "b", "c")
    records = Records("r", {}, {}, X, CLASS_OF, ("a", "b", "c", "d"), "public-bounds", labels=labels)
    score = own.scores(X, WIDE[0], 3)
    np.testing.assert_allclose(score, X @ WIDE[0].reshape(3, 4).T)
    said = own.decided("classes", score)
    assert own.figure("classes", score, CLASS_OF) == pytest.approx(1.0 - metrics.accuracy_score(CLASS_OF, said))
    errors = [own.figure("classes", own.scores(X, one, 3), CLASS_OF) for one in WIDE]
    np.testing.assert_array_equal(own.test_errors(records, WIDE), errors)
    np.testing.assert_array_equal(own.test_errors(records, WIDE[[1, 1]]), errors[1])
    chances = softmax(score, axis=1)
    np.testing.assert_allclose(own.probabilities(score), chances, rtol=1e-12)
    loss = metrics.log_loss(CLASS_OF, chances)
    assert -own.log_probability(score, CLASS_OF).mean() == pytest.approx(loss, rel=1e-9)
    assert own.confusion("classes", score, CLASS_OF) == metrics.confusion_matrix(CLASS_OF, said).tolist()
    macro = 1.0 - metrics.balanced_accuracy_score(CLASS_OF, said)
    assert own.further_figures(records, WIDE[0]) == {"macro": pytest.approx(macro)}
    assert own.constant_figure("classes", CLASS_OF) == 1.0 - np.bincount(CLASS_OF.astype(int)).max() / 200
    assert own.only_class("classes", np.eye(3)[[1, 1]], labels) == "b"
    assert own.only_class("classes", np.eye(3), labels) is own.only_class("real", np.ones(3), labels) is None


def test_real_targets() -> None:
    y = np.clip(X[:, 0] / 4.0, -1.0, 1.0)
    records = Records("r", {}, {}, X, y, ("a", "b", "c", "d"), "public-bounds", target=TargetRange(0.0, 10.0, 4.0))
    score = own.scores(X, 0.1 * THETA[0], 0)
    square = metrics.mean_squared_error(y, score)
    assert own.figure("real", score, y) == pytest.approx(square, rel=1e-12)
    found = own.further_figures(records, 0.1 * THETA[0])
    expected = {"rmse": square**0.5, "r2": metrics.r2_score(y, score), "root_in_units": 6.0 * square**0.5}
    assert found == pytest.approx(expected, rel=1e-9)
    assert own.constant_figure("real", y) == pytest.approx(np.var(y))
    assert np.isnan(own.further_figures(replace(records, y_test=np.ones(len(X))), THETA[0])["r2"])
    nobody = replace(records, X_test=X[:0], y_test=y[:0])
    assert np.isnan(own.test_errors(nobody, THETA)).all()
    assert own.further_figures(nobody, THETA[0]) == {}
