"""Files nested too deep for a recursive reader: one clear error, wherever TOML or JSON is read."""

from __future__ import annotations

import hashlib
import zlib
from pathlib import Path
from typing import Any

import pytest

from admmnet import run
from admmnet.cli import run_command_line

DEEP = "[" * 3000
"""As TOML's value and as JSON: the reader stops before it sees that nothing closes them."""
RUN = "run --quiet --simulate --rounds 1 --topology path:2 --algorithm pp-admm"
CASES: dict[str, tuple[str, str, int]] = {
    "config": ("a.toml", "run a.toml", 2),
    "network file": ("a.toml", "agent --id 0 --network a.toml", 2),
    "graph": ("a.json", "topology show a.json", 2),
    "schema": ("a.json", "data check b.csv --schema a.json", 2),
    "account": ("account/records.json", f"{RUN} --account account", 2),
    "account's file": ("new/agent-000.jsonl", "account show new", 1),
    "account's first line": ("new/agent-000.jsonl", f"{RUN} --delta auto --account new", 1),
    "summary": ("one/summary.json", "ledger verify one", 1),
    "manifest": ("one/manifest.json", "ledger verify one", 1),
    "part": ("one/part.json", "ledger verify one", 1),
    "settings": ("one/config.toml", "plot one -o one.png", 1),
    "encoding": ("one/encoding.json", "evaluate one --data census", 2),
    "journal": ("one/journal.bin", "run --resume one", 2),
    "receipts": ("one/receipts/words.jsonl", "ledger verify one", 1),
    "comparison": ("grid/compare.json", "compare --seeds 0:1 -o grid", 2),
}


def journal() -> bytes:
    content = b"\x82\xa4type\xa3run\xa1x" + b"\x91" * 100_000 + b"\x90"
    length = len(content).to_bytes(4, "little")
    return length + zlib.crc32(length).to_bytes(4, "little") + hashlib.sha256(content).digest() + content


@pytest.mark.parametrize("name", CASES)
def test_one_clear_error(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file, words, code = CASES[name]
    monkeypatch.chdir(tmp_path)
    Path("b.csv").write_text("a,y\n1,1\n2,-1\n")
    mode: dict[str, Any] = {"simulate": True, "account": "account"} if name in ("account", "journal") else {"seed": 0}
    if file.startswith(("one/", "account/")):
        run(topology="path:2", rounds=1, out="one", **mode)
    if name == "journal":
        for finished in ("summary.json", "manifest.json"):
            (Path("one") / finished).unlink()
    Path(file).parent.mkdir(parents=True, exist_ok=True)
    text = f"a = {DEEP}\n" if file == "a.toml" else DEEP
    Path(file).write_bytes(journal() if name == "journal" else text.encode())
    capsys.readouterr()
    assert run_command_line(words.split()) == code
    told = capsys.readouterr().err
    assert "internal error" not in told
    assert len(told.splitlines()) == 1, told
    assert DEEP[:40] not in told
