"""The public schema in its files and beside other settings; numbers, separators and headers as people write them."""

from __future__ import annotations

import hashlib
import json
import math
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import tomli_w

from admmnet.config.toml import load_config, read_schema
from admmnet.data import DataSettings
from admmnet.data.given import Given
from admmnet.data.known import DataSet
from admmnet.data.readers.delimited import read_texts, read_unknown
from admmnet.data.schema import parse_schema, to_table
from admmnet.data.sets import KNOWN, NAMES
from admmnet.data.sources import validate
from admmnet.data.table import Spelling, no_number
from admmnet.errors import RequestError
from tests.command_runs import Admmnet
from tests.data.conftest import NUMBER, WARD, Write, every
from tests.data.test_encoding import SCHEMA
from tests.doc_pages import ROOT
from tests.trained_models import SCHEMA as TABLE
from tests.trained_models import people


def rule(**entry: Any) -> dict[str, Any]:
    kind = "categorical" if {"categories", "groups", "other"} & set(entry) else "numeric"
    return {"columns": {"a": {"kind": kind} | entry}}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"lable": "y"}, r"unknown key data\.schema\.lable; the keys are"),
        ({"label": 3}, r"data\.schema\.label must be a column name, got 3"),
        ({"labels": ["a"]}, r"must be \[negative, positive\], or three classes or more, got \['a'\]"),
        ({"labels": {"a": ["b"], "b": ["x"]}}, "'b' stands for another label, too"),
        ({"labels": {"0": ["2"], "1": ["2.0"]}}, "'2.0' stands for another label, too"),
        ({"features": 0}, "features must be a whole number, 1 or more, got 0"),
        ({"drop": "id"}, r"data\.schema\.drop must be a list"),
        ({"labels": ["a", "b"], "threshold": 1}, "gives labels and threshold, which exclude each other"),
        ({"targets": [1]}, r"data\.schema\.targets must be \[lowest, highest\], finite numbers, got \[1\]"),
        ({"targets": [1, 1]}, "the lowest must be below the highest, got 1 and 1"),
        ({"scales": [1, 0]}, r"data\.schema\.scales must be above 0, and finite, got \[1, 0\]"),
        ({"separator": "ab"}, "must be one mark"),
        ({"decimal": "+"}, "must be one mark"),
        ({"columns": []}, "must hold one table a column"),
        ({"columns": {"a": 3}}, r"data\.schema\.columns\.a must be a table"),
        ({"columns": {"a": {"kind": "numeric"}}, "categorical": ["a"]}, "declares column 'a' twice"),
        (rule(kind="text"), r"a\.kind must be 'categorical' or 'numeric', got 'text'"),
        (rule(high=3), "gives one of low and high"),
        (rule(low=3, high=3), "low must be below high, got"),
        (rule(low=math.nan, high=3), r"a\.low must be a finite"),
        (rule(scale="cubic"), "scale must be one of linear"),
        (rule(scale="bins"), "go together"),
        (rule(edges=[2, 2]), "edges must increase"),
        (rule(edges=[]), "edges must be a list of numbers"),
        (rule(edges=[1], low=0, high=2), "takes no low and high"),
        (rule(missing="drop"), r"a\.missing must be 'indicator', 'refuse' or a finite number, got 'drop'"),
        (rule(categories=[]), "categories must be a list of"),
        (rule(categories=["x", "x"]), "holds 'x' twice"),
        (rule(groups={"g": ["x"], "h": ["x"]}), "holds 'x' twice"),
        (rule(other=1), "other must be true or false, got 1"),
        (rule(categories=["A"], missing="C"), r"a\.missing must be .* or one of the categories, got 'C'"),
    ],
)
def test_a_wrong_schema_is_refused_by_key_and_value(change: dict[str, Any], words: str) -> None:
    with pytest.raises(RequestError, match=words):
        parse_schema(change)


@pytest.mark.parametrize(
    "table",
    [
        {},
        SCHEMA,
        {"features": 4, "labels": {"no": ["no", "No"], "yes": ["yes", "1"]}},
        {"features": 4, "targets": [np.float64(-1), 0.1], "centre": 0, "scales": [1 / 3, 2]},
        {"label": "y", "threshold": 0, "leave_out": ["9", "99"], "drop": ["*"], "header": False, "decimal": ","},
        {"label": "y", "columns": {"a": {"kind": "numeric", "low": np.float64(0.1), "high": 1 / 3}}, "separator": ";"},
        {"numeric": ["a"], "categorical": ["b"], "columns": {"c": {"kind": "numeric", "missing": 4}}},
    ],
)
def test_a_schema_is_written_and_read_back(table: dict[str, Any]) -> None:
    schema = parse_schema(table)
    assert parse_schema(json.loads(json.dumps(to_table(schema)))) == schema


