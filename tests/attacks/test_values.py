"""A fault in a file of records: in a private run nothing of the records reaches a screen or another process."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from admmnet.cli import run_command_line
from tests.attacks.attacked_run import SECRET
from tests.attacks.launched import AGENTS, attacked, write_npz_files
from tests.processes.launch import Ended, here

pytestmark = pytest.mark.processes

BAD = 1
"""Agent whose file has the fault."""
HEADER = f"{{'descr': '{SECRET}', 'fortran_order': False, 'shape': (2, 4), }}\n".encode()
"""Of an array; NumPy quotes it when it cannot read it."""
SOUND = {"csv": "a,b,y\n0.5,1,1\n0.25,2,-1\n", "libsvm": "1 1:0.5 2:1\n-1 1:0.25 2:2\n"}
FAULTS: dict[str, Any] = {
    "npz label": {"X": np.ones((2, 4)), "y": ["1", SECRET]},
    "npz key": {SECRET: np.ones((2, 4))},
    "npz header": b"\x93NUMPY\x01\x00" + len(HEADER).to_bytes(2, "little") + HEADER,
    "csv cell": ("0.25", SECRET),
    "csv label": ("-1", SECRET),
    "csv without a header": ("a,b,y\n0.5,1,1", f"{SECRET},2,1"),
    "libsvm line": ("2:2\n", f"2:2\n{SECRET} and more\n"),
    "libsvm value": ("0.25", SECRET),
    "libsvm label": ("-1 ", f"{SECRET} "),
}


def write(folder: Path, fault: str) -> tuple[str, ...]:
    """Write a file for every agent, one of them faulty; the words that name them."""
    kind, how = fault.split()[0], FAULTS[fault]
    if kind == "npz":
        words = write_npz_files(folder)
        if isinstance(how, dict):
            np.savez(folder / f"{BAD}.npz", **how)
            return words
        with zipfile.ZipFile(folder / f"{BAD}.npz", "w") as archive:
            for name in ("X.npy", "y.npy"):
                archive.writestr(name, how)
        return words
    for name in (*range(AGENTS), "test"):
        text = SOUND[kind]
        (folder / f"{name}.{kind}").write_text(text.replace(*how) if name == BAD else text)
    width = ("--label", "y") if kind == "csv" else ("--features", "2")
    return ("--data", f"{folder}/{{agent}}.{kind}", "--test", f"{folder}/test.{kind}", *width)


def run_words(folder: Path, fault: str) -> tuple[str, ...]:
    plain = ("--algorithm", "pp-admm", "--agents", str(AGENTS), "--rounds", "2", "--no-account")
    return ("run", *write(folder, fault), *plain, "-o", str(folder / "run"))


def assert_no_value(ended: Ended, fault: str, folder: Path) -> None:
    assert ended.code == 2, ended.err
    assert SECRET not in ended.out + ended.err
    (message,) = ended.messages
    assert f"`admmnet data check {folder}/{BAD}.{fault.split()[0]}`" in message


@pytest.mark.parametrize("fault", FAULTS)
def test_no_value_is_told_but_to_the_owner(fault: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = run_words(tmp_path, fault)
    assert_no_value(here(capsys, *words), fault, tmp_path)
    flags = words[words.index("--label") : words.index("--label") + 2] if "--label" in words else ()
    assert run_command_line(["data", "check", f"{tmp_path}/{BAD}.{fault.split()[0]}", *flags]) == 1
    assert SECRET in capsys.readouterr().out


@pytest.mark.parametrize(("transport", "fault"), [("mpi", "npz label"), ("zmq", "csv cell")])
def test_another_process_tells_no_value_but_in_a_simulation(
    transport: str, fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = run_words(tmp_path, fault)
    assert_no_value(attacked(monkeypatch, transport, "", *words), fault, tmp_path)
    ended = attacked(monkeypatch, transport, "", *words, "--seed", "0")
    assert ended.code == 2, ended.err
    assert repr(SECRET) in ended.err


@pytest.mark.parametrize(("transport", "debug"), [("local", ()), ("mpi", ("--debug",))])
def test_what_a_bug_quotes_is_not_told(
    transport: str, debug: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = (*run_words(tmp_path, "npz label"), *debug)
    ended = attacked(monkeypatch, transport, "bug", *words)
    assert ended.code != 0
    assert SECRET not in ended.out + ended.err
    assert "internal error: ValueError; --debug shows where" in ended.err
    assert ("in broken" in ended.err) == bool(debug)  # the place is told, without the words
