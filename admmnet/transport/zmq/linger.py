"""Files of a finished run, given to neighbours that failed in its last moment (docs/hosts.md, "The end").

One question, one answer, at the address where the agent was heard during the run, under the same keys.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

import zmq

from admmnet.transport.hosts.keys import Keys
from admmnet.transport.hosts.network import Network, port_of
from admmnet.transport.zmq.door import Doorkeeper

_LOOK = 0.2
"""Seconds between two tries to listen, and after which keys may open lines again."""
_AGAIN = 1.0
"""Seconds after which a question is asked again, the first time."""
_LONGEST = 4.0
"""Seconds after which it is asked again at the latest."""
_LARGEST = 2**12
"""Bytes of a question, and of an answer that brings no files."""
_HAVE, _WANT, _HEARD = b"have", b"want", b"heard"


def is_question(data: bytes) -> bool:
    """Whether a message is that of an ``Asker``."""
    return data[:5] in (_HAVE + b" ", _WANT + b" ")


def give(
    network: Network,
    rank: int,
    keys: Keys | None,
    files: Mapping[str, bytes],
    to: Mapping[int, bool],
    seconds: float,
    gone: float,
) -> None:
    """Answer neighbours until each in ``to`` has the files, for so many seconds at most.

    They say so, or hear that this agent has them. Who takes leave of the run hears nothing yet, and is told again.
    Whose value is true has taken leave: it waits to hear of this agent, unless for ``gone`` seconds no word reaches it.
    """
    around = {str(network.peers[j].public_key): j for j in network.neighbours(rank)}
    begun = time.monotonic()
    last = begun + seconds
    missing = {j: min(last, begun + gone) if finished else last for j, finished in to.items() if seconds > 0.0}
    if not missing:
        return
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    told, poller = _dialled(context, network, rank, keys, missing, _LARGEST), zmq.Poller()
    for line in told:
        poller.register(line, zmq.POLLIN)
    socket, door, bound = context.socket(zmq.REP), None, not network.peers[rank].address  # who only dials is not asked
    if not bound:
        where = network.peers[rank].listens_at()
        socket.linger, socket.maxmsgsize, socket.ipv6 = 1000, _LARGEST, "[" in where
        if keys is not None:
            socket.curve_server, socket.zap_domain, socket.curve_secretkey = True, b"admmnet", keys.secret.encode()
            socket.setsockopt(zmq.ZAP_ENFORCE_DOMAIN, 1)
        door = Doorkeeper(context, socket, port_of(where), len(around), None if keys is None else around)
    try:
        again = 0.0
        while missing := {j: until for j, until in missing.items() if until > time.monotonic()}:
            if not bound:  # the run's own socket may not have closed yet
                with suppress(zmq.ZMQError):
                    socket.bind(where)
                    poller.register(socket, zmq.POLLIN)
                    bound = True
            if (now := time.monotonic()) >= again:
                again = now + _AGAIN
                for j in _say(_HAVE, rank, {line: j for line, j in told.items() if j in missing}):
                    missing[j] = min(last, max(missing[j], now + gone))
            come = poller.poll(int(1000 * _LOOK))
            if door is not None:
                door.caught_up(set())
            for line, _ in come:
                if line is not socket:
                    if line.recv_multipart()[1:] == [_HEARD]:
                        missing.pop(told[line], None)
                    continue
                try:
                    asked = socket.recv_multipart(zmq.NOBLOCK, copy=False)
                except zmq.Again:  # a word of the run, which its own socket would have read
                    continue
                word, _, number = asked[0].bytes.partition(b" ")
                if word == _HAVE:
                    who = int(number) if keys is None and number.isdigit() else around.get(_key(asked[0]) or "", -1)
                    missing.pop(who, None)
                    socket.send(_HEARD)
                else:
                    socket.send_multipart([part for name, data in files.items() for part in (name.encode(), data)])
    finally:
        for line in (*told, socket):
            line.close()
        if door is not None:
            door.news.close(0)
        end = threading.Thread(target=context.term, daemon=True)
        end.start()
        end.join(2.0)
        if door is not None:
            door.close()


def _dialled(
    context: zmq.Context[zmq.Socket[bytes]],
    network: Network,
    rank: int,
    keys: Keys | None,
    to: Iterable[int],
    largest: int = -1,
) -> dict[zmq.Socket[bytes], int]:
    """Lines to those neighbours that have an address; ``largest`` is that of an answer in bytes, -1 for any."""
    lines = {}
    for j in (j for j in to if network.peers[j].address):
        peer, line = network.peers[j], context.socket(zmq.DEALER)
        line.linger, line.reconnect_ivl, line.ipv6 = 1000, 500, "[" in peer.address
        line.sndhwm, line.rcvhwm, line.maxmsgsize = 1, 10, largest  # one word waits for a connection
        if keys is not None:
            line.curve_publickey, line.curve_secretkey = keys.public.encode(), keys.secret.encode()
            line.curve_serverkey = str(peer.public_key).encode()
        line.connect(peer.address)
        lines[line] = j
    return lines


def _say(word: bytes, rank: int, to: Mapping[zmq.Socket[bytes], int]) -> list[int]:
    """Say a word, and return to whom: not where the last one still waits for a connection."""
    said = []
    for line, j in to.items():
        with suppress(zmq.Again):
            line.send_multipart([b"", b"%b %d" % (word, rank)], zmq.NOBLOCK)
            said.append(j)
    return said


def _key(frame: zmq.Frame) -> str | None:
    try:
        return str(frame.get("User-Id"))
    except zmq.ZMQError:
        return None


class Asker:
    """Asks the neighbours for the files of a finished run, until ``take`` accepts some."""

    def __init__(
        self, network: Network, rank: int, keys: Keys | None, take: Callable[[Mapping[str, bytes]], bool]
    ) -> None:
        self._rank, self._take, self._gap, self._again = rank, take, _AGAIN, time.monotonic() + _AGAIN
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._poller = zmq.Poller()
        self._lines = _dialled(self._context, network, rank, keys, network.neighbours(rank))
        for line in self._lines:
            self._poller.register(line, zmq.POLLIN)
        _say(_WANT, rank, self._lines)

    def taken(self) -> bool:
        """Look at the answers that have come, one of each neighbour; whether the files of one were accepted.

        Who was still at work at the first question has not answered it: all are asked again, less and less often, as
        an answer may take its time.
        """
        if self._poller.sockets and time.monotonic() > self._again:
            self._gap = min(2 * self._gap, _LONGEST)
            self._again += self._gap
            _say(_WANT, self._rank, self._lines)
        for giver, _ in self._poller.poll(0) if self._poller.sockets else ():
            self._poller.unregister(giver)
            _, *parts = giver.recv_multipart()
            if self._take(dict(zip([name.decode(errors="replace") for name in parts[::2]], parts[1::2], strict=False))):
                return True
        return False

    def close(self) -> None:
        """Close the lines."""
        for line in self._lines:
            line.close()
        threading.Thread(target=self._context.term, daemon=True).start()