@pytest.mark.parametrize("known", KNOWN.values(), ids=KNOWN)
def test_the_declaration_of_a_set_is_sound(known: DataSet) -> None:
    schema = parse_schema(known.schema)
    assert parse_schema(to_table(schema)) == schema
    files = {path for alternatives in known.files for path in alternatives}
    assert set(known.sha256) <= files
    assert bool(known.origin) == bool(files)
    assert known.public == (known.adapt is None)  # a user's own schema goes with the user's own records
    assert (known.records is None) == (known.train is None)
    assert (known.shown or known.name) in NAMES.split(", ")


def test_public_encodings_stay_as_they_are() -> None:
    """Models of earlier runs mean these features: a change goes into the changelog."""
    told = json.dumps({name: known.schema for name, known in KNOWN.items()}, sort_keys=True, default=dict)
    assert hashlib.sha256(told.encode()).hexdigest()[:16] == "a6210693c1ee6080"


def test_the_documented_schema_is_one() -> None:
    text = (ROOT / "docs" / "data.md").read_text(encoding="utf-8")
    kinds, example = (
        parse_schema(tomllib.loads(b.split("```")[0])["data"]["schema"]) for b in text.split("```toml\n")[1:3]
    )
    assert {rule.prefix: rule.open is None for rule in kinds.rules} == {"age": False, "cost": False, "ward": False}
    assert [rule.prefix for rule in example.rules] == ["age", "age-group", "cost", "ward", "country"]


@pytest.mark.parametrize(
    ("others", "words"),
    [
        ({"data": "iris"}, r"unknown data 'iris': the names are .*adult.*ipums:FILE.*; .*\.npz"),
        ({"data": "x.xlsx"}, "is a spreadsheet"),
        ({"data": "mnist:10"}, r"unknown data 'mnist:10': did you mean mnist:1\?"),
        ({"data": "skin"}, "the set 'skin' is gone: name its file"),
        ({"data": "gone.csv"}, r"gone\.csv does not exist"),
        ({"data": "ipums:usa.txt"}, "FILE must be an extract in csv form"),
        ({"data": "ipums:a-{agent}.csv"}, "is one extract, without {agent}"),
        ({"data": "arrays"}, "means records that a program gave"),
        ({"data": "x.csv", "split": "shards"}, "a program dealt the records"),
        ({"data_seed": -1}, "data_seed = -1 is not allowed"),
        ({"encode": "never"}, "encode = 'never' is not allowed"),
        ({"test": "x.csv"}, "--test x.csv does not go with 'census': it takes no --test"),
        ({"data": "adult", "test": "x.csv"}, r"it takes official \(or --test-fraction, or --no-test\)"),
        ({"data": "adult", "test": "official", "test_fraction": 0.2}, "exclude each other"),
        ({"data": "adult", "schema": {"label": "x"}}, r"\[data\.schema\] goes with a file.*centre and"),
        ({"task": "classes"}, "--task classes does not go with 'census', whose labels are two classes"),
        ({"label": "y"}, "--label y goes with a csv"),
        ({"features": 3}, "--features goes with a file"),
        ({"split": "even"}, "--split must be one of auto, iid, dirichlet:A, by-column:NAME, sizes:A:B:..., zipf:S,"),
        ({"normalise": "none"}, "pass --no-intercept, too"),
        ({"encode": "private", "project": 3}, "leave out --project and --normalise"),
        ({"encode": "private", "normalise": "columns"}, "leave out --project and --normalise"),
        ({"centre": "median"}, "--centre must be a finite number or mean, got 'median'"),
        ({"data": "x.csv", "features": 3}, "--features goes with libsvm and npz"),
        ({"data": "x.npz", "label": "y"}, "--label y goes with a csv file"),
        ({"data": "x.npz", "separator": ";"}, "--separator ; goes with a csv file"),
        ({"data": "x.csv", "test": "official"}, "official is the own split of a named set"),
        ({"data": "x.csv", "test": "y.npz"}, r"must have the form of the data, \.csv"),
        ({"data": "x-{agent}.csv"}, "give a public test file with --test PATH"),
        ({"data": "x-{agent}.csv", "test": "t-{agent}.csv"}, "the test set is one public file"),
        ({"data": "x-{agent}.csv", "test": "t.csv", "split": "dirichlet:1"}, "the files are the shards"),
        ({"data": "x.npz", "schema": {"columns": {"a": {"kind": "categorical"}}}}, "goes with csv files"),
        ({"data": "x.svm", "schema": {"leave_out": [9]}}, r"data\.schema\.leave_out goes with csv files"),
        ({"data": "x.csv", "schema": {"labels": ["1", "1.0"]}}, "must be different values"),
        ({"data": "x.csv", "schema": {"targets": [0, 1]}, "positive": "1"}, "--positive 1 and .*targets exclude"),
        ({"data": "x.csv", "schema": {"threshold": 0.0}, "positive": "1"}, "--positive 1 and .*threshold exclude"),
        ({"data": "x.csv", "schema": {"labels": [1, 2, 3]}, "task": "real"}, "which declares 3 classes"),
        ({"data": "x.csv", "task": "classes", "positive": "b"}, "--positive b goes with two classes, not with --task"),
    ],
)
def test_settings_that_do_not_go_together(others: dict[str, Any], words: str) -> None:
    with pytest.raises(RequestError, match=words):
        validate(DataSettings(**others))


