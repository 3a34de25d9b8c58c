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
_LONGEST = 15.0
"""Seconds after which it is asked again at the latest."""
_HAVE, _WANT = b"have", b"want"


def is_question(data: bytes) -> bool:
    """Whether a message is that of an ``Asker``: its socket puts four bytes before it."""
    return data[4:9] in (_HAVE + b" ", _WANT + b" ")


def give(
    network: Network, rank: int, keys: Keys | None, files: Mapping[str, bytes], to: set[int], seconds: float
) -> None:
    """Answer neighbours until those in ``to`` say that they have the files, or the time is over."""
    around = {str(network.peers[j].public_key): j for j in network.neighbours(rank)}
    missing, until = to & set(network.neighbours(rank)), time.monotonic() + seconds
    if not missing or not network.peers[rank].address:  # who only dials can be asked by nobody
        return
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    socket, where = context.socket(zmq.REP), network.peers[rank].listens_at()
    socket.linger, socket.maxmsgsize, socket.ipv6 = 1000, 2**12, "[" in where
    if keys is not None:
        socket.curve_server, socket.zap_domain, socket.curve_secretkey = True, b"admmnet", keys.secret.encode()
        socket.setsockopt(zmq.ZAP_ENFORCE_DOMAIN, 1)
    door = Doorkeeper(context, socket, port_of(where), len(around), None if keys is None else around)
    try:
        bound = False
        while missing and (left := until - time.monotonic()) > 0.0:
            if not bound:  # the run's own socket may not have closed yet
                with suppress(zmq.ZMQError):
                    socket.bind(where)
                    bound = True
            come = socket.poll(int(1000 * min(left, _LOOK)))
            door.caught_up(set())
            if come:
                asked = socket.recv_multipart(copy=False)
                word, _, number = asked[0].bytes.partition(b" ")
                asker = int(number) if keys is None and number.isdigit() else around.get(_key(asked[0]) or "")
                if word == _HAVE:
                    missing -= {asker}
                    socket.send(b"")
                else:
                    socket.send_multipart([part for name, data in files.items() for part in (name.encode(), data)])
    finally:
        socket.close()
        door.news.close(0)
        end = threading.Thread(target=context.term, daemon=True)
        end.start()
        end.join(2.0)
        door.close()


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
        self._poller, self._sockets = zmq.Poller(), dict[zmq.Socket[bytes], int]()
        for j in (j for j in network.neighbours(rank) if network.peers[j].address):
            peer, socket = network.peers[j], self._context.socket(zmq.REQ)
            socket.linger, socket.reconnect_ivl, socket.ipv6 = 1000, 500, "[" in peer.address
            socket.setsockopt(zmq.REQ_RELAXED, 1)
            socket.setsockopt(zmq.REQ_CORRELATE, 1)
            if keys is not None:
                socket.curve_publickey, socket.curve_secretkey = keys.public.encode(), keys.secret.encode()
                socket.curve_serverkey = str(peer.public_key).encode()
            socket.connect(peer.address)
            self._poller.register(socket, zmq.POLLIN)
            self._sockets[socket] = j
        self._say(_WANT, self._sockets)

    def _say(self, word: bytes, to: Iterable[zmq.Socket[bytes]]) -> None:
        for socket in to:
            with suppress(zmq.Again):
                socket.send(b"%b %d" % (word, self._rank), zmq.NOBLOCK)

    def taken(self) -> bool:
        """Look at the answers that have come, one of each neighbour; whether the files of one were accepted.

        Who was still at work at the first question has not answered it: all are asked again, less and less often, as
        an answer may take its time.
        """
        if self._poller.sockets and time.monotonic() > self._again:
            self._gap = min(2 * self._gap, _LONGEST)
            self._again += self._gap
            self._say(_WANT, self._sockets)
        for giver, _ in self._poller.poll(0) if self._poller.sockets else ():
            self._poller.unregister(giver)
            parts = giver.recv_multipart()
            if self._take(dict(zip([name.decode(errors="replace") for name in parts[::2]], parts[1::2], strict=False))):
                return True
        return False

    def tell(self, to: set[int], seconds: float) -> set[int]:
        """Say that this agent has the files, again until those in ``to`` have answered or the time is over.

        Return those that have not, which may need files. A neighbour hears no question while it takes leave of the run.
        """
        until, silent = time.monotonic() + seconds, {socket: j for socket, j in self._sockets.items() if j in to}
        while silent and (now := time.monotonic()) < until:
            self._say(_HAVE, silent)
            poller, again = zmq.Poller(), min(now + _AGAIN, until)
            for socket in silent:
                poller.register(socket, zmq.POLLIN)
            while poller.sockets and (left := again - time.monotonic()) > 0.0:
                for socket, _ in poller.poll(int(1000 * left) + 1):
                    poller.unregister(socket)
                    del silent[socket]
        return set(silent.values())

    def close(self) -> None:
        """Close the sockets; what was said last may still leave."""
        for socket in self._sockets:
            socket.close()
        threading.Thread(target=self._context.term, daemon=True).start()
