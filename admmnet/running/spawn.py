"""One process an agent on this machine: starts them, passes on signals and errors, and reads what they wrote.

The agents meet over ipc sockets in a private folder. Standard input of each is a socket whose other end only the
starter has: it reports there, and ends by itself when the starter dies.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec

from admmnet.config.run_config import RunConfig
from admmnet.config.toml import load_config, to_toml
from admmnet.errors import IN_PART, KINDS, RequestError, RunError, StopRun
from admmnet.forms import ready
from admmnet.graph.simple import Graph
from admmnet.identity.keys import Identity
from admmnet.log import say
from admmnet.methods import METHODS
from admmnet.record.folder import default_folder
from admmnet.running.ends import last_words
from admmnet.running.events import GOES_ON, LONGEST, STOPS, AgentReport, OnRound, Outcome, outcome_of, say_round
from admmnet.running.loading import Loader
from admmnet.running.topics import TOPICS
from admmnet.solvers.losses import LOSSES
from admmnet.transport.hosts import Peer, make_network, read_network, secret_path, write_network, write_secret
from admmnet.transport.settings import NetworkSettings
from admmnet.transport.zmq.relay import Relay, Terms, forward

MODULE = "admmnet"
"""What an agent's process runs."""
PREFIX = "admmnet: "
LONGEST_FOLDER = 95
"""Letters of the sockets' folder: a socket's whole path has at most 107."""
FINISHED = (0, IN_PART)
"""Exit codes of agents that have finished."""
TOLD = (*FINISHED, 2, 3, 4, 130)
"""Exit codes of agents that have told the others themselves."""
_LAUNCHERS = ("PMI_", "PMIX_", "OMPI_", "MPI_")


def run_spawned(
    config: RunConfig,
    graph: Graph,
    on_start: Callable[[Any], None] | None = None,
    on_round: OnRound | None = None,
    *,
    stoppable: bool = True,
    debug: bool = False,
    loader: Loader | None = None,
) -> Outcome:
    """Run every agent of a network in a process of its own on this machine; the result is read from the run folder.

    ``graph`` is that of the settings, other arguments are those of ``run``; ``on_start`` gets resolved settings, graph,
    rounds, advice and task, as a ``Plan`` has them. What ended the agents is raised, every distinct message once; on
    Ctrl-C or SIGTERM KeyboardInterrupt once all have ended.
    """
    unseen = "the records of a loader in memory" if loader is not None else None
    if not METHODS.importable(config.algorithm) or not LOSSES.importable(config.loss):
        unseen = f"{config.algorithm} with loss {config.loss} of this one"
    if unseen is not None:
        raise RequestError(
            f"transport = 'zmq' starts other processes, which cannot see {unseen}: save it to a file and give its "
            "path, or take transport = 'local'"
        )
    if config.out is None and config.resume is None:
        config = config.changed(out=str(default_folder(config.algorithm)))
    folder = Path(str(config.out if config.resume is None else config.resume))

    def start(said: AgentReport) -> None:
        if on_start is not None:
            resolved, told = load_config(folder / "config.toml"), {"advice": said.advice, "task": said.task}
            on_start(SimpleNamespace(config=resolved, graph=graph, rounds=int(resolved.rounds), **told))

    with tempfile.TemporaryDirectory(prefix="admmnet-", ignore_cleanup_errors=True) as name:  # mode 0700
        if len(name) > LONGEST_FOLDER:
            raise RequestError(f"{name}: too long a path for sockets; set TMPDIR to a shorter one")
        private = Path(name)
        commands, answers = _commands(config, graph, private, debug=debug), stoppable and on_round is not None
        try:
            with _relayed(private / "network.toml", config.sections.network) as relay:
                gone: Callable[[int, str], None] = lambda agent, how: relay.deaths.append((agent, how))  # noqa: E731
                ends = Starter(commands, config.sections.network, start, on_round, answers, gone).run()
            _judge(ends, relay.reason)
        except KeyboardInterrupt as error:
            error.args = (last_words(folder),)
            raise
    return outcome_of(folder)


@contextlib.contextmanager
def _relayed(network: Path, about: NetworkSettings) -> Iterator[Relay]:
    """Relay of agents on this machine, in a thread."""
    found = read_network(network)
    deadlines = about.connect_deadline, about.heartbeat_deadline
    round = None if about.round_deadline == "auto" else float(about.round_deadline)
    relay, over = Relay(found, Terms(len(found.peers), 1, *deadlines, round, quiet=True), TOPICS), threading.Event()
    thread = threading.Thread(target=forward, args=(relay, over.is_set), name="relay", daemon=True)
    thread.start()
    try:
        yield relay
    finally:
        over.set()
        thread.join()
        relay.close()