@pytest.mark.usefixtures("_here")
def test_every_command_that_trains_takes_a_schema_in_any_of_three_files(admmnet: Admmnet) -> None:
    people(Path("t.csv"), 120, 0, 20, 90)
    Path("bare.toml").write_text(tomli_w.dumps(TABLE))
    Path("run.toml").write_text(tomli_w.dumps({"data": {"positive": "no", "schema": TABLE}}))
    Path("encoding.json").write_text(json.dumps(TABLE))
    for file, more in (("bare.toml", {}), ("run.toml", {"positive": "no"}), ("encoding.json", {})):
        assert read_schema(Path(file)) == {"schema": TABLE, **more}
    Path("other.json").write_text("[1]")
    assert "other.json" in admmnet.refused("data", "check", "t.csv", "--schema", "other.json")
    quick = ("--data", "t.csv", "--seed", "1", "--quiet")
    run = ("run", *quick, "--schema", "run.toml", "--agents", "3", "--rounds", "2")
    for flags, positive in (((), "no"), (("--positive", "yes"), "yes")):  # flags override the file
        admmnet.ok(*run, *flags, "-o", positive)
        config = load_config(f"{positive}/config.toml")
        assert (config.schema, config.positive) == (TABLE, positive)
    admmnet.ok("baseline", "dp-scd", *quick, "--schema", "bare.toml", "--epochs", "1", "-o", "alone")
    grid = ("--algorithms", "pp-admm", "--epsilons", "1", "--seeds", "0:1", "--rounds", "2", "--simulate")
    admmnet.ok("compare", *grid, "--data", "t.csv", "--schema", "bare.toml", "--agents", "3", "--quiet", "-o", "grid")
    admmnet.ok("calibrate", "--records", "50", "--schema", "bare.toml")
    assert "gone.toml" in admmnet.refused("run", "--data", "t.csv", "--schema", "gone.toml")


@pytest.mark.parametrize(
    ("spelling", "text", "found"),
    [
        (Spelling(","), "1,5", 1.5),
        (Spelling(",", "."), "-1.234.567,5", -1234567.5),
        (Spelling(".", ","), "1,234.5", 1234.5),
        (Spelling(",", " "), "12 345,0", 12345.0),
        (Spelling(",", "."), "1.5", "no number where decimal = ','"),  # 15 for some readers, 1.5 for others
        (Spelling(".", ","), "12,34,567", 'declare decimal = ","'),
        (Spelling(), "3,14", 'declare decimal = "," in [data.schema]'),
        (Spelling(), "1,234", "may be with decimals or thousands"),
        (Spelling(), "2024-03-01", "is no number but a date; drop the column, or make an age"),
        (Spelling(), "01.03.2024 10:00", "a date"),
        (Spelling(), "12 %", "write it without its unit"),
        (Spelling(), "$5", "write it without its unit"),
        (Spelling(), "<5", "but a limit; write the number that stands for it"),
        (Spelling(), "1 234", "is no number for its blanks"),
        (Spelling(), "", "no number but a missing value"),
        (Spelling(), "nan", 'not finite; fill it in, or declare missing = "indicator"'),
        (Spelling(), "inf", "is not finite; remove the row"),
        (Spelling(), "see letter", "as categories, or drop it (`admmnet data draft` proposes one of these)"),
    ],
)
def test_numbers_as_they_are_written_and_what_is_none_is_named(
    spelling: Spelling, text: str, found: float | str
) -> None:
    why, value = no_number(text, spelling), spelling.finite(text)
    assert found in str(why) if isinstance(found, str) else (value, why) == (found, None)
    assert (value is None) is isinstance(found, str)


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("a;b;y\n3;4,5;1\n1;2;0\n", {"separator": ";", "schema": {"decimal": ","}}),
        ("\ufeffa;b;y\n3;4,5;1\n1;2;0\n", {"schema": {"separator": ";", "decimal": ","}}),
        ("a\tb\ty\n3\t4.5\t1\n1\t2\t0\n", {"separator": "tab"}),
        ("1,2,y\n3,4.5,1\n1,2,0\n", {}),  # headers that count
        ("2019,2020,y\n3,4.5,1\n1,2,0\n", {}),
    ],
)
def test_declared_forms_are_read(write: Write, text: str, settings: dict[str, Any]) -> None:
    records = every(write("s.csv", text), label="y", no_test=True, **settings)
    X = records.shards[0][0]
    np.testing.assert_allclose(X[:, :2] / X[:, 2:], np.array([[3.0, 4.5], [1.0, 2.0]]), rtol=1e-15)
    assert records.preprocessing == "public-bounds"


