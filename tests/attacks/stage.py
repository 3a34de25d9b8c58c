"""Four real agents with keys, of which the first may lie: started, waited for, and what they left.

Every agent is `admmnet agent` over tcp with CURVE, in a process of its own with a folder of its own.
"""

from __future__ import annotations

import atexit
import io
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import structs

from admmnet.transport.hosts.network import read_network, write_network
from tests.attacks.liar import arm
from tests.attacks.lies import LIES, WIDTH
from tests.people_runs import write_people
from tests.processes.warm import FORKS
from tests.processes.zmq_crew import free_ports

EDGES = ((0, 1), (0, 3), (1, 2), (1, 3), (2, 3))
"""Agent 0 lies to its neighbours 1 and 3, and is no neighbour of 2; without it the others are connected."""
HONEST = (1, 2, 3)
ROUNDS = 6
DEADLINE = 120.0
"""Seconds until agents that hang are killed, which no test takes for an end."""
LIMITS = {"connect": 60, "heartbeat": 6, "round": 12, "shutdown": 3}


@dataclass(frozen=True)
class Left:
    """What an agent left: exit code (None: it hung), what it wrote, its run folder."""

    code: int | None
    out: str
    err: str
    folder: Path

    @property
    def summary(self) -> Path:
        return self.folder / "summary.json"

    @property
    def model(self) -> dict[str, bytes]:
        with np.load(self.folder / "model.npz") as arrays:
            return {name: arrays[name].tobytes() for name in arrays.files}

    def verified(self) -> str:
        """What `ledger verify` says; "" where it finds nothing wrong."""
        said = io.StringIO()
        with redirect_stdout(said), redirect_stderr(said):
            from admmnet.cli import run_command_line

            code = run_command_line(["ledger", "verify", str(self.folder)])
        return said.getvalue() if code else ""


def make_network(folder: Path, records: int | None = None) -> Path:
    """Network file and keys of four agents on this machine."""
    from admmnet.cli import run_command_line

    (folder / "net.edges").write_text("".join(f"{i} {j}\n" for i, j in EDGES))
    (folder / "hosts").write_text("".join(f"127.0.0.1:{port}\n" for port in free_ports(4)))
    with redirect_stdout(io.StringIO()):
        words = ("network", "init", folder / "net.edges", "--hosts", folder / "hosts", "-o", folder / "net")
        assert run_command_line([str(word) for word in words]) == 0
    file = folder / "net" / "network.toml"
    network = read_network(file)
    write_network(replace(network, peers=tuple(structs.replace(peer, records=records) for peer in network.peers)), file)
    return file


def perform(
    folder: Path, lie: str | None = None, *, limits: Mapping[str, float] = LIMITS, **settings: Any
) -> list[Left]:
    """Run the four to their ends; the first one tells ``lie``."""
    network = make_network(folder, None if lie is None else LIES[lie].records)
    data = write_people(folder / "people.npz", 400, width=WIDTH - 1)
    values = {"algorithm": "pp-admm", "data": data, "seed": 0, "rounds": ROUNDS}
    values["strikes"] = 0  # what is looked at is one start
    values |= {f"{name}_deadline": seconds for name, seconds in limits.items()} | settings
    words = [word for name, value in values.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    started: list[Any] = []
    for agent in range(4):
        own = ["agent", "--id", str(agent), "--network", str(network), "-o", str(folder / str(agent))]
        process = FORKS.Process(
            target=_agent, args=([*own, *words], folder / f"said-{agent}", lie if not agent else None)
        )
        process.start()
        started.append(process)
    left = []
    for agent, process in sorted(enumerate(started), reverse=True):  # the liar last: it may never end
        process.join(DEADLINE if agent else 5.0)
        code = process.exitcode
        if code is None:
            process.kill()
            process.join(20.0)
        out, err = ((folder / f"said-{agent}.{kind}").read_text(errors="replace") for kind in ("out", "err"))
        left.append(Left(code, out, err, folder / str(agent)))
    return left[::-1]


def _agent(words: Sequence[str], said: Path, lie: str | None) -> None:
    for number, kind in ((1, "out"), (2, "err")):
        file = os.open(f"{said}.{kind}", os.O_WRONLY | os.O_CREAT, 0o600)
        os.dup2(file, number)
    sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False, buffering=1)  # noqa: SIM115
    if lie is not None:
        arm(LIES[lie])
    from admmnet.cli import run_command_line

    code = run_command_line(words)
    atexit._run_exitfuncs()  # it takes leave of its neighbours, as `python -m admmnet` does
    sys.stdout.flush()
    sys.stderr.flush()
    sys.exit(code)
