"""One process of a ZeroMQ network that does as its test says: ``zmq_agent.py SPEC.json RANK``.

It writes one JSON line an event to standard output, and waits for its test by reading standard input.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import structs

from admmnet.errors import AdmmnetError
from admmnet.evidence.members import agree
from admmnet.evidence.receipts import Receipts
from admmnet.identity.keys import Identity
from admmnet.transport import Outgoing, Transport
from admmnet.transport.begun import Begun
from admmnet.transport.hosts.keys import Keys
from admmnet.transport.hosts.network import Network, Peer
from admmnet.transport.starts import Standing
from admmnet.transport.zmq import door
from admmnet.transport.zmq.membership import Membership
from admmnet.transport.zmq.sockets import Deadlines
from admmnet.transport.zmq.transport import ZmqWorld
from admmnet.transport.zmq.wire import Frame, Kind, encode
from tests.transport.conformance import CHECKS


def say(event: str, value: Any = None) -> None:
    sys.stdout.write(json.dumps([event, value]) + "\n")
    sys.stdout.flush()


def open_world(spec: dict[str, Any], rank: int) -> ZmqWorld:
    own = spec["own"].get(str(rank), {})
    public = [key and key["public"] for key in spec["keys"]]
    addresses = spec["addresses"] | own.get("addresses", {})
    identities = [Identity(**pair) for pair in spec["identities"]]
    peers = tuple(
        Peer(i, where := addresses[str(i)], public[i], identities[i].public, dial="both" if where else "out")
        for i in range(len(addresses))
    )
    edges = tuple((i, j) for i, j in own.get("edges", spec["edges"]))
    keys = own.get("keys", spec["keys"][rank])
    if keys is not None and keys["public"] != public[rank]:  # an intruder says that it is agent `rank`
        peers = tuple(structs.replace(p, public_key=keys["public"] if p.agent == rank else p.public_key) for p in peers)
    member = Membership(
        Network("test", edges, peers, curve=keys is not None),
        rank,
        settings={"seed": 0} | own.get("settings", {}),
        keys=None if keys is None else Keys(**keys),
        identity=identities[rank],
        deadlines=Deadlines(**spec["deadlines"]),
        quorum=len(peers),
        strikes=5,
        regroup_deadline=60.0,
        give_up=60.0,
        parent=own.get("parent"),
        shared_folder=spec["shared_folder"],
    )
    start = member.meet(Standing())
    own = start.propose
    return ZmqWorld(member, Begun(start.name, own.number, tuple(own.members), tuple(own.edges)))


def vector(agent: int, round: int) -> np.ndarray:
    return np.array([float(agent), float(round), 1 / (1 + round + agent)])


def garble(world: ZmqWorld, how: str, times: int) -> None:
    """Send what no decoder takes, or what is no frame of this link, to every neighbour."""
    for peer, link in world.member.links.items():
        good = encode(Frame(Kind.VECTOR, link.id, world.rank, sequence=10**6, payload=bytes(24)))
        for _ in range(times):
            bad = {
                "noise": b"\x07" * 90,
                "flipped": good[:70] + bytes([good[70] ^ 1]) + good[71:],
                "cut": good[:-3],
                "other link": encode(Frame(Kind.VECTOR, b"x" * 16, world.rank, sequence=1)),
                "other sender": encode(Frame(Kind.BYE, link.id, peer, sequence=1)),
            }[how]
            world.member.sockets.send(peer, bad)


def flood(world: ZmqWorld, how: str, size: int) -> None:
    """Send every neighbour so many bytes until it cuts the line: frames that bring nothing, or one message."""
    for peer, link in world.member.links.items():
        if how == "one message":
            world.member.sockets.send(peer, bytes(size))
        frame = encode(Frame(Kind.VECTOR, link.id, world.rank, sequence=10**6, payload=bytes(8000)))
        for _ in range(size // len(frame) if how == "frames" else 0):
            world.member.sockets.send(peer, frame)
        while link.up:
            world.member.serve(0.1)


def act(do: list[Any], world: ZmqWorld) -> None:
    if do[0] == "wait":
        say("waiting")
        sys.stdin.readline()
    elif do[0] == "garble":
        garble(world, do[1], do[2])
    elif do[0] == "flood":
        flood(world, do[1], do[2])
    elif do[0] == "abort":
        world.abort(do[1])
    elif do[0] == "gather":
        say("gathered", world.gather(world.rank))


class Books:
    """Stands for a ledger: what receipts ask of one."""

    head = "ab" * 32, 1, 0.0


def time_rounds(world: ZmqWorld, spec: dict[str, Any]) -> list[list[float]]:
    """Seconds, and seconds of this process, of every exchange; with "receipts" of every other one has them."""
    transport, times = world.connect(world.graph), []
    members, folder = agree(world, transport.layout.owners), Path(spec["keep"])
    books: dict[int, Any] = {world.rank: Books()}
    receipts = Receipts(members, world.graph, transport, books, folder)
    outgoing: Outgoing = {world.rank: np.random.default_rng(world.rank).standard_normal(spec["numbers"])}
    for round in range(spec["rounds"]):
        begin, cpu = time.perf_counter(), time.process_time()
        if spec["receipts"] and round % 2:
            receipts.take(round // 2, transport.exchange(outgoing, round, receipts.signed(round // 2, outgoing)))
        else:
            transport.exchange(outgoing, round)
        times.append([time.perf_counter() - begin, time.process_time() - cpu])
    return times


def run_rounds(world: ZmqWorld, spec: dict[str, Any]) -> Transport:
    graph = world.graph
    transport = world.connect(graph)
    acts = spec["own"].get(str(world.rank), {}).get("acts", {})
    for round in range(spec["rounds"]):
        for do in acts.get(str(round), []):
            act(do, world)
        begin, cpu = time.monotonic(), time.process_time()
        heard = transport.exchange({world.rank: vector(world.rank, round)}, round)[world.rank]
        waited, used = time.monotonic() - begin, time.process_time() - cpu
        for j, said in heard.items():
            assert said.tobytes() == vector(j, round).tobytes(), (round, j, said)
        assert heard.keys() == set(graph[world.rank]), (round, sorted(heard))
        say("round", {"round": round, "heard": sorted(heard), "seconds": waited, "cpu": used})
    everything = transport.collect(np.array([[float(world.rank)]]))[:, 0]
    say("collected", [None if np.isnan(x) else x for x in everything])
    say("gathered", world.gather(world.rank))
    return transport


def main(path: str, place: str) -> None:
    spec, rank = json.loads(Path(path).read_text()), int(place)
    door.UNREAD, door._LOOK = spec.get("unread", door.UNREAD), spec.get("look", door._LOOK)
    say("started", os.getpid())
    try:
        world = open_world(spec, rank)
        say("connected")
        if spec["job"] == "conformance":
            for check in CHECKS:
                check(world)
            say("conforms", len(CHECKS))
        elif spec["job"] == "times":
            say("times", time_rounds(world, spec))
        else:
            run_rounds(world, spec).close()
        world.close()
        say("counts", world.counts)
    except AdmmnetError as error:
        (peak,) = re.findall(r"^VmHWM:\s+(\d+) kB$", Path("/proc/self/status").read_text(), re.MULTILINE)
        say("peak", 1024 * int(peak))
        say("error", str(error))
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main(*sys.argv[1:])
