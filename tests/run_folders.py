"""Small run folders, and copies that look as if their run had been interrupted, or had gone on without an agent."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import msgspec

from admmnet import RunConfig, run
from admmnet.forms import decode, encode
from admmnet.identity.keys import Identity
from admmnet.record.finish import FINISH, Finish, model_of, read_end
from admmnet.record.folder import SUMMARY, model_bytes, sha256, write_part
from admmnet.record.forms import Summary
from admmnet.record.journal import JOURNAL, Ended, Made, Record, Run, record_bytes
from admmnet.record.receipts import Keys
from admmnet.running.closing import made_of
from admmnet.transport.hosts import Network, Peer, make_network
from admmnet.transport.zmq.meeting import end_statement
from tests.people_runs import put_summary, seal, summary_of

ROUNDS = 6
Files = dict[str, bytes]


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
    told = [json.loads(line) for line in lines]
    kept = [line for line, one in zip(lines, told, strict=True) if "stage" in one or one.get("round", rounds) < rounds]
    ledger.write_bytes(b"".join([header, *kept]))


def unfinished(source: Path, folder: Path, *, rounds: int, agents: int) -> Path:
    """Copy of a run that died while it wrote the figures of round ``rounds``, whose charges are in the ledgers."""
    shutil.copytree(source, folder)
    for name in ("manifest.json", "summary.json", "model.npz"):
        (folder / name).unlink()
    for ledger in (folder / "ledger").iterdir():
        _keep_rounds(ledger, rounds + 1)
    lines, whole = (folder / "metrics.csv").read_text(encoding="utf-8").splitlines(keepends=True), 1 + agents
    torn = "".join(lines[: rounds * whole + 2]) + "".join(lines[rounds * whole + 2 :])[:7]
    (folder / "metrics.csv").write_text(torn, encoding="utf-8")
    return folder


def with_away(source: Path, folder: Path, *, agent: int, round: int) -> Path:
    """Copy of a run that goes on without an agent from a round on: its ledger has no end and no digest."""
    shutil.copytree(source, folder)
    name = f"ledger/agent-{agent:03d}.jsonl"
    _keep_rounds(folder / name, round)
    summary = summary_of(folder)
    del summary["ledgers"][name]
    told, never = ("agent", "records", "degree", "releases", "test_error"), ("asked", "yes", "silent")
    entry = summary["per_agent"][agent].items()
    summary["per_agent"][agent] = {key: value if key in told else None for key, value in entry if key not in never}
    everybody = [*range(summary["agents"])]
    others = [i for i in everybody if i != agent]
    summary["starts"] = [
        {"number": 0, "members": everybody, "round": 0, "rule": "go on", "cause": ""},
        {"number": 1, "members": others, "round": round, "rule": "go on", "cause": "agent gone"},
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


def ended(folder: Path, agents: int = 3) -> Network:
    """Make the folders 0, 1, ... of agents on hosts of their own after a private run, whose end they all have signed.

    Return the network of these agents.
    """
    name, keys = "5e" * 32, [Identity.fresh() for _ in range(agents)]
    peers, edges = [Peer(i, key.public) for i, key in enumerate(keys)], [*combinations(range(agents), 2)]
    network = make_network(f"complete:{agents}", edges, peers, "ipc://relay")
    whole = made(folder / "whole", topology=f"complete:{agents}", rounds=2, seed=None)
    put_summary(whole, summary_of(whole) | {"transport": "zmq"})
    digest = read_end({name: (whole / name).read_bytes() for name in ("model.npz", SUMMARY)})[1]
    said = end_statement(network.digest, name, digest)
    staged = {str(i): key.sign(said).hex() for i, key in enumerate(keys)}
    finish = Finish(run=name, network=network.digest, digest=digest, staged=staged)
    first = Keys(run=name, keys={str(i): key.public for i, key in enumerate(keys)})
    for i in range(agents):
        own = part_of(whole, folder / str(i), agent=i, agents=agents)
        (own / "receipts").mkdir()
        (own / "receipts/words.jsonl").write_bytes(encode(first) + b"\n")
        (own / FINISH).write_bytes(encode(finish, indent=2))
        seal(own)
    return network


def unended(source: Path, folder: Path) -> Path:
    """Copy of the folder of agent 2 of ``ended`` that was killed before its last files had their names."""
    shutil.copytree(source, folder)
    finish = decode(Finish, (folder / FINISH).read_bytes(), indent=2)
    made = made_of(sha256(folder / "ledger/agent-002.jsonl"), {"model.npz": (folder / "model.npz").read_bytes()})
    remember(folder, Run(finish.run, {}, bytes(32)), Made(made), Ended(finish.digest))
    for name in (SUMMARY, "manifest.json", FINISH, "model.npz"):
        (folder / name).unlink()
    return folder


def remember(folder: Path, *records: Record) -> None:
    """Write a journal of these records."""
    (folder / JOURNAL).write_bytes(b"".join(map(record_bytes, records)))


def put(name: str, *place: Any, value: Any) -> Callable[[Files], None]:
    """Change of one value in summary.json or finish.json among last files."""

    def change(files: Files) -> None:
        said = at = json.loads(files[name])
        for key in place[:-1]:
            at = at[key]
        at[place[-1]] = value
        files[name] = encode(msgspec.convert(said, Summary if name == SUMMARY else Finish), indent=2)

    return change


def double_model(files: Files) -> None:
    """Change the model among last files."""
    model = model_of(files, "")
    files["model.npz"] = model_bytes(model["theta"] * 2.0, list(model["feature_names"]))