def _commands(config: RunConfig, graph: Graph, private: Path, *, debug: bool) -> list[list[str]]:
    """Command line of every agent; what it needs to read lies in the private folder."""
    identities = {i: Identity.fresh() for i in graph}
    secret_path(private, 0).parent.mkdir(mode=0o700)
    for i, identity in identities.items():
        write_secret(secret_path(private, i), i, identity)
    peers = [Peer(i, own.public) for i, own in identities.items()]
    topology, seed = config.topology or "schedule", config.topology_seed or 0
    network = make_network(topology, graph.edges, peers, f"ipc://{private / 'relay'}", topology_seed=seed)
    write_network(network, private / "network.toml")
    (private / "config.toml").write_text(to_toml(config), encoding="utf-8")
    words = [sys.executable, "-P", "-m", MODULE, "agent", str(private / "config.toml"), "--quiet"]
    words += ["--network", str(private / "network.toml"), *(["--debug"] if debug else [])]
    words += ["--out", config.out] if config.out is not None else []
    words += ["--resume", config.resume] if config.resume is not None else []
    return [[*words, "--id", str(i)] for i in graph]


@dataclass
class ProcessEnd:
    """How an agent's process ended."""

    agent: int
    code: int
    """Its exit code, minus the number of the signal that ended it."""
    text: str
    """What it wrote to standard error, before it had to be ended from here."""


@dataclass
class _Child:
    agent: int
    process: subprocess.Popen[bytes]
    line: socket.socket
    """Other end of its standard input."""
    text: bytes = b""


@dataclass
class Starter:
    """Runs some commands with one end: what they report, how they end, and when they must have ended."""

    commands: Sequence[Sequence[str]]
    """One an agent; ``--started`` is added."""
    network: NetworkSettings
    """Deadlines."""
    start: Callable[[AgentReport], None]
    """Called with the message of the first agent that starts its first round."""
    on_round: OnRound | None
    """Called once a round, when the agent that writes the run folder has it behind it."""
    answers: bool = False
    """Whether that agent waits until it has returned, and the run ends where it raises ``StopRun``."""
    gone: Callable[[int, str], None] = lambda agent, how: None
    """Told of an agent that could not tell the others itself that it ends."""
    _living: list[_Child] = field(default_factory=list)
    _ends: list[ProcessEnd] = field(default_factory=list)
    _deadline: float | None = None
    _terminated: bool = False
    _started: bool = False
    _round: int = -1
    _stop: bool = False

    def run(self) -> list[ProcessEnd]:
        """Start all and wait until all have ended; in the order in which they did."""
        with selectors.DefaultSelector() as selector:
            try:
                for agent, words in enumerate(self.commands):
                    self._launch(agent, words, selector)
                self._watch(selector)
            except BaseException as error:
                number = signal.SIGINT if isinstance(error, KeyboardInterrupt) else signal.SIGTERM
                self._end(number, selector)
                raise
            finally:
                for child in self._living:
                    child.line.close()
        return self._ends

    def _launch(self, agent: int, words: Sequence[str], selector: selectors.BaseSelector) -> None:
        line, own = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)  # a message arrives whole or not
        with own:
            for end in line, own:
                end.setblocking(False)  # who stands still must not hold the others up
            try:
                process = subprocess.Popen(
                    [*words, "--started", "answered" if self.answers else "heard"],
                    stdin=own.fileno(),
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                    env=environment(),
                    process_group=0,  # Ctrl-C at the terminal reaches the starter alone, which passes it on
                )
            except BaseException:
                line.close()
                raise
        child = _Child(agent, process, line)
        self._living.append(child)
        assert process.stderr is not None
        os.set_blocking(process.stderr.fileno(), False)
        for stream in line, process.stderr:
            selector.register(stream, selectors.EVENT_READ, child)

    def _watch(self, selector: selectors.BaseSelector) -> None:
        """Wait until every agent has ended, or else the deadline is over: then end it."""
        while self._living:
            left = None if self._deadline is None else self._deadline - time.monotonic()
            ready = selector.select(None if left is None else max(left, 0.0))
            for key, _ in ready:
                child: _Child = key.data
                if key.fileobj is not child.line:
                    self._said(child, selector)
                elif child in self._living and not self._reported(child.line):
                    selector.unregister(child.line)  # the end of the agent, which standard error tells
            if not ready and left is not None and left <= 0.0:
                self._signal(signal.SIGKILL if self._terminated else signal.SIGTERM)
                self._terminated = True
                self._deadline = time.monotonic() + min(2.0, self.network.shutdown_deadline)

    def _end(self, number: int, selector: selectors.BaseSelector) -> None:
        """Pass a signal on to every agent and wait; whoever has not ended by the deadline is killed."""
        self.start, self.on_round = (lambda said: None), None
        self._signal(number)
        self._deadline, self._terminated = time.monotonic() + self.network.shutdown_deadline, True
        try:
            self._watch(selector)
        except BaseException:  # a second Ctrl-C
            self._signal(signal.SIGKILL)
            for child in self._living:
                child.process.wait()
            raise

    def _signal(self, number: int) -> None:
        for child in self._living:
            child.process.send_signal(number)  # which knows of a process that has ended already

    def _said(self, child: _Child, selector: selectors.BaseSelector) -> None:
        """Read an agent's standard error; its end is the end of the agent."""
        stream = child.process.stderr
        assert stream is not None
        while data := stream.read(65536):
            child.text += b"" if self._terminated else data  # what an agent says of our signal explains nothing
        if data is None:
            return
        selector.unregister(stream)
        if child.line in selector.get_map():
            selector.unregister(child.line)
        stream.close()
        code = child.process.wait()
        self._living.remove(child)
        with child.line:
            while self._reported(child.line):  # what it has said last
                pass
        if code not in TOLD and not self._terminated:
            self.gone(child.agent, _how(code))
        self._ends.append(ProcessEnd(child.agent, code, child.text.decode(errors="replace")))
        if self._deadline is None:  # a killed agent is missed after a heartbeat deadline at most, others tell that
            seconds = self.network.shutdown_deadline + (self.network.heartbeat_deadline if code < 0 else 0.0)
            self._deadline = time.monotonic() + seconds

    def _reported(self, line: socket.socket) -> bool:
        """Take in a message, and answer it; return whether there was one."""
        try:
            data = line.recv(LONGEST)
        except OSError:
            data = b""
        if not data:
            return False
        said = msgspec.json.decode(data, type=ready(AgentReport))
        if said.event is not None:
            say(**said.event)
        elif (event := said.round) is not None:
            if event.round > self._round:
                self._round = event.round
                say_round(self._round, event)
                try:
                    if self.on_round is not None:
                        self.on_round(event)
                except StopRun:
                    self._stop = True
            with contextlib.suppress(OSError):  # of an agent that has just ended
                if self.answers:
                    line.send(STOPS if self._stop else GOES_ON)
        elif not self._started:
            self._started = True
            self.start(said)
        return True


