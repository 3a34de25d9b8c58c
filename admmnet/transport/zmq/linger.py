"""Files of a finished run, given to neighbours that failed in its last moment (docs/hosts.md, "The end").

One question, one answer, at the address where the agent was heard during the run, under the same keys.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping

import zmq

from admmnet.transport.hosts.keys import Keys
from admmnet.transport.hosts.network import Network
from admmnet.transport.zmq.door import Doorkeeper

ASKED = 2.0
"""Seconds for which a process asks its neighbours whether they have finished, once they must have missed it."""
_HAVE, _WANT = b"have", b"want"


def give(
    network: Network, rank: int, keys: Keys | None, files: Mapping[str, bytes], to: set[int], seconds: float
) -> None:
    """Answer neighbours until those in ``to`` say that they have the files, or the time is over."""
    around = {network.peers[j].public_key: j for j in network.neighbours(rank)}
    missing, until = to & set(network.neighbours(rank)), time.monotonic() + seconds
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    socket, where, door = context.socket(zmq.REP), network.peers[rank].listens_at(), None
    socket.linger, socket.maxmsgsize, socket.ipv6 = 1000, 2**12, "[" in where
    if keys is not None:
        socket.curve_server, socket.zap_domain, socket.curve_secretkey = True, b"admmnet", keys.secret.encode()
        socket.setsockopt(zmq.ZAP_ENFORCE_DOMAIN, 1)
    try:
        if where.startswith("tcp://"):  # without a door ZeroMQ lets everybody in
            admitted = None if keys is None else frozenset(map(str, around))
            door = Doorkeeper(context, socket, int(where.rpartition(":")[2]), len(around), admitted)
        socket.bind(where)
        while missing and (left := until - time.monotonic()) > 0.0:
            if socket.poll(int(1000 * left)):
                asked = socket.recv_multipart(copy=False)
                word, _, number = asked[0].bytes.partition(b" ")
                asker = int(number) if keys is None and number.isdigit() else around.get(_key(asked[0]))
                socket.send_multipart([part for name, data in files.items() for part in (name.encode(), data)])
                missing -= {asker} if word == _HAVE else set()
    finally:
        socket.close()
        end = threading.Thread(target=context.term, daemon=True)
        end.start()
        end.join(2.0)
        if door is not None:
            door.close()


def _key(frame: zmq.Frame) -> str | None:
    try:
        return str(frame.get("User-Id"))
    except zmq.ZMQError:
        return None


def ask(
    network: Network, rank: int, keys: Keys | None, take: Callable[[Mapping[str, bytes]], bool], seconds: float
) -> bool:
    """Ask the neighbours for the files of a finished run until ``take`` accepts some; whether it has."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    poller, sockets, until = zmq.Poller(), list[zmq.Socket[bytes]](), time.monotonic() + seconds
    try:
        for j in network.neighbours(rank):
            peer, socket = network.peers[j], context.socket(zmq.REQ)
            socket.linger, socket.reconnect_ivl, socket.ipv6 = 1000, 500, "[" in peer.address
            socket.setsockopt(zmq.REQ_RELAXED, 1)
            socket.setsockopt(zmq.REQ_CORRELATE, 1)
            if keys is not None:
                socket.curve_publickey, socket.curve_secretkey = keys.public.encode(), keys.secret.encode()
                socket.curve_serverkey = str(peer.public_key).encode()
            socket.connect(peer.address)
            socket.send(b"%b %d" % (_WANT, rank))
            poller.register(socket, zmq.POLLIN)
            sockets.append(socket)
        while poller.sockets and (come := poller.poll(int(1000 * max(0.0, until - time.monotonic())))):
            giver, _ = come[0]
            poller.unregister(giver)  # one answer of each
            parts = giver.recv_multipart()
            if take(dict(zip([name.decode(errors="replace") for name in parts[::2]], parts[1::2], strict=False))):
                for socket in sockets:
                    socket.send(b"%b %d" % (_HAVE, rank), zmq.NOBLOCK)
                return True
        return False
    finally:
        for socket in sockets:
            socket.close()
        threading.Thread(target=context.term, daemon=True).start()
