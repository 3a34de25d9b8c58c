"""Files nested too deep for a recursive reader: one clear error, wherever TOML or JSON is read."""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from admmnet import RunConfig, run
from admmnet.cli import run_command_line

DEEP = "[" * 3000
"""As TOML's value and as JSON: the reader stops before it sees that nothing closes them."""
RUN = ("run", "--quiet", "--simulate", "--rounds", "1", "--topology", "path:2", "--algorithm", "pp-admm")


def toml(name: str) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        (folder / name).write_text(f"a = {DEEP}\n")

    return write


def deep(name: str) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(DEEP)

    return write


def account(folder: Path) -> None:
    run(RunConfig(topology="path:2", rounds=1, simulate=True, account=str(folder / "account"), out=str(folder / "one")))
    deep("account/records.json")(folder)


def finished(name: str) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        run(RunConfig(topology="path:2", rounds=1, seed=0, out=str(folder / "one")))
        deep(f"one/{name}")(folder)

    return write


def journal(folder: Path) -> None:
    run(RunConfig(topology="path:2", rounds=2, simulate=True, out=str(folder / "one")))
    for name in ("summary.json", "manifest.json"):
        (folder / "one" / name).unlink()
    content = b"\x82\xa4type\xa3run\xa1x" + b"\x91" * 100_000 + b"\x90"
    length = len(content).to_bytes(4, "little")
    head = length + zlib.crc32(length).to_bytes(4, "little") + hashlib.sha256(content).digest()
    (folder / "one/journal.bin").write_bytes(head + content)


CASES: dict[str, tuple[Callable[[Path], None], tuple[str, ...], int]] = {
    "config": (toml("a.toml"), ("run", "a.toml"), 2),
    "network file": (toml("a.toml"), ("agent", "--id", "0", "--network", "a.toml"), 2),
    "graph": (deep("a.json"), ("topology", "show", "a.json"), 2),
    "schema": (deep("a.json"), ("data", "check", "b.csv", "--schema", "a.json"), 2),
    "account": (account, (*RUN, "--account", "account"), 2),
    "account's file": (deep("account/agent-000.jsonl"), ("account", "show", "account"), 1),
    "account's first line": (deep("account/agent-000.jsonl"), (*RUN, "--delta", "auto", "--account", "account"), 1),
    "summary": (finished("summary.json"), ("ledger", "verify", "one"), 1),
    "manifest": (finished("manifest.json"), ("ledger", "verify", "one"), 1),
    "part": (finished("part.json"), ("ledger", "verify", "one"), 1),
    "settings": (finished("config.toml"), ("plot", "one", "-o", "one.png"), 1),
    "encoding": (finished("encoding.json"), ("evaluate", "one", "--data", "census"), 2),
    "journal": (journal, ("run", "--resume", "one"), 2),
    "receipts": (finished("receipts/words.jsonl"), ("ledger", "verify", "one"), 1),
    "comparison": (deep("grid/compare.json"), ("compare", "--seeds", "0:1", "-o", "grid"), 2),
}


@pytest.mark.parametrize("name", CASES)
def test_one_clear_error(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write, words, code = CASES[name]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "b.csv").write_text("a,y\n1,1\n2,-1\n")
    write(tmp_path)
    capsys.readouterr()
    assert run_command_line(words) == code
    told = capsys.readouterr().err
    assert "internal error" not in told
    assert len(told.splitlines()) == 1, told
    assert json.dumps(DEEP)[:40] not in told
