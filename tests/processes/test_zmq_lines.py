"""Lines that are cut, and people on them who should not be there."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import zmq
from zmq.utils.monitor import parse_monitor_message

from admmnet.transport.hosts.keys import Keys

from .test_zmq_faults import counts
from .zmq_crew import Crew, Proxy, deadlines, path, proxy_to

pytestmark = pytest.mark.processes

GREETING, WELCOME, READY = 64, 170, 30
"""Bytes of ZMTP's greeting and at least of the answers of a CURVE server, framed."""


@contextlib.contextmanager
def between(folder: Path, acts: dict[str, Any], **others: Any) -> Iterator[tuple[Crew, list[Proxy]]]:
    """Two processes whose lines go through proxies: the first leads to agent 0, the second to agent 1."""
    crew = Crew(folder, path(2), 2, own={0: {}, 1: {"acts": acts}}, **others)
    with contextlib.ExitStack() as opened:
        opened.enter_context(crew)
        proxies = [opened.enter_context(proxy_to(crew.spec["addresses"][str(i)])) for i in (0, 1)]
        for i in (0, 1):
            crew.spec["own"][str(i)]["addresses"] = {str(1 - i): proxies[1 - i].address}
        yield crew, proxies


def test_a_line_that_is_cut_and_comes_back_loses_nothing(tmp_path: Path) -> None:
    rounds = (3, 6, 9, 12)
    acts = {str(round): [["wait"]] for round in rounds}
    how = {"curve": True, "tcp": True, "rounds": 15, "deadlines": deadlines(heartbeat=20.0)}
    with between(tmp_path, acts, **how) as (crew, proxies):
        crew.start()
        for time, _ in enumerate(rounds, start=1):
            crew.said(1, "waiting", time)
            for proxy in proxies:
                proxy.cut()
            crew.members[1].tell()  # it speaks into a broken line
            for proxy in proxies:
                proxy.mend()
        crew.all_end_well()
        for rank in (0, 1):
            assert len(crew.members[rank].said("round")) == 15
            assert counts(crew, rank).keys() <= {"duplicate", "gap"}
        assert all(len(proxy.tapes) > len(rounds) for proxy in proxies)


def test_a_line_comes_back_while_its_process_computes(tmp_path: Path) -> None:
    """Somebody must open the door then: else the neighbour would take a slow process for a dead one."""
    with between(tmp_path, {"2": [["wait"]]}, curve=True, deadlines=deadlines(heartbeat=20.0)) as (crew, proxies):
        crew.start().said(1, "waiting")
        for proxy in proxies:
            proxy.cut()
            proxy.mend()
        before = len(proxies[1].tapes)
        proxies[1].carried(lambda tapes: len(tapes[-1][1]) > GREETING + WELCOME + READY)
        assert len(proxies[1].tapes) >= before
        crew.goes_on(1)


def test_a_line_that_stays_cut(tmp_path: Path) -> None:
    with between(tmp_path, {"2": [["wait"]]}, curve=True) as (crew, proxies):
        crew.start().said(1, "waiting")
        for proxy in proxies:
            proxy.cut()
        crew.members[1].tell()
        assert set(crew.finish().values()) == {3}
        assert crew.error(0).startswith("agent 1 is lost in round ")
        assert crew.error(1).startswith("agent 0 is lost in round ")


PLAIN = (GREETING + 28, GREETING + 28)
"""Greeting and READY of a handshake without keys, and the answer."""


