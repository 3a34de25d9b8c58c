"""Named sets in small files of their own forms: what rows become, which are refused, where files are found."""

from __future__ import annotations

import gzip
import hashlib
import io
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from admmnet.data import DataSettings, load, sets
from admmnet.data.loading import load_new
from admmnet.data.rows import INTERCEPT
from admmnet.data.schema import to_table
from admmnet.data.sets.kddcup99 import COLUMNS
from admmnet.data.sources import read_source, validate
from admmnet.errors import MissingDataError, RequestError
from tests.command_runs import Admmnet
from tests.data.conftest import every, refusal
from tests.data.test_encoding import by_hand


def test_census_is_the_same_everywhere() -> None:
    source, digest = read_source(DataSettings()), hashlib.sha256()
    for name in source.table.names:
        column = source.table.column(name)
        digest.update("\n".join(column.levels[code] for code in column.codes).encode())
    assert digest.hexdigest()[:16] == "4d28ced6b9b9331b"


# small files of every set

ADULT = [
    "39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, Male, 2174, 0, "
    "40, United-States, <=50K",
    "50, ?, 83311, HS-grad, 9, Divorced, ?, Wife, Black, Female, 0, 1902, 13, ?, >50K",
    "17, Private, 1, 11th, 7, Never-married, Sales, Own-child, White, Male, 0, 0, 20, Mexico, <=50K",
    "90, Private, 1, Masters, 14, Widowed, Sales, Unmarried, Other, Male, 99999, 0, 99, Hong, >50K",
]


TRAIN = "-1 1:1 3:1\n+1 2:1\n-1 3:1\n"
TEST = "+1 1:1\n-1 123:1 # the last\n"


HEAD = "RT,SERIALNO,ST,PWGTP,AGEP,COW,MAR,RELP,SCHL,SEX,WKHP,OCCP,PINCP,POBP,RAC1P"
CALIFORNIA = [
    HEAD,
    "P,2018GQ1,06,00016,30,1,1,0,21,1,40,0440,50001,006,1",
    "P,2018GQ2,06,00016,16,1,5,2,12,2,20,4110,9000,303,8",  # not yet 17
    "P,2018GQ3,06,00016,70,,2,0,16,2,,,30000,006,1",  # does not work
    "P,2018GQ4,06,00016,45,2,1,1,24,2,36,2200,000100,210,6",  # 100 dollars
]
TEXAS = [HEAD, '"P","2018HU1","48","00090","45","9","3","17","01","2","99","9920","50000","554","9"']


def connection(**changes: str) -> str:
    usual = {"protocol_type": "tcp", "service": "http", "flag": "SF", "label": "normal."}
    return ",".join((dict.fromkeys((*COLUMNS, "label"), "0") | usual | changes).values())


ATTACK = connection(
    label="smurf.", protocol_type="icmp", service="ecr_i", src_bytes="1032", count="511", serror_rate="0.50",
    duration="100000",
)  # fmt: skip
CONNECTIONS = [connection(), ATTACK, connection(service="Z39_50", label="neptune."), connection(logged_in="1")]


def idx(array: np.ndarray[Any, Any]) -> bytes:
    shape = struct.pack(f">{array.ndim}I", *array.shape)
    return bytes((0, 0, 8, array.ndim)) + shape + array.astype(np.uint8).tobytes()


IMAGES = np.random.default_rng(0).integers(0, 256, (6, 2, 3))
DIGITS = np.array([3, 1, 3, 0, 3, 9])


SONGS = "year-prediction-msd/YearPredictionMSD.txt"


def songs(n: int = 40) -> str:
    rng = np.random.default_rng(1)
    rows, years = rng.normal(0, 50, (n, 90)), rng.integers(1922, 2012, n)
    return "".join(f"{year}," + ",".join(f"{v:.5f}" for v in row) + "\n" for year, row in zip(years, rows, strict=True))


