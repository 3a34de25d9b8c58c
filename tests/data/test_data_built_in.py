"""adult, census and phishing: shapes, shares, errors, and that nothing is fitted."""

from __future__ import annotations

import hashlib
import io
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace
from scipy.optimize import minimize

from admmnet.data import DataSettings, Records, load, sets, validate
from admmnet.data.files import content_digest
from admmnet.data.rows import INTERCEPT
from admmnet.data.sources import read_source
from admmnet.errors import MissingDataError, RequestError
from admmnet.types import Matrix, Vector
from tests.data.conftest import Write, below, every
from tests.real_sets import folder_of, need


def logistic(X: Matrix, y: Vector, regularisation: float) -> Vector:
    def value(theta: Vector) -> tuple[float, Vector]:
        margin = y * (X @ theta)
        slope = -y / (1 + np.exp(np.clip(margin, -500, 500)))
        loss = float(np.mean(np.logaddexp(0, -margin))) + regularisation / 2 * float(theta @ theta)
        return loss, X.T @ slope / len(y) + regularisation * theta

    theta: Vector = minimize(value, np.zeros(X.shape[1]), jac=True, method="L-BFGS-B", options={"maxiter": 80}).x
    return theta


def error(records: Records, theta: Vector) -> float:
    return float(np.mean(np.where(records.X_test @ theta >= 0, 1, -1) != records.y_test))


@pytest.mark.parametrize(("name", "width"), [("adult", 82), ("census", 109)])
def test_shape_of_the_two_census_sets(name: str, width: int) -> None:
    records = load(DataSettings(data=name, data_dir=folder_of(name), split="iid"), 5, [1, 3])
    assert records.name == name
    assert list(records.shards) == [1, 3]
    assert records.counts == dict.fromkeys(range(5), 7000)
    assert len(records.feature_names) == len(set(records.feature_names)) == width
    assert records.feature_names[-1] == INTERCEPT
    assert records.preprocessing == "public-bounds"
    assert any("public" in note for note in records.notes)
    assert records.X_test.shape == (13_842, width)
    for X, y in [*records.shards.values(), (records.X_test, records.y_test)]:
        assert X.shape == (len(y), width)
        assert X.dtype == y.dtype == np.float64
        assert X.flags.c_contiguous
        assert set(np.unique(y)) == {-1.0, 1.0}
        np.testing.assert_allclose(np.linalg.norm(X, axis=1), 1, rtol=0, atol=1e-14)
        assert np.all(X[:, -1] > 0)


@pytest.mark.parametrize(("name", "expected"), [("census", 0.147), ("adult", 0.150)])
def test_pooled_error_without_privacy(name: str, expected: float) -> None:
    records = every(name, data_dir=folder_of(name))
    X, y = records.shards[0]
    assert np.mean(y > 0) == pytest.approx(0.24, abs=0.005)
    assert error(records, logistic(X, y, 1e-4)) == pytest.approx(expected, abs=0.006)
    assert any("synthetic" in note for note in records.notes) is (name == "census")


def test_adult_official_split() -> None:
    records = every("adult", 2, data_dir=need("adult"), test="official")
    assert records.counts == {0: 16_281, 1: 16_280}
    assert len(records.y_test) == 16_281
    assert np.sum(records.y_test > 0) == 3846
    assert sum(int(np.sum(y > 0)) for _, y in records.shards.values()) == 7841


def test_census_is_the_same_everywhere() -> None:
    source = read_source(DataSettings())
    digest = hashlib.sha256()
    for name in ("age", "gain", "occupation", "birthplace", "income"):
        column = source.table.column(name)
        digest.update("\n".join(column.levels[code] for code in column.codes).encode())
    assert digest.hexdigest()[:16] == "a38e5dae930fcc5e"


def test_phishing() -> None:
    folder = need("phishing")
    records = load(DataSettings(data="phishing", data_dir=folder), 3, [2])
    assert records.X_test.shape == (2764, 69)
    assert sum(records.counts.values()) == 8291
    assert records.preprocessing == "public-bounds"
    assert any("5,849" in note for note in records.notes)
    everyone = every("phishing", 1, data_dir=folder)
    positive = np.sum(everyone.shards[0][1] > 0) + np.sum(everyone.y_test > 0)
    assert positive == 6157


@pytest.mark.parametrize("name", ["census", "phishing"])
def test_a_rank_alone_gets_what_it_gets_among_others(name: str) -> None:
    folder = folder_of(name)
    everyone = every(name, 4, data_dir=folder, data_seed=4)
    alone = load(DataSettings(data=name, data_dir=folder, data_seed=4), 4, [2])
    np.testing.assert_array_equal(alone.shards[2][0], everyone.shards[2][0])
    np.testing.assert_array_equal(alone.shards[2][1], everyone.shards[2][1])
    np.testing.assert_array_equal(alone.X_test, everyone.X_test)
    other = load(DataSettings(data=name, data_dir=folder, data_seed=5), 4, [2])
    assert not np.array_equal(alone.y_test, other.y_test)


