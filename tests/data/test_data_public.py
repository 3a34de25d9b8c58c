"""Sets of LIBSVM and the American Community Survey: small files in their own forms."""

from __future__ import annotations

import bz2
import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from admmnet.cli import run_command_line
from admmnet.data import DataSettings, load, load_new, sets
from admmnet.data.rows import INTERCEPT
from tests.data.conftest import Write, below, every, refusal
from tests.real_sets import need

# LIBSVM

TRAIN = "-1 1:1 3:1\n+1 2:1\n-1 3:1\n"
TEST = "+1 1:1\n-1 123:1 # the last\n"


def test_a_test_part_in_a_file_of_its_own(write: Write) -> None:
    write("a9a/a9a.t.gz", TEST)
    folder = below(write("a9a/a9a", TRAIN))
    records = every("a9a", data_dir=folder, test="official")
    assert records.feature_names == (*(f"x{k + 1}" for k in range(123)), INTERCEPT)
    np.testing.assert_array_equal(records.shards[0][1], [-1, 1, -1])
    np.testing.assert_array_equal(records.y_test, [1, -1])
    assert np.flatnonzero(records.X_test[1]).tolist() == [122, 123]
    assert records.preprocessing == "public-bounds"
    digests = [hashlib.sha256(text.encode()).hexdigest() for text in (TRAIN, TEST)]
    for digest in digests:  # neither is the file that everybody else has
        assert any(f"no checksum vouches for {folder}" in note and digest in note for note in records.telling)
    write("a9a/a9a.t.gz", TEST + "+1 124:1\n")
    assert "a9a.t.gz, line 3, index 124: above the width 123" in refusal("a9a", data_dir=folder)
    write("a9a/a9a", "-1 1\n" + TRAIN)
    assert "a9a, line 1: expected a label and index:value pairs" in refusal("a9a", data_dir=folder)


