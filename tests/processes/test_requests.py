"""What is wrong with a request is said once, not once a rank, with the exit code of one process."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from .launch import Ended, admmnet

pytestmark = pytest.mark.processes


def refused(ranks: int, *words: str, code: int = 2) -> str:
    ended = admmnet(ranks, *words)
    assert ended.code == code, ended.err
    assert ended.out == ""
    assert len(ended.messages) == 1, ended.err
    assert "Traceback" not in ended.err
    return ended.messages[0]


@pytest.mark.parametrize(
    ("words", "fragment"),
    [
        (("run", "--epsilon", "-1"), "epsilon = -1.0 is not allowed"),
        (("run", "--no-such-flag"), "--no-such-flag"),
        (("run", "nothing-here.toml"), "cannot read the config file nothing-here.toml"),
        (
            ("run", "--data", "nothing-here.csv", "--label", "y", "--simulate"),
            "nothing-here.csv does not exist",
        ),
        (("run", "--topology", "ring:3"), "ring:3"),
        (("run", "--agents", "2"), "3 ranks for 2 agents"),
        (("run", "--transport", "local"), "--transport local runs in one process"),
        (("frobnicate",), "frobnicate"),
        (("ledger", "verify", "nothing-here"), "nothing-here is no run folder"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, tuple) else "",
)
def test_one_message(words: tuple[str, ...], fragment: str, tmp_path: Path) -> None:
    out = ("-o", str(tmp_path / "run")) if words[0] == "run" else ()
    if "ring:3" in words:
        words = (*words, "--agents", "4")
    assert fragment in refused(3, *words, *out)
    assert not (tmp_path / "run").exists()


def test_a_folder_that_is_taken(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    assert "is not empty: name another one with --out" in refused(
        3, "run", "--rounds", "1", "-o", str(tmp_path)
    )
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_budget_too_small(tmp_path: Path) -> None:
    words = ("run", "--algorithm", "pp-admm", "--method", "published", "--epsilon", "1e-170")
    assert "epsilon" in refused(3, *words, "-o", str(tmp_path / "run"), code=4)


def own_files(folder: Path, spoiled: int | None, *, private: bool = True) -> tuple[str, ...]:
    stream = np.random.default_rng(1)
    for name in ("0", "1", "2", "test"):
        rows = [f"{a:.3f},{b:.3f},{int(a > b)}" for a, b in stream.standard_normal((30, 2))]
        if name == str(spoiled):
            rows[4] = "0.5,nan,1"
        (folder / f"{name}.csv").write_text("\n".join(["a,b,y", *rows]) + "\n")
    data = ("--data", f"{folder}/{{agent}}.csv", "--test", f"{folder}/test.csv", "--label", "y")
    return (
        "run",
        *data,
        "--agents",
        "3",
        "--algorithm",
        "pp-admm",
        "--rounds",
        "2",
        *("--no-account",) * private,
    )


@pytest.mark.parametrize("spoiled", [0, 2])
def test_one_agents_file_is_spoiled(spoiled: int, tmp_path: Path) -> None:
    words = (*own_files(tmp_path, spoiled), "-o", str(tmp_path / "run"))
    message = refused(3, *words, "--seed", "0")
    assert f"{spoiled}.csv, line 6, column 'b'" in message
    assert "not finite" in message
    message = refused(3, *words)  # a private run
    assert f"{spoiled}.csv is not as declared: `admmnet data check" in message
    assert "line" not in message.replace("admmnet data check", "")


def test_own_files_give_what_one_process_gives(tmp_path: Path) -> None:
    words = own_files(tmp_path, None, private=False)
    results: list[Ended] = [
        admmnet(ranks, *words, "-o", str(tmp_path / f"run{ranks}"), "--seed", "0") for ranks in (0, 3)
    ]
    assert [ended.code for ended in results] == [0, 0], [ended.err for ended in results]
    one, three = (np.load(tmp_path / f"run{ranks}" / "model.npz")["theta"] for ranks in (0, 3))
    assert one.tobytes() == three.tobytes()


def test_a_missing_file_of_one_agent(tmp_path: Path) -> None:
    words = own_files(tmp_path, None)
    (tmp_path / "1.csv").unlink()
    assert "1.csv" in refused(3, *words, "-o", str(tmp_path / "run"))


def test_help_is_printed_once() -> None:
    for words in (("--help",), ("run", "--help"), ("ledger", "--help")):
        ended = admmnet(3, *words)
        assert ended.code == 0, ended.err
        assert ended.out.count("Usage:") == 1, words