ROWS = [
    "39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, Male, 2174, 0, "
    "40, United-States, <=50K",
    "50, ?, 83311, HS-grad, 9, Divorced, ?, Wife, Black, Female, 0, 1902, 13, ?, >50K",
    "17, Private, 1, 11th, 7, Never-married, Sales, Own-child, White, Male, 0, 0, 20, Mexico, <=50K",
    "90, Private, 1, Masters, 14, Widowed, Sales, Unmarried, Other, Male, 99999, 0, 99, Hong, >50K",
]


def small_adult(write: Write, rows: list[str], tests: list[str]) -> str:
    write("adult/adult.data", "\n".join(rows) + "\n\n")
    path = write("adult/adult.test.gz", "|1x3 Cross validator\n" + "\n".join(f"{row}." for row in tests) + "\n\n")
    return below(path)


def test_adult_encoding_of_a_row(write: Write) -> None:
    records = every("adult", 1, data_dir=small_adult(write, ROWS, ROWS), test="official")
    row = dict(zip(records.feature_names, records.X_test[1] / records.X_test[1, -1], strict=True))
    present = {name for name, value in row.items() if value != 0}
    assert {
        "workclass=?",
        "native-country=?",
        "any-loss=[1,inf)",
        "age=[45,55)",
        "hours-per-week=[1,35)",
        "education-num=9",
        INTERCEPT,
    } <= present
    assert all(row[name] == pytest.approx(1.0) for name in present - {"capital-loss"})
    assert 0 < row["capital-loss"] < 1
    assert row["capital-gain"] == row["any-gain=[1,inf)"] == 0
    assert not any(name.startswith(("fnlwgt", "education=")) for name in records.feature_names)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("Female", "Alien", "line 3, column 'sex': undeclared category 'Alien'"),
        ("39, ", "nan, ", "line 2, column 'age': 'nan' is not finite"),
        ("39, ", "", "line 2: 14 values, expected 15"),
    ],
)
def test_adult_rows_outside_the_code_book(old: str, new: str, words: str, write: Write) -> None:
    changed = [row.replace(old, new) for row in ROWS[:2]]
    for rows, tests, file in ((changed[:1] + changed, ROWS, "adult.data"), (ROWS, changed, "adult.test.gz")):
        with pytest.raises(RequestError, match=rf"{file}.*{words}" if rows is ROWS else file):
            every("adult", 1, data_dir=small_adult(write, rows, tests), test="official")


@pytest.mark.parametrize("name", ["adult", "phishing", "kddcup99", "mnist:0", "year-prediction-msd", "ipums:a.csv"])
def test_a_set_that_is_not_there_says_what_to_do(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for folder in (str(tmp_path / "data"), None):
        if folder is None and name == "adult":
            monkeypatch.setenv("ADMMNET_DATA", str(tmp_path))
        settings = DataSettings(data=name, data_dir=folder)
        for check in (validate, lambda s: load(s, 2, [0])):
            with pytest.raises(MissingDataError, match=r"there is n.* get it from .*pass --data-dir DIR"):
                check(settings)


def test_a_set_in_the_folder_of_the_variable(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADMMNET_DATA", small_adult(write, ROWS, ROWS))
    assert load(DataSettings(data="adult", test="official"), 2, [0]).counts == {0: 2, 1: 2}


class Net:
    """Stands for urllib: counts the calls and answers with fixed bytes or a fault."""

    def __init__(self, answer: dict[str, bytes] | OSError) -> None:
        self.answer = answer
        self.calls: list[str] = []

    def __call__(self, url: str, timeout: float) -> io.BytesIO:
        self.calls.append(url)
        if isinstance(self.answer, OSError):
            raise self.answer
        return io.BytesIO(self.answer[url.rsplit("/", 1)[1]])


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_downloads_of_adult_are_checked_against_the_real_files() -> None:
    folder = Path(need("adult/adult.data.gz", "adult/adult.test.gz"))
    expected = sets.KNOWN["adult"].sha256
    assert {name: content_digest(folder / f"{name}.gz") for name in expected} == expected


def test_one_download_to_the_cache(empty_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("adult.data", "adult.test")
    content = "\n".join(ROWS).encode()
    digests = {f"adult/{name}": hashlib.sha256(content).hexdigest() for name in names}
    monkeypatch.setitem(sets.KNOWN, "adult", replace(sets.KNOWN["adult"], sha256=digests))
    net = Net(dict.fromkeys(names, content))
    monkeypatch.setattr("urllib.request.urlopen", net)
    validate(DataSettings(data="adult"))
    assert net.calls == []
    for _ in range(2):
        load(DataSettings(data="adult"), 2, [0])
    assert [url.rsplit("/", 1)[1] for url in net.calls] == list(names)
    assert sorted(path.name for path in (empty_cache / "admmnet" / "adult").iterdir()) == list(names)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (OSError("no route"), r"could not be downloaded from https.*no route.*pass --data-dir DIR"),
        ({"adult.data": b"other", "adult.test": b"other"}, r"expected 5b00264637dbfec3.*not kept; pass"),
    ],
)
def test_download_that_fails(
    answer: dict[str, bytes] | OSError, words: str, empty_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("urllib.request.urlopen", Net(answer))
    with pytest.raises(RequestError, match=words):
        load(DataSettings(data="adult"), 5, [0])
    assert not empty_cache.exists()
