"""A fault in a file of records: in a private run nothing of the records reaches a screen or another process."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from admmnet.cli import run_command_line
from admmnet.errors import DataError
from tests.attacks.attacked_run import SECRET
from tests.attacks.launched import AGENTS, attacked, write_npz_files
from tests.processes.launch import Ended, here

pytestmark = pytest.mark.processes

BAD = 1
"""Agent whose file has the fault."""
CSV = "a,b,y\n0.5,1,1\n0.25,2,-1\n"
LIBSVM = "1 1:0.5 2:1\n-1 1:0.25 2:2\n"


def text_files(ending: str, sound: str, faulty: str) -> Callable[[Path], tuple[str, ...]]:
    def write(folder: Path) -> tuple[str, ...]:
        for name in (*range(AGENTS), "test"):
            (folder / f"{name}.{ending}").write_text(faulty if name == BAD else sound)
        width = ("--label", "y") if ending == "csv" else ("--features", "2")
        return ("--data", f"{folder}/{{agent}}.{ending}", "--test", f"{folder}/test.{ending}", *width)

    return write


def npz_files(folder: Path, **faulty: object) -> tuple[str, ...]:
    words = write_npz_files(folder)
    np.savez(folder / f"{BAD}.npz", **faulty)  # type: ignore[arg-type]
    return words


def npz_header(folder: Path) -> tuple[str, ...]:
    """An array whose own header NumPy quotes when it cannot read it."""
    words = write_npz_files(folder)
    header = f"{{'descr': '{SECRET}', 'fortran_order': False, 'shape': (2, 4), }}\n".encode()
    member = io.BytesIO()
    member.write(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
    with zipfile.ZipFile(folder / f"{BAD}.npz", "w") as archive:
        for name in ("X.npy", "y.npy"):
            archive.writestr(name, member.getvalue())
    return words


FAULTS: dict[str, Callable[[Path], tuple[str, ...]]] = {
    "npz label": lambda folder: npz_files(folder, X=np.ones((2, 4)), y=["1", SECRET]),
    "npz key": lambda folder: npz_files(folder, **{SECRET: np.ones((2, 4))}),
    "npz header": npz_header,
    "csv cell": text_files("csv", CSV, CSV.replace("0.25", SECRET)),
    "csv label": text_files("csv", CSV, CSV.replace("-1", SECRET)),
    "csv without a header": text_files("csv", CSV, f"{SECRET},2,1\n0.25,2,-1\n"),
    "libsvm line": text_files("libsvm", LIBSVM, f"{LIBSVM}{SECRET} and more\n"),
    "libsvm value": text_files("libsvm", LIBSVM, LIBSVM.replace("0.25", SECRET)),
    "libsvm label": text_files("libsvm", LIBSVM, LIBSVM.replace("-1 ", f"{SECRET} ")),
}


def run_words(folder: Path, fault: str) -> tuple[str, ...]:
    plain = ("--algorithm", "pp-admm", "--agents", str(AGENTS), "--rounds", "2", "--no-account")
    return ("run", *FAULTS[fault](folder), *plain, "-o", str(folder / "run"))


def assert_no_value(ended: Ended, fault: str, folder: Path) -> None:
    assert ended.code == 2, ended.err
    assert SECRET not in ended.out + ended.err
    (message,) = ended.messages
    assert f"`admmnet data check {folder}/{BAD}.{fault.split()[0]}`" in message


@pytest.mark.parametrize("fault", FAULTS)
def test_no_value_is_told_but_where_errors_have_no_public_part(
    fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = run_words(tmp_path, fault)
    assert_no_value(here(capsys, *words), fault, tmp_path)
    monkeypatch.setattr(DataError, "public", property(str))
    ended = here(capsys, *words)
    assert ended.code == 2, ended.err
    assert SECRET in ended.err


@pytest.mark.parametrize(("transport", "fault"), [("mpi", "npz label"), ("zmq", "csv cell")])
def test_no_value_is_told_by_another_process(
    transport: str, fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert_no_value(attacked(monkeypatch, transport, "", *run_words(tmp_path, fault), defended=True), fault, tmp_path)


@pytest.mark.parametrize("fault", FAULTS)
def test_the_owner_is_shown_the_value(fault: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = FAULTS[fault](tmp_path)
    flags = words[words.index("--label") :] if "--label" in words else ()
    assert run_command_line(["data", "check", f"{tmp_path}/{BAD}.{fault.split()[0]}", *flags]) == 1
    assert SECRET in capsys.readouterr().out


@pytest.mark.parametrize("transport", ["mpi", "zmq"])
def test_a_simulation_tells_all(transport: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = (*run_words(tmp_path, "csv cell"), "--seed", "0")
    ended = attacked(monkeypatch, transport, "", *words, defended=True)
    assert ended.code == 2, ended.err
    assert f"{BAD}.csv, line 3, column 'a': {SECRET!r} is no number" in ended.err


@pytest.mark.parametrize(("transport", "debug"), [("local", ()), ("local", ("--debug",)), ("mpi", ("--debug",))])
def test_what_a_bug_quotes_is_not_told(
    transport: str, debug: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = (*run_words(tmp_path, "npz label"), *debug)
    ended = attacked(monkeypatch, transport, "bug", *words, defended=True)
    assert ended.code != 0
    assert SECRET not in ended.out + ended.err
    assert "internal error: ValueError; --debug shows where" in ended.err
    assert ("in broken" in ended.err) == bool(debug)  # the place is told, without the words
    ended = attacked(monkeypatch, transport, "bug", *words, defended=False)
    assert f"could not convert string to float: {SECRET!r}" in ended.err
