"""What is kept of public sets: the same records, never of other files or of private runs; faults are passed over."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec import structs

from admmnet import RunConfig
from admmnet.cli import run_command_line
from admmnet.data import DataSettings, Records, cache, load, sets
from admmnet.data.table import RawTable
from admmnet.errors import RequestError
from tests.data.conftest import Write, every
from tests.real_sets import need

from .test_data_built_in import ROWS, small_adult
from .test_data_year_ipums import PERSONS, USA, extract

A9A = "-1 3:1 11:1 14:1\n-1 5:1 7:1\n+1 5:1 120:1\n+1 9:1\n"
YEARS = "".join(
    f"{year}," + ",".join(f"{(7 * k + year) % 11 - 5}.5" for k in range(90)) + "\n" for year in range(1950, 1962)
)


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folder of what is kept, with nothing in it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache/admmnet/tables"


def no_reading(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Let every reading of the set's files fail."""

    def read(paths: Sequence[Path]) -> RawTable:
        raise AssertionError(f"{paths[0]} is read")

    monkeypatch.setitem(sets.KNOWN, name, structs.replace(sets.KNOWN[name], read=read))


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal, arrays dense or CSR bit for bit."""
    if hasattr(one, "tocsr"):
        return all(same(getattr(one, part), getattr(other, part)) for part in ("data", "indices", "indptr"))
    if isinstance(one, np.ndarray):
        return (one.dtype, one.shape, one.tobytes()) == (other.dtype, other.shape, other.tobytes())
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def equal(one: Records, other: Records) -> bool:
    return all(same(getattr(one, field.name), getattr(other, field.name)) for field in fields(Records))


def small(write: Write, name: str) -> dict[str, Any]:
    """Settings with small files of a set."""
    if name.startswith("adult"):
        found: dict[str, Any] = {"data_dir": small_adult(write, ROWS, ROWS)}
        return found | ({"test": "official"} if name == "adult" else {"test_fraction": 0.3})
    if name == "a9a":
        write("a9a/a9a.t.gz", A9A[:20])
        return {"data_dir": str(Path(write("a9a/a9a", A9A)).parents[1]), "test": "official"}
    path = write("year-prediction-msd/YearPredictionMSD.txt", YEARS)
    return {"data_dir": str(Path(path).parents[1]), "test_fraction": 0.3}


@pytest.mark.parametrize(
    ("name", "split"),
    [
        ("adult", "by-column:sex"),
        ("adult:age", "iid"),
        ("a9a", "iid"),
        ("a9a", "by-column:x5"),
        ("year-prediction-msd", "iid"),
    ],
)
def test_records_are_those_of_the_files(
    name: str, split: str, kept: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = small(write, name) | {"split": split}
    plain = every(name, 2, **settings, no_cache=True)
    assert not kept.exists()
    first = every(name, 2, **settings)
    (path,) = kept.iterdir()
    assert (kept.stat().st_mode & 0o777, path.suffix) == (0o700, ".npz")
    no_reading(monkeypatch, name)
    second = every(name, 2, **settings)
    assert equal(first, plain)
    assert equal(second, plain)


@pytest.mark.parametrize("name", ["adult", "phishing", "skin"])
def test_real_sets(name: str, kept: Path) -> None:
    settings = DataSettings(data=name, data_dir=need(name))
    found = [load(each, 3, [0, 2]) for each in (replace(settings, no_cache=True), settings, settings)]
    assert equal(found[0], found[1])
    assert equal(found[0], found[2])
    assert len(list(kept.iterdir())) == 1


def test_other_files_and_other_readers_are_read(kept: Path, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = small(write, "adult")
    whole = every("adult", **settings)
    small_adult(write, ROWS[:-1], ROWS)
    assert every("adult", **settings).counts[0] == whole.counts[0] - 1
    assert len(list(kept.iterdir())) == 2
    for change in ((cache, "_readers", lambda: b"changed"), (np, "__version__", "99.0")):
        monkeypatch.setattr(*change)
        every("adult", **settings)
    assert len(list(kept.iterdir())) == 4


def test_a_packed_file_under_a_plain_name_is_read(kept: Path, write: Write) -> None:
    settings = small(write, "a9a")
    every("a9a", **settings)
    packed = Path(settings["data_dir"]) / "a9a/a9a.t.gz"
    packed.rename(packed.with_suffix(""))
    with pytest.raises(RequestError, match="not UTF-8 text"):
        every("a9a", **settings)


@pytest.mark.parametrize("damage", ["cut", "bit", "empty", "folder"])
def test_damage_is_passed_over(damage: str, kept: Path, write: Write) -> None:
    settings = small(write, "a9a")
    plain = every("a9a", **settings)
    (path,) = kept.iterdir()
    content = path.read_bytes()
    path.unlink()
    if damage == "folder":
        path.mkdir()
    else:
        path.write_bytes(
            {"cut": content[:-1], "bit": content[:99] + bytes([content[99] ^ 1]) + content[100:], "empty": b""}[damage]
        )
    assert equal(every("a9a", **settings), plain)
    assert [each.name for each in kept.iterdir()] == [path.name]
    assert damage == "folder" or path.read_bytes() == content


@pytest.mark.parametrize("why", ["open to others", "no folder", "no home"])
def test_without_a_folder_of_the_users_own_nothing_is_kept(
    why: str, kept: Path, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = small(write, "a9a")
    if why == "open to others":
        kept.mkdir(parents=True)
        kept.chmod(0o750)
    elif why == "no folder":
        kept.parent.mkdir(parents=True)
        kept.write_text("")
    else:
        monkeypatch.setattr(cache, "cache_folder", lambda: (_ for _ in ()).throw(RuntimeError("no home")))
    for _ in range(2):
        assert every("a9a", **settings).counts == {0: 4}
    assert not kept.is_dir() or not os.listdir(kept)


def test_a_fault_in_a_row_is_told_alike(kept: Path, write: Write) -> None:
    folder = small_adult(write, [ROWS[0].replace("Male", "Alien").replace("Female", "Alien"), *ROWS], ROWS)
    said = []
    for _ in range(2):
        with pytest.raises(RequestError) as caught:
            every("adult", data_dir=folder)
        said.append(str(caught.value))
        assert len(list(kept.iterdir())) == 1
    assert "adult.data, line 1, column 'sex'" in said[0]
    assert said[0] == said[1]


def test_nothing_is_kept_of_paths_and_private_runs(kept: Path, write: Write, tmp_path: Path) -> None:
    every("ipums:usa_00001.csv", data_dir=extract(write, USA + "\n".join(PERSONS)), test_fraction=0.34)
    every(write("own.csv", "age,label\n3,a\n4,b\n5,a\n6,b\n"), label="label", data_dependent=True)
    given = ["--algorithm", "admm", "--data", "adult", "--agents", "2", "--rounds", "1", "--quiet"]
    given += ["--data-dir", small_adult(write, ROWS * 8, ROWS), "--test", "official"]
    assert run_command_line(["run", *given, "--seed", "0", "--no-cache", "-o", str(tmp_path / "public")]) == 0
    private = ["--private", "--no-account", "--epsilon", "1"]
    given[1] = "pp-admm"
    assert run_command_line(["run", *given, *private, "-o", str(tmp_path / "private")]) == 0
    assert not kept.exists()
    assert run_command_line(["run", *given, "--epsilon", "1", "-o", str(tmp_path / "kept")]) == 0
    assert len(list(kept.iterdir())) == 1
    assert RunConfig(data="adult", private=True).request.no_cache