USA = (
    "YEAR,SERIAL,PERNUM,PERWT,SEX,AGE,MARST,RACE,RACED,EDUC,EDUCD,EMPSTAT,CLASSWKR,UHRSWORK,OWNERSHP,FAMSIZE,"
    "NCHILD,INCTOT\n"
)
PERSONS = [
    "2019,1,1,12,1,43,1,1,100,10,101,1,2,45,1,4,2,61000",
    "2019,1,2,12,2,41,1,2,200,6,60,1,2,20,1,4,2,25000",
    "2019,1,3,12,2,10,6,1,100,2,20,0,0,0,1,4,0,9999999",
    "2019,2,1,12,2,70,5,1,100,11,114,3,1,0,2,1,0,25001",
]
BRAZIL = (
    "COUNTRY,YEAR,SAMPLE,AGE,SEX,MARST,MARSTD,NATIVITY,EDATTAIN,EMPSTAT,CLASSWK,HRSWORK1,OWNERSHIP,FAMSIZE,"
    "NCHILD,INCTOT\n"
)
BRAZILIANS = [
    "76,2000,76200001,30,1,2,210,1,3,1,2,44,1,3,1,301",
    "76,2000,76200001,999,2,1,110,2,4,3,0,999,2,1,0,300",
    "76,2000,76200001,4,2,1,110,1,0,0,0,999,2,5,0,9999998",
]


SOUND: dict[str, str | bytes] = {
    "adult/adult.data": "\n".join(ADULT) + "\n\n",
    "adult/adult.test": "\n".join(["|1x3 Cross validator", *(f"{row}." for row in ADULT)]) + "\n\n",
    "a9a/a9a": TRAIN,
    "a9a/a9a.t": TEST,
    "acsincome/psam_p06.csv": "\n".join(CALIFORNIA),
    "kddcup99/kddcup.data": "\n".join(CONNECTIONS),
    "mnist/train-images-idx3-ubyte": idx(IMAGES[:4]),
    "mnist/train-labels-idx1-ubyte": idx(DIGITS[:4]),
    "mnist/t10k-images-idx3-ubyte": idx(IMAGES[4:]),
    "mnist/t10k-labels-idx1-ubyte": idx(DIGITS[4:]),
    SONGS: songs(),
    "ipums/usa.csv": USA + "\n".join(PERSONS),
    "ipums/brazil.csv": BRAZIL + "\n".join(BRAZILIANS),
}


@pytest.fixture
def folder(tmp_path: Path) -> str:
    """Data folder of all of these."""
    for name, content in SOUND.items():
        put(tmp_path / name, content)
    return str(tmp_path)


def put(path: Path, content: str | bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)


@pytest.mark.parametrize(
    ("data", "signs"),
    [
        ("adult", [-1, 1, -1, 1] * 2),
        ("acsincome", [1, -1]),
        ("kddcup99", [-1, 1, 1, -1]),
        ("ipums:usa.csv", [1, -1, 1]),
        ("ipums:brazil.csv", [1, -1]),
    ],
)
def test_rows_of_a_set_are_what_its_columns_say(data: str, signs: list[int], folder: str) -> None:
    """Against cells encoded by hand; test_schema.py has a digest of what is declared."""
    put(Path(folder, "acsincome/psam_p48.csv"), "\n".join(TEXAS))
    source = read_source(DataSettings(data=data, data_dir=folder))
    columns: dict[str, dict[str, Any]] = to_table(source.schema)["columns"]
    expected = []
    for entry in columns.values():
        column = source.table.column(entry["column"])
        expected.append(np.array([by_hand(entry, column.levels[code]) for code in column.codes]))
    np.testing.assert_allclose(source.take(np.arange(len(signs))), np.hstack(expected), rtol=1e-13)
    np.testing.assert_array_equal(source.y, signs)


# what is special of each