def knock(address: str, server_key: str | None, keys: Keys | None) -> set[int]:
    """Try to get in and send something; what became of the handshake."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    push = context.socket(zmq.DEALER)
    monitor = push.get_monitor_socket()
    try:
        push.linger = 0
        if keys is not None and server_key is not None:
            push.curve_serverkey = server_key.encode()
            push.curve_publickey, push.curve_secretkey = keys.public.encode(), keys.secret.encode()
        push.connect(address)
        push.send(b"let me in")
        ends = zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_HANDSHAKE_FAILED_AUTH | zmq.EVENT_DISCONNECTED
        ends |= zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
        found: set[int] = set()
        while not found & {int(bit) for bit in zmq.Event if bit & ends}:
            assert monitor.poll(20_000), "no answer within 20 s"
            found.add(int(parse_monitor_message(monitor.recv_multipart())["event"]))
        return found
    finally:
        push.disable_monitor()
        context.destroy(0)


def test_strangers_and_other_agents_are_not_let_in(tmp_path: Path) -> None:
    with Crew(tmp_path, path(3), 3, curve=True, own={0: {"acts": {"2": [["wait"]]}}}) as crew:
        crew.start().said(0, "waiting")
        address, key = crew.spec["addresses"]["0"], crew.spec["keys"][0]["public"]
        stranger, not_a_neighbour = Keys.fresh(), Keys(**crew.spec["keys"][2])
        for keys in (stranger, not_a_neighbour):
            found = knock(address, key, keys)
            assert zmq.EVENT_HANDSHAKE_FAILED_AUTH in found
            assert zmq.EVENT_HANDSHAKE_SUCCEEDED not in found
        neighbour = Keys(**crew.spec["keys"][1])
        assert zmq.EVENT_HANDSHAKE_SUCCEEDED not in knock(address, None, None)  # without CURVE
        assert zmq.EVENT_HANDSHAKE_SUCCEEDED not in knock(address, stranger.public, neighbour)
        # the neighbour's own key would be let in: it is the keys that decide
        assert zmq.EVENT_HANDSHAKE_SUCCEEDED in knock(address, key, neighbour)
        crew.goes_on(0)
        assert counts(crew, 0)["turned away"] >= 2


@pytest.mark.parametrize("whose", ["a stranger's", "a non-neighbour's"])
def test_an_agent_with_a_wrong_key_is_named(whose: str, tmp_path: Path) -> None:
    with Crew(tmp_path, path(4), 4, curve=True, deadlines=deadlines(connect=4.0)) as crew:
        other = Keys.fresh()
        wrong = {"public": other.public, "secret": other.secret} if whose == "a stranger's" else crew.keys[3]
        crew.spec["own"]["0"] = {"keys": wrong}
        assert set(crew.start(0, 1).finish().values()) == {3}
        assert "agent 1 at" in crew.error(0)
        assert "it does not admit this process's key" in crew.error(0)
        assert "agent 0 at" in crew.error(1)
        assert "its key is not the one in the network file" in crew.error(1)


def replay(address: str, tape: bytes, *steps: tuple[int, int]) -> int:
    """Send recorded bytes, wait until the other end has taken or refused them, and return the size of its answer.

    Steps say what belongs to the handshake: so many bytes go out, then so many must have come back.
    """
    place, answered = ("127.0.0.1", int(address.rpartition(":")[2])), 0
    with socket.create_connection(place, timeout=20) as line, contextlib.suppress(ConnectionError):
        for out, back in steps:
            line.sendall(tape[:out])
            tape = tape[out:]
            while answered < back and (data := line.recv(65536)):
                answered += len(data)
        line.sendall(tape)
        line.shutdown(socket.SHUT_WR)
        while data := line.recv(65536):
            answered += len(data)
    return answered


@pytest.mark.parametrize("session", ["the same", "another"])
def test_replayed_frames_on_plain_tcp(session: str, tmp_path: Path) -> None:
    """Without CURVE anybody can connect; still no frame counts twice, nor in another session."""
    acts = {"3": [["wait"]]}
    with between(tmp_path, acts, tcp=True) as (crew, proxies):
        proxies[0].close()  # all frames go over the line that agent 0 dials
        crew.start().said(1, "waiting")
        tape = bytes(proxies[1].tapes[0][0])
        assert b"ADMM" in tape
        if session == "the same":
            replay(crew.spec["addresses"]["1"], tape, PLAIN)
        crew.goes_on(1)
        if session == "the same":
            assert counts(crew, 1).keys() == {"duplicate"}
            assert counts(crew, 1)["duplicate"] >= 2
            return
    with between(tmp_path, acts, tcp=True) as (crew, _):
        crew.start().said(1, "waiting")
        replay(crew.spec["addresses"]["1"], tape, PLAIN)
        crew.goes_on(1)
        assert counts(crew, 1).keys() == {"foreign"}
        assert counts(crew, 1)["foreign"] >= 3


def test_some_bad_frames_of_a_neighbour_are_counted(tmp_path: Path) -> None:
    kinds = {"refused": {"noise": 1, "flipped": 2, "cut": 4}, "foreign": {"other link": 1, "other sender": 2}}
    acts = [["garble", how, times] for hows in kinds.values() for how, times in hows.items()]
    own = {0: {"acts": {"2": acts}}}
    with Crew(tmp_path, path(3), 3, curve=True, own=own) as crew:
        assert set(crew.start().finish().values()) == {0}, crew.report()
        found = counts(crew, 1)
        assert {reason: found.pop(reason) for reason in kinds} == {"refused": 7, "foreign": 3}
        assert found.keys() <= {"duplicate"}  # an unreadable frame may have been a good one: all comes again
        assert counts(crew, 2) == {}


def test_many_bad_frames_of_a_neighbour(tmp_path: Path) -> None:
    own = {0: {"acts": {"2": [["garble", "flipped", 8]]}}}
    with Crew(tmp_path, path(3), 3, curve=True, own=own) as crew:
        assert set(crew.start().finish().values()) == {3}
        for rank in (1, 2):
            assert "agent 0 is lost" in crew.error(rank)
            assert "8 frames from it could not be read (the last one: checksum)" in crew.error(rank)
        assert "agent 1 has ended the run" in crew.error(0)
