"""Small run folders, and copies that look as if their run had been interrupted, or had gone on without an agent."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from admmnet import RunConfig, run
from admmnet.record.folder import write_part
from tests.people_runs import put_summary, seal, summary_of

ROUNDS = 6


def made(folder: Path, **settings: Any) -> Path:
    """Folder of a small run; by default a seeded one of pp-admm on a ring of 5."""
    quick = {"algorithm": "pp-admm", "epsilon": 5.0, "topology": "ring:5", "rounds": ROUNDS, "seed": 0}
    given: dict[str, Any] = {name: value for name, value in (quick | settings).items() if value is not None}
    if not {"seed", "simulate"} & given.keys():
        given |= {"private": True, "no_test": True, "no_account": True}
    run(RunConfig(**given, out=str(folder)))
    return folder


def _keep_rounds(ledger: Path, rounds: int) -> None:
    """Cut a ledger behind the charges of its first rounds."""
    header, *lines = ledger.read_bytes().splitlines(keepends=True)
    kept = [line for line in lines if json.loads(line).get("round", rounds) < rounds]
    ledger.write_bytes(b"".join([header, *kept]))


def unfinished(source: Path, folder: Path, *, rounds: int, agents: int) -> Path:
    """Copy of a run that died while it wrote the figures of round ``rounds``, whose charges are in the ledgers."""
    shutil.copytree(source, folder)
    for name in ("manifest.json", "summary.json", "model.npz"):
        (folder / name).unlink()
    for ledger in (folder / "ledger").iterdir():
        _keep_rounds(ledger, rounds + 1)
    lines = (folder / "metrics.csv").read_text(encoding="utf-8").splitlines(keepends=True)
    whole = 1 + rounds * (1 + agents)
    (folder / "metrics.csv").write_text(
        "".join(lines[: whole + 1]) + "".join(lines[whole + 1 : whole + 2])[:7], encoding="utf-8"
    )
    return folder


def with_away(source: Path, folder: Path, *, agent: int, round: int) -> Path:
    """Copy of a run that goes on without an agent from a round on: its ledger has no end and no digest."""
    shutil.copytree(source, folder)
    name = f"ledger/agent-{agent:03d}.jsonl"
    _keep_rounds(folder / name, round)
    summary = summary_of(folder)
    del summary["ledgers"][name]
    told = ("agent", "records", "degree", "releases", "test_error")
    entry = {
        key: value if key in told else None
        for key, value in summary["per_agent"][agent].items()
        if key not in ("asked", "yes", "silent")
    }
    summary["per_agent"][agent] = entry
    others = [i for i in range(summary["agents"]) if i != agent]
    starts = zip((0, 1), ([*range(summary["agents"])], others), (0, round), ("", "agent gone"), strict=True)
    summary["starts"] = [
        {"number": number, "members": members, "round": first, "rule": "go on", "cause": cause}
        for number, members, first, cause in starts
    ]
    summary["away"] = {str(agent): [f"{round}-{summary['rounds'] - 1}"]}
    summary["transport"] = "zmq"
    head, *lines = (folder / "metrics.csv").read_text(encoding="utf-8").splitlines()
    rows = [line.split(",") for line in lines]
    (last,) = (row for row in rows if row[:2] == [str(round - 1), str(agent)])
    rows = [[*row[:2], *last[2:]] if int(row[0]) >= round and row[1] == str(agent) else row for row in rows]
    (folder / "metrics.csv").write_text("\n".join([head, *map(",".join, rows)]) + "\n", encoding="utf-8")
    put_summary(folder, summary)
    return folder


def part_of(source: Path, folder: Path, *, agent: int, agents: int) -> Path:
    """Copy of a run as one agent has it: with its own ledger alone."""
    shutil.copytree(source, folder)
    for ledger in (folder / "ledger").iterdir():
        if ledger.name != f"agent-{agent:03d}.jsonl":
            ledger.unlink()
    write_part(folder, agent, agents)
    seal(folder)
    return folder