def test_known_checksums_are_not_spoken_of(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    write("a9a/a9a.t", TEST)
    folder = below(write("a9a/a9a", TRAIN))
    known = {f"a9a/{k}": hashlib.sha256(t.encode()).hexdigest() for k, t in enumerate((TRAIN, TEST))}
    monkeypatch.setitem(sets.KNOWN, "a9a", replace(sets.KNOWN["a9a"], sha256=known))
    assert every("a9a", data_dir=folder, test_fraction=0.4).telling == ()


@pytest.mark.parametrize(("words", "told"), [(["--private", "--no-account"], False), (["--simulate"], True)])
def test_private_runs_tell_nothing_of_what_a_file_holds(
    words: list[str], told: bool, write: Write, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "".join(f"{'+-'[k % 2]}1 {1 + k % 5}:1\n" for k in range(40))
    write("a9a/a9a.t", TEST)
    data = ["--data", "a9a", "--data-dir", below(write("a9a/a9a", text))]
    words = [*words, "--epsilon", "9", "--delta", "1e-3", "--rounds", "2", "--agents", "2", "--no-test"]
    assert run_command_line(["run", *data, *words, "-o", str(tmp_path / "run")]) == 0
    digest = hashlib.sha256(text.encode()).hexdigest()
    printed = capsys.readouterr()
    assert (digest in printed.out + printed.err) == told
    kept = [p.read_bytes() for p in (tmp_path / "run").rglob("*") if p.is_file()]
    assert any(digest.encode() in content for content in kept) == told


def test_what_nothing_would_verify_is_not_downloaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("urllib.request.urlopen", None)
    assert "get it from the LIBSVM data page" in refusal("phishing")


def test_a9a_itself() -> None:
    records = every("a9a", data_dir=need("adult/a9a.gz", "adult/a9a.t.gz"), test="official")
    assert (len(records.shards[0][1]), len(records.y_test)) == (32_561, 16_281)
    assert int(np.sum(records.shards[0][1] > 0)) == 7_841
    assert not any("checksum" in note for note in records.notes)


def test_a_set_that_is_packed(tmp_path: Path, write: Write) -> None:
    assert "a9a/a9a in it, plain or as .gz, .bz2 or .zip" in refusal("a9a", data_dir=str(tmp_path))
    write("a9a/a9a.t", TEST)
    path = tmp_path / "a9a" / "a9a.bz2"
    path.write_bytes(bz2.compress(TRAIN.encode()))
    assert every("a9a", data_dir=str(tmp_path), test="official").X_test.shape == (2, 124)
    for content in (bz2.compress(TRAIN.encode())[:-5], b"no bzip2"):
        path.write_bytes(content)
        assert "is not a sound bzip2 file" in refusal("a9a", data_dir=str(tmp_path))


# ACSIncome

HEAD = "RT,SERIALNO,ST,PWGTP,AGEP,COW,MAR,RELP,SCHL,SEX,WKHP,OCCP,PINCP,POBP,RAC1P"
PERSONS = {
    "ca": [
        "P,2018GQ1,06,00016,30,1,1,0,21,1,40,0440,50001,006,1",
        "P,2018GQ2,06,00016,16,1,5,2,12,2,20,4110,9000,303,8",  # not yet 17
        "P,2018GQ3,06,00016,70,,2,0,16,2,,,30000,006,1",  # does not work
        "P,2018GQ4,06,00016,45,2,1,1,24,2,36,2200,000100,210,6",  # 100 dollars
    ],
    "tx": ['"P","2018HU1","48","00090","45","9","3","17","01","2","99","9920","50000","554","9"'],
}


def survey(write: Write, place: str = "acsincome") -> str:
    for state, (number, lines) in zip(("06", "48"), PERSONS.items(), strict=True):
        assert number
        folder = below(write(f"{place}/psam_p{state}.csv", "\n".join([HEAD, *lines]) + "\n"))
    return folder


def test_acsincome_of_two_states(write: Write) -> None:
    folder = survey(write)
    records = every("acsincome", 2, data_dir=folder, no_test=True, split="by-column:ST")
    assert records.counts == {0: 1, 1: 1}  # a state an agent
    ((X, y), (X_texas, y_texas)) = (records.shards[agent] for agent in (0, 1))
    assert (y.tolist(), y_texas.tolist()) == ([1], [-1])
    assert records.labels == ("at most 50000", "above 50000")
    assert _held(records.feature_names, X[0]) == {
        "AGEP=[25,35)", "COW=1", "SCHL=21", "MAR=1", "OCCP=[0,500)", "POBP=[1,60)", "RELP=0", "WKHP=[40,41)",
        "SEX=1", "RAC1P=1", INTERCEPT,
    }  # fmt: skip
    assert _held(records.feature_names, X_texas[0]) >= {"OCCP=[9900,inf)", "POBP=[500,inf)", "WKHP=[60,inf)"}
    assert records.left_out
    assert sum("no checksum vouches for" in note for note in records.telling) == 2
    settings = DataSettings(data="acsincome", data_dir=folder)
    assert len(load_new(settings, records.feature_names).X_test) == 2


def test_acsincome_counts_nobody_twice(write: Write) -> None:
    folder = survey(write)
    text = "\n".join([HEAD, *PERSONS["ca"]]) + "\n"
    write("acsincome/psam_p06.csv.gz", text)
    write("acsincome/psam_pusa.csv", text)  # the whole country, of the same persons
    assert every("acsincome", 2, data_dir=folder, no_test=True, split="by-column:ST").counts == {0: 1, 1: 1}
    write("acsincome/psam_p07.csv.gz", text)
    words = refusal("acsincome", data_dir=folder, no_test=True)
    assert "psam_p06.csv and " in words
    assert "psam_p07.csv.gz hold the same: its records would count twice, remove one" in words


def _held(names: tuple[str, ...], row: Any) -> set[str]:
    return {name for name, value in zip(names, row, strict=True) if value != 0}


def test_acsincome_where_folktables_keeps_it(tmp_path: Path, write: Write) -> None:
    folder = str(Path(survey(write, "2018/1-Year")).parent)
    assert load(DataSettings(data="acsincome", data_dir=folder, no_test=True), 2, [0]).counts == {0: 1, 1: 1}
    words = refusal("acsincome", data_dir=str(tmp_path / "elsewhere"))
    assert "psam_p[0-9][0-9].csv: get it from the Census Bureau's ACS PUMS of 2018" in words


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (",WKHP", ",HOURS", "psam_p06.csv lacks the columns 'WKHP': get the original file"),
        (",30,1,1", ",30,1", "psam_p06.csv, line 2: 14 values, expected 15"),
        (",50001,", ",plenty,", "psam_p06.csv, line 2, column 'PINCP': 'plenty' is no number"),
        (",1,0,21,", ",8,0,21,", "psam_p06.csv, line 2, column 'MAR': undeclared category '8'"),
        ("06,00016,30", "06,00016,3", "psam_p06.csv: none of 4 records counts"),
    ],
)
def test_acsincome_refusals(old: str, new: str, words: str, write: Write) -> None:
    text = "\n".join([HEAD, *PERSONS["ca"]]).replace(old, new)
    folder = below(write("acsincome/psam_p06.csv", text))
    assert words in refusal("acsincome", data_dir=folder, no_test=True)