def environment() -> dict[str, str]:
    """Environment of an agent: this admmnet, no trace of an MPI launcher, no threads that nobody uses."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_LAUNCHERS)}
    here = str(Path(__file__).resolve().parents[2])
    kept["PYTHONPATH"] = os.pathsep.join([here, *filter(None, [kept.get("PYTHONPATH")])])
    return {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", **kept}


def _judge(ends: Sequence[ProcessEnd], reason: str = "") -> None:
    """Raise what ended the run, if it did not finish; ``reason`` is the relay's, where no agent has told one.

    One agent that ended with 0 has seen the whole run folder: those that did not were lost on the way.
    """
    foreign = dict.fromkeys(line for end in ends for line in _split(end.text)[0])
    for line in foreign:
        sys.stderr.write(line + "\n")  # warnings of libraries and tracebacks, once each
    if any(end.code in FINISHED for end in ends):
        for text in dict.fromkeys(text for end in ends if end.code not in FINISHED for text in _split(end.text)[1]):
            sys.stderr.write(f"{PREFIX}{text}\n")
        return
    if any(end.code == 130 for end in ends):
        raise KeyboardInterrupt
    kind = next((kind for code, kind in KINDS.items() if any(end.code == code for end in ends)), None)
    codes = () if kind is None else (kind.exit_code,)
    messages = dict.fromkeys(
        text for end in sorted(ends, key=lambda end: end.code not in codes) for text in _split(end.text)[1]
    )
    plain = (
        f"the process of agent {end.agent} {_how(end.code)}; the ledgers hold everything that was sent" for end in ends
    )
    raise (kind or RunError)(f"\n{PREFIX}".join(messages or ([reason] if reason else plain)))


def _split(text: str) -> tuple[list[str], list[str]]:
    """Other lines, and our messages without their prefix; a message may go over several lines."""
    before, *messages = ("\n" + text).split("\n" + PREFIX)
    return [before.strip("\n")] if before.strip() else [], [message.rstrip("\n") for message in messages]


def _how(code: int) -> str:
    return f"ended with exit code {code}" if code >= 0 else f"was ended by {signal.Signals(-code).name}"
