"""Agents on hosts of their own and their relay, each line through a proxy of its own."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import msgspec

from admmnet import read_run
from admmnet.cli import run_command_line
from admmnet.errors import CheckFailed
from admmnet.evidence.judge import judged
from admmnet.identity.keys import Identity
from admmnet.transport.hosts import Keys, as_toml, read_network, secret_path, write_secret
from admmnet.transport.zmq.relay import Memory
from tests.people_runs import write_people

from .launch import DEADLINE, FAULTY, Process, begin
from .proxy import Proxy, free_port
from .test_everywhere import ledgers, model

NONE = "none:9:0"
SEEDED = ("--algorithm", "pp-admm", "--seed", "3", "--quiet")
BUDGET = ("--epsilon", "20", "--delta", "1e-4", "--no-account")
PRIVATE = ("--algorithm", "pp-admm", "--features", "4", "--whiten", "off", *BUDGET)
"""Each agent takes the whole file for its own; without stages a fault's number is that of its round."""
QUIET = ("--no-test", "--quiet")
GOING_ON = "going on with the agents that are there"


class Hosts:
    """``relay`` are more words of the relay; agents are ``faulty_agent``."""

    def __init__(
        self,
        folder: Path,
        rounds: int,
        *relay: str,
        graph: str = "path:3",
        words: Sequence[str] = SEEDED,
        own: Any = (),
        delay: float = 0.0,
        init: Sequence[str] = (),
    ) -> None:
        self.folder, self.graph, self.agents = folder, graph, int(graph.split(":")[1])
        self.words = (*words, "--rounds", str(rounds), "--data", write_people(folder / "people.npz"))
        self.more = ("--heartbeat-deadline", "2", "--resume", "auto", *own)
        self._relay = ("--heartbeat-deadline", "2", *relay)
        port = free_port()
        made = ["network", "init", graph, "--relay", f"127.0.0.1:{port}", "-o", str(folder / "net"), *init]
        assert run_command_line(made) == 0
        self.processes, self.arrived = dict[int, Process](), folder / "arrived"
        self.arrived.mkdir()
        self.proxies = [Proxy(port, delay) for _ in range(self.agents)]
        self._address = f"tcp://127.0.0.1:{port}"
        text = (folder / "net/network.toml").read_text()
        for i in range(self.agents):
            (folder / f"net/{i}.toml").write_text(text.replace(self._address, self.proxies[i].address))

    def __enter__(self) -> Self:
        self.start_relay()
        return self

    def __exit__(self, *exception: object) -> None:
        for process in self.processes.values():
            process.kill()
            process.communicate()
        for proxy in self.proxies:
            proxy.close()

    def start_relay(self) -> None:
        words = ["relay", "--network", str(self.folder / "net/network.toml"), "--out", str(self.folder / "relay")]
        words += ["--log", str(self.folder / "relay.log"), *self._relay]
        self.processes[-1] = begin(sys.executable, "-m", FAULTY, *words, **self.own(-1))

    def move(self) -> None:
        """Another address and another key of the relay, which was killed; agents are started again with them."""
        port, key = free_port(), Identity.fresh()
        text = (self.folder / "net/network.toml").read_text()
        old, address = read_network(self.folder / "net/network.toml").relay_key, f"tcp://127.0.0.1:{port}"
        new = Keys.of(key).public
        (self.folder / "net/network.toml").write_text(
            text.replace(self._address, address).replace(as_toml(str(old)), as_toml(new))
        )
        self._address = address
        secret = secret_path(self.folder / "net", None)
        secret.unlink()
        write_secret(secret, None, key)
        for i in range(self.agents):
            self.proxies[i].target = port
            own = self.folder / f"net/{i}.toml"
            own.write_text(own.read_text().replace(as_toml(str(old)), as_toml(new)))
            self.kill(i)
            self.start(i)

    def kill(self, place: int) -> None:
        """Kill an agent, or the relay (-1)."""
        self.processes[place].kill()
        self.processes[place].communicate()

    def start(self, agent: int, fault: str = NONE, *more: str) -> None:
        """Start an agent, or the relay (-1)."""
        if agent < 0:
            self.start_relay()
            return
        network = ("--id", str(agent), "--network", str(self.folder / f"net/{agent}.toml"))
        words = ("agent", *network, *self.words, *self.more, *more, "-o", str(self.folder / str(agent)))
        own: dict[str, Any] = {"ADMMNET_FAULT": fault, "ADMMNET_ARRIVED": self.arrived}
        own |= {"ADMMNET_LOG": self.folder, **self.own(agent)}
        self.processes[agent] = begin(sys.executable, "-m", self.module(agent), *words, **own)

    def module(self, agent: int) -> str:
        """What runs an agent."""
        return FAULTY

    def own(self, agent: int) -> dict[str, str]:
        """More of the environment of an agent, or of the relay (-1)."""
        return {}

    def start_all(self, fault: str = NONE, *more: str) -> None:
        for agent in range(self.agents):
            self.start(agent, fault, *more)

    @contextmanager
    def held(self, agent: int = 1, round: int = 3) -> Iterator[None]:
        """All are started; one computes in a round, and hears nothing, until the block is over."""
        self.start_all(f"hang:{agent}:{round}")
        self.until(lambda: any(self.arrived.iterdir()))
        yield
        (self.arrived / "go").touch()

    def ended(self, agent: int) -> tuple[int, str]:
        _, told = self.processes[agent].communicate(timeout=DEADLINE)
        return self.processes[agent].wait(), told

    def all_ended(self) -> list[tuple[int, str]]:
        return [self.ended(agent) for agent in range(self.agents)]

    def codes(self, *agents: int) -> list[int]:
        """How these have ended, or all."""
        return [self.ended(agent)[0] for agent in agents or range(self.agents)]

    def done(self, agent: int, rounds: int) -> None:
        """Wait until an agent has so many rounds behind it."""
        figures = self.folder / str(agent) / "metrics.csv"

        def last() -> int:
            rows = figures.read_text().splitlines()[1:] if figures.exists() else []
            return max((int(row.split(",")[0]) for row in rows), default=-1)

        self.until(lambda: last() >= rounds - 1)

    def logged(self, word: str, times: int = 1) -> None:
        """Wait until the relay has said something."""
        log = self.folder / "relay.log"
        self.until(lambda: log.exists() and log.read_text().count(word) >= times)

    def kept(self) -> Memory:
        """What the relay has kept of the run's agents."""
        path = self.folder / "relay/relay.json"
        return msgspec.json.decode(path.read_bytes(), type=Memory) if path.exists() else Memory("", {}, [], [])

    def until(self, holds: Callable[[], bool]) -> None:
        until = time.monotonic() + DEADLINE
        while not holds():
            assert time.monotonic() < until, [process.poll() for process in self.processes.values()]
            threading.Event().wait(0.01)

    def finish(self, *, quietly: bool = False) -> None:
        """All finish, nobody is struck out, and there is one model: with a seed that of one process, charged once."""
        ends = self.all_ended()
        assert {code for code, _ in ends} == {0}, ends
        assert not self.kept().out
        assert not quietly or {told for _, told in ends} == {""}
        assert self.summaries().keys() == {*range(self.agents)}
        if "--seed" not in self.words:
            return
        local = self.folder / "local"
        assert run_command_line(["run", *self.words, "--topology", self.graph, "-o", str(local)]) == 0
        for agent in range(self.agents):
            folder, name = self.folder / str(agent), f"agent-00{agent}.jsonl"
            assert ledgers(folder) == {name: ledgers(local)[name]}
            assert (folder / "metrics.csv").read_bytes() == (local / "metrics.csv").read_bytes()
            assert model(folder)["theta"].tobytes() == model(local)["theta"].tobytes()

    def summaries(self, liar: int | None = None) -> dict[int, Any]:
        """Summaries of those that have finished, with one model; their folders verify beside each other.

        What does not verify is the word of a liar. No round is charged twice.
        """
        paths = {agent: self.folder / str(agent) for agent in range(self.agents)}
        found = {i: path / "summary.json" for i, path in paths.items() if (path / "summary.json").exists()}
        for agent in found:
            try:
                judged(paths[agent], [paths[j] for j in found if j != agent])
            except CheckFailed as error:
                assert liar is not None, error  # noqa: PT017 (it names the liar)
                assert str(error).startswith(f"agent {liar} has "), error  # noqa: PT017
        assert len({model(paths[agent])["theta"].tobytes() for agent in found}) <= 1
        for path in (path for path in paths.values() if (path / "ledger").exists()):
            for book in read_run(path).ledgers.values():
                assert book.count == len({(round, event.mechanism) for round, event, _ in book.events})
        return {i: json.loads(path.read_bytes()) for i, path in found.items()}


@contextmanager
def going(*given: Any, **how: Any) -> Iterator[Hosts]:
    """Hosts whose agents have some rounds behind them, and finish once the block is over."""
    with Hosts(*given, **how) as hosts:
        hosts.start_all()
        hosts.done(0, 5)
        yield hosts
        hosts.finish()