def test_adult_with_other_targets_and_where_it_is_looked_for(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    records = every("adult", 1, data_dir=folder, test="official")
    np.testing.assert_array_equal(records.shards[0][0], records.X_test)
    np.testing.assert_array_equal(records.y_test, [-1, 1, -1, 1])
    age = every("adult:age", data_dir=folder, test="official")
    np.testing.assert_allclose(age.y_test, (np.array([39, 50, 17, 90]) - 53.5) / 36.5, rtol=1e-14)
    assert {"income=<=50K", "income=>50K"} <= set(age.feature_names)
    assert not any(name.startswith("age=") for name in age.feature_names)
    monkeypatch.setenv("ADMMNET_DATA", folder)
    assert load(DataSettings(data="adult", test="official"), 2, [0]).counts == {0: 2, 1: 2}


def test_a9a_and_files_that_no_checksum_vouches_for(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    records = every("a9a", data_dir=folder, test="official")
    assert records.feature_names == (*(f"x{k + 1}" for k in range(123)), INTERCEPT)
    np.testing.assert_array_equal(records.shards[0][1], [-1, 1, -1])
    np.testing.assert_array_equal(records.y_test, [1, -1])
    assert np.flatnonzero(records.X_test[1]).tolist() == [122, 123]
    digests = [hashlib.sha256(text.encode()).hexdigest() for text in (TRAIN, TEST)]
    for digest in digests:  # neither is the file that everybody else has
        assert any(f"no checksum vouches for {folder}" in note and digest in note for note in records.telling)
    known = {f"a9a/{k}": digest for k, digest in enumerate(digests)}
    monkeypatch.setitem(sets.KNOWN, "a9a", replace(sets.KNOWN["a9a"], sha256=known))
    assert every("a9a", data_dir=folder, test_fraction=0.4).telling == ()


def test_acsincome_counts_nobody_twice_wherever_it_lies(folder: str, tmp_path: Path) -> None:
    states: dict[str, Any] = {"no_test": True, "split": "by-column:ST"}
    own, text = tmp_path / "acsincome", "\n".join(CALIFORNIA)
    put(own / "psam_p48.csv", "\n".join(TEXAS))
    put(own / "psam_p06.csv.gz", gzip.compress(text.encode()))
    put(own / "psam_pusa.csv", text)  # the whole country, of the same persons
    records = every("acsincome", 2, data_dir=folder, **states)
    assert records.counts == {0: 1, 1: 1}  # a state an agent
    assert [records.shards[agent][1].tolist() for agent in (0, 1)] == [[1], [-1]]
    assert records.labels == ("at most 50000", "above 50000")
    assert records.left_out
    assert sum("no checksum vouches for" in note for note in records.telling) == 2
    put(own / "psam_p07.csv", text)
    assert "psam_p07.csv hold the same: its records would count twice" in refusal("acsincome", data_dir=folder)
    (own / "psam_p07.csv").unlink()
    (tmp_path / "other/2018").mkdir(parents=True)
    own.rename(tmp_path / "other/2018/1-Year")  # as folktables has it
    assert every("acsincome", 2, data_dir=f"{tmp_path}/other", **states).counts == {0: 1, 1: 1}
    words = "psam_p[0-9][0-9].csv: get it from the Census Bureau's ACS PUMS of 2018"
    assert words in refusal("acsincome", data_dir=folder)


def test_kddcup99_in_full_and_in_part(folder: str) -> None:
    records = every("kddcup99", data_dir=folder, no_test=True)
    assert records.shards[0][0].shape == (4, 123)
    assert any("the full set" in note for note in records.notes)
    put(Path(folder, "kddcup99/kddcup.data_10_percent"), "\n".join(CONNECTIONS[:2]))
    few = every("kddcup99", data_dir=folder, no_test=True)  # the 10 % file is taken if both are there
    assert few.counts == {0: 2}
    assert not any("the full set" in note for note in few.notes)


def test_mnist_of_a_digit_and_of_all(folder: str) -> None:
    records = every("mnist:3", data_dir=folder, test="official")
    assert records.feature_names == ("r0c0", "r0c1", "r0c2", "r1c0", "r1c1", "r1c2", INTERCEPT)
    X = np.vstack([records.shards[0][0], records.X_test])
    np.testing.assert_allclose((X / X[:, -1:])[:, :-1], IMAGES.reshape(6, 6) / 255, rtol=1e-14)
    np.testing.assert_array_equal([*records.shards[0][1], *records.y_test], np.where(DIGITS == 3, 1, -1))
    parts = every("mnist:3", 3, data_dir=folder, test="official", split="by-column:digit")
    assert parts.counts == {0: 2, 1: 1, 2: 1}
    everything = every("mnist", data_dir=folder, test="official")
    assert (everything.classes, everything.labels) == (10, tuple("0123456789"))
    np.testing.assert_array_equal(everything.y_test, DIGITS[4:])
    np.testing.assert_array_equal(everything.X_test, records.X_test)
    dark = IMAGES[4:] * np.array([1, 0])[:, None, None]
    put(Path(folder, "mnist/t10k-images-idx3-ubyte"), idx(dark))
    message = refusal("mnist:3", data_dir=folder, no_test=True, no_intercept=True)
    assert "t10k-images-idx3-ubyte, image 2: every feature is zero" in message


def test_year_prediction(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text, name = songs(), "year-prediction-msd"
    assert "holds 40 records, the official split needs 515345" in refusal(name, data_dir=folder)
    records = every(name, data_dir=folder, test_fraction=0.25)
    assert (records.task, records.preprocessing, records.X_test.shape) == ("real", "public-bounds", (10, 91))
    numbers = np.array([[float(cell) for cell in line.split(",")] for line in text.splitlines()])
    monkeypatch.setitem(sets.KNOWN, name, replace(sets.KNOWN[name], records=40, train=30))
    for test in (None, "official"):
        official = every(name, 3, data_dir=folder, test=test)
        assert official.counts == {0: 10, 1: 10, 2: 10}
        np.testing.assert_allclose(official.y_test, (numbers[30:, 0] - 1966.5) / 44.5, rtol=1e-14)
        np.testing.assert_allclose((official.X_test / official.X_test[:, -1:])[:, :-1], numbers[30:, 1:], rtol=1e-9)


def test_ipums(folder: str) -> None:
    settings = DataSettings(data="ipums:usa.csv", data_dir=folder, test_fraction=0.34)
    validate(settings)
    records = load(settings, 1, [0])
    assert len(records.y_test) + records.counts[0] == 3  # the child has no income
    assert records.left_out
    assert records.preprocessing == "data-dependent"  # the codes are public, but who has them is not
    assert load_new(settings, records.feature_names).labels == ("at most 25000", "above 25000")
    assert len(load_new(settings, records.feature_names, labelled=False).X_test) == 4
    own = {"drop": ["*"], "threshold": 0, "columns": {"SEX": {"kind": "categorical", "categories": [1, 2]}}}
    other = every(f"ipums:{folder}/ipums/usa.csv", test_fraction=0.5, label="INCTOT", schema=own)
    assert other.feature_names == ("SEX=1", "SEX=2", INTERCEPT)
    assert "one of INCTOT, INCEARN, got 'AGE'" in refusal("ipums:usa.csv", data_dir=folder, label="AGE")


# where files are found, and what is told of them


@pytest.mark.parametrize("name", ["adult", "phishing", "kddcup99", "mnist:0", "year-prediction-msd", "ipums:a.csv"])
def test_a_set_that_is_not_there_says_what_to_do(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("urllib.request.urlopen", None)  # what nothing would verify is not downloaded
    for folder in (str(tmp_path / "data"), None):
        if folder is None and name == "adult":
            monkeypatch.setenv("ADMMNET_DATA", str(tmp_path))
        settings = DataSettings(data=name, data_dir=folder)
        for check in (validate, lambda s: load(s, 2, [0])):
            with pytest.raises(MissingDataError, match=r"there is n.* get it from .*pass --data-dir DIR"):
                check(settings)


def test_one_download_to_the_cache_if_it_is_the_right_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names, calls = ["adult.data", "adult.test"], []
    answer: dict[str, bytes] | OSError = OSError("no route")

    def opened(url: str, timeout: float) -> io.BytesIO:
        calls.append(url)
        if isinstance(answer, OSError):
            raise answer
        return io.BytesIO(answer[url.rsplit("/", 1)[1]])

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("urllib.request.urlopen", opened)
    validate(DataSettings(data="adult"))
    assert calls == []
    with pytest.raises(RequestError, match=r"could not be downloaded from https.*no route.*pass --data-dir DIR"):
        load(DataSettings(data="adult"), 5, [0])
    answer = dict.fromkeys(names, b"other")
    with pytest.raises(RequestError, match=r"expected 5b00264637dbfec3.*not kept; pass"):
        load(DataSettings(data="adult"), 5, [0])
    assert not (tmp_path / "cache").exists()
    content = "\n".join(ADULT).encode()
    digests = {f"adult/{name}": hashlib.sha256(content).hexdigest() for name in names}
    monkeypatch.setitem(sets.KNOWN, "adult", replace(sets.KNOWN["adult"], sha256=digests))
    answer = dict.fromkeys(names, content)
    calls.clear()
    for _ in range(2):
        load(DataSettings(data="adult"), 2, [0])
    assert [url.rsplit("/", 1)[1] for url in calls] == names
    assert sorted(path.name for path in (tmp_path / "cache" / "admmnet" / "adult").iterdir()) == names


@pytest.mark.parametrize(("words", "told"), [(["--private", "--no-account"], False), (["--simulate"], True)])
def test_private_runs_tell_nothing_of_what_a_file_holds(
    words: list[str], told: bool, folder: str, tmp_path: Path, admmnet: Admmnet
) -> None:
    text = "".join(f"{'+-'[k % 2]}1 {1 + k % 5}:1\n" for k in range(40))
    put(Path(folder, "a9a/a9a"), text)
    data = ["--data", "a9a", "--data-dir", folder]
    words = [*words, "--epsilon", "9", "--delta", "1e-3", "--rounds", "2", "--agents", "2", "--no-test"]
    printed = admmnet.ok("run", *data, *words, "-o", tmp_path / "run")
    digest = hashlib.sha256(text.encode()).hexdigest()
    assert (digest in printed.out + printed.err) == told
    kept = [p.read_bytes() for p in (tmp_path / "run").rglob("*") if p.is_file()]
    assert any(digest.encode() in content for content in kept) == told


# rows that no code book has

HOW: dict[str, dict[str, Any]] = {"adult": {"test": "official"}, SONGS: {"test_fraction": 0.5}}
ANY: str | bytes = ""
REFUSED: list[tuple[str, str | bytes, str | bytes, str]] = [
    ("adult/adult.test", "39, ", "nan, ", "adult.test, line 2, column 'age': 'nan' is not finite"),
    ("a9a/a9a.t", "123:1", "124:1", "a9a.t, line 2, index 124: above the width 123"),
    ("acsincome/psam_p06.csv", ",WKHP", ",HOURS", "psam_p06.csv lacks the columns 'WKHP': get the original file"),
    ("acsincome/psam_p06.csv", "06,00016,30", "06,00016,3", "psam_p06.csv: none of 4 records counts"),
    ("mnist/train-images-idx3-ubyte", b"\0\0\x08", b"\0\0\x0d", "starts with 00000d03, expected 00000803"),
    ("mnist/train-labels-idx1-ubyte", ANY, idx(np.zeros((4, 1, 1))), "starts with 00000803, expected 00000801"),
    ("mnist/train-images-idx3-ubyte", ANY, idx(IMAGES[:4])[:-1], "holds 23 bytes for 4 x 2 x 3"),
    ("mnist/train-images-idx3-ubyte", ANY, idx(IMAGES[:5]), "has 4 labels"),
    ("mnist/t10k-images-idx3-ubyte", ANY, idx(np.zeros((2, 3, 3))), "image 1: feature 7 is 'r2c0'"),
    ("mnist/t10k-labels-idx1-ubyte", ANY, idx(np.array([1, 12])), "record 2: label 12, expected 0 to 9"),
    ("mnist/train-images-idx3-ubyte", ANY, idx(np.zeros((4, 0, 3))), "holds 0 bytes for 4 x 0 x 3"),
    ("mnist/train-images-idx3-ubyte", ANY, struct.pack(">4B3I", 0, 0, 8, 3, 2**31, 2**31, 4), "0 bytes for 2147483648"),
    (SONGS, ",", ",x", "line 1, column 2: 'x"),
    (SONGS, "\n", "\n\n", "line 2: 0 values, expected 91"),
    ("ipums/usa.csv", "UHRSWORK", "HRSWORK2", "lacks UHRSWORK: an extract of IPUMS USA needs"),
    ("ipums/usa.csv", ANY, BRAZIL.replace("EDATTAIN,", "") + "1," * 14 + "1", "lacks EDATTAIN"),
    ("ipums/usa.csv", ANY, USA + PERSONS[2], "every record has a label of leave_out"),
]


@pytest.mark.parametrize(("path", "old", "new", "words"), REFUSED, ids=[words for *_, words in REFUSED])
def test_rows_that_no_code_book_has(path: str, old: Any, new: Any, words: str, folder: str) -> None:
    sound: Any = SOUND[path]
    put(Path(folder, path), new if old == ANY else sound.replace(old, new, 1))
    data = path.partition("/")[0]
    data = {"mnist": "mnist:3", "ipums": "ipums:usa.csv"}.get(data, data)
    assert words in refusal(data, data_dir=folder, **HOW.get(data, HOW.get(path, {})))