def test_a_file_without_a_header(write: Write) -> None:
    path = write("n.csv", "39,A,1\n41,B,0\n")
    assert read_unknown(Path(path))[1:] == (",", False)
    schema = {"header": False, "label": "x3", "columns": {"x1": NUMBER, "x2": WARD}}
    records = every(path, no_test=True, schema=schema)
    assert records.feature_names == ("x1", "x2=A", "x2=B", "intercept")
    assert records.counts == {0: 2}
    table = read_texts(Path(write("h.csv", "39,40.5,y\n1,2,1\n")), header=True)
    assert table.names == ("39", "40.5", "y")


@pytest.mark.usefixtures("_here")
def test_spellings_are_those_of_texts_in_parquet_files_and_frames(admmnet: Admmnet) -> None:
    rng = np.random.default_rng(4)
    pay, dose = rng.uniform(900, 9000, 60).round(1), rng.uniform(0, 90, 60).round(3)
    plain = pd.DataFrame({"pay": pay, "dose": dose, "sick": np.where(pay > 4000, "yes", "no")})
    frame = plain.assign(pay=[f"{value:,.1f}".translate(str.maketrans(",.", ".,")) for value in pay])
    frame.to_parquet("g.parquet")
    frame.assign(dose=[str(x).replace(".", ",") for x in dose]).to_csv("g.csv", sep=";", index=False)
    told = admmnet.ok("data", "draft", "g.parquet", "--label", "sick", "-o", "s.toml").out
    assert "its numbers are read as 1.234,5" in told
    schema = read_schema(Path("s.toml"))["schema"]
    assert (schema["decimal"], schema["thousands"]) == (",", ".")
    usual = {key: value for key, value in schema.items() if key not in ("decimal", "thousands")}

    def rows_of(given: Any, agents: int = 1, **others: Any) -> Any:
        request = DataSettings(data="frame", no_test=True, **others)
        shards = Given("frame", **given).load(request, agents, range(agents)).shards
        return np.concatenate([shards[i][0] for i in range(agents)])

    X = rows_of({"pool": plain}, schema=usual)
    np.testing.assert_array_equal(every("g.parquet", no_test=True, schema=schema).shards[0][0], X)
    drafted: dict[str, Any] = {"label": "sick", "data_dependent": True}
    for data in ("g.parquet", "g.csv"):
        np.testing.assert_array_equal(every(data, no_test=True, separator=";", **drafted).shards[0][0], X)
    for pool in (frame, frame.convert_dtypes(), frame.astype({"sick": "category"}), frame.astype(object)):
        for how in ({"schema": schema}, drafted):
            np.testing.assert_array_equal(rows_of({"pool": pool}, **how), X)
    np.testing.assert_array_equal(rows_of({"own": {0: frame[:30], 1: frame[30:]}}, 2, split="shards", schema=schema), X)


def test_numbers_beside_texts_of_numbers_are_not_guessed() -> None:
    def frame(*cells: Any) -> pd.DataFrame:
        return pd.DataFrame({"a": cells, "y": [0, 1, 1][: len(cells)]})

    columns = {"a": {"kind": "numeric", "low": 0, "high": 9000}}
    schema = {"label": "y", "columns": columns, "decimal": ",", "thousands": "."}
    shards = Given("frame", own={0: frame("1.234", 2, "5,5"), 1: frame(1.234, 7.0)})
    for given, split in ((Given("frame", frame("1.234", 1.234, "5,5")), "iid"), (shards, "shards")):
        settings = DataSettings(data="frame", no_test=True, schema=schema, split=split)
        with pytest.raises(RequestError, match="holds numbers and texts of numbers; decimal = ','"):
            given.load(settings, 2, [0])
