"""Figures of a run that goes on, for Prometheus and health checks: served by a thread for which no run waits."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler
from socket import AF_INET, AF_INET6
from socketserver import TCPServer
from typing import Any

from admmnet.errors import RequestError

TYPE = "text/plain; version=0.0.4; charset=utf-8"
FIGURES = {
    "round": "round that was over last, 0 the first",
    "rounds": "rounds planned",
    "start": "number of this start of the run",
    "members": "agents that take part",
    "epsilon": "largest epsilon spent of all agents",
    "waiting_seconds": "seconds for which this process has waited for others",
    "lines": "neighbours",
    "lines_up": "neighbours to which the line stands",
    "bytes_sent": "bytes given to lines",
    "bytes_received": "bytes read from lines",
    "frames": "frames that were not simply wanted, by verdict",
}


def address_of(text: str) -> tuple[str, int]:
    """Read ``[HOST:]PORT``; RequestError if it is none."""
    host, _, port = text.rpartition(":")
    if not port.isascii() or not port.isdecimal() or int(port) > 65535:
        raise RequestError(f"--metrics {text}: give [HOST:]PORT, with a port of 0 to 65535, such as 127.0.0.1:9464")
    return host.strip("[]") or "127.0.0.1", int(port)


class Metrics:
    """The figures, which events bring and ``live`` has at the moment, and their server, at ``port``.

    Raises
    ------
    RequestError
        If nothing can listen at the address.
    """

    def __init__(self, address: str) -> None:
        host, port = address_of(address)
        self._known: dict[str, Any] = {}
        self.live: Callable[[], Mapping[str, Any]] = dict
        try:
            self._server = _Server((host, port), self)
        except OSError as error:
            raise RequestError(
                f"--metrics {address}: cannot listen there: {error.strerror}; give another port, or end what listens"
            ) from None
        self.port = int(self._server.server_address[1])
        threading.Thread(target=self._server.serve_forever, name="metrics", daemon=True).start()

    def take(self, event: Mapping[str, Any]) -> None:
        """Take in an event."""
        # in place of the old one as a whole, which the server may be reading
        self._known = {**self._known, **{name: event[name] for name in ("run", *FIGURES) if name in event}}

    def figures(self) -> dict[str, Any]:
        """Return what is known now."""
        return {name: value for name, value in {**self._known, **self.live()}.items() if value is not None}

    def text(self) -> str:
        """Return the figures in Prometheus' text format."""
        found, lines = self.figures(), list[str]()
        for name, help in FIGURES.items():
            kind = "counter" if name in ("bytes_sent", "bytes_received", "frames") else "gauge"
            full = f"admmnet_{name}{'_total' * (kind == 'counter')}"
            value = found.get(name, {})
            rows = {f'{{verdict="{key}"}}': count for key, count in value.items()} if name == "frames" else {"": value}
            lines += [f"# HELP {full} {help}", f"# TYPE {full} {kind}"] if name in found else []
            lines += [f"{full}{labels} {count}" for labels, count in rows.items()] if name in found else []
        return "\n".join(lines) + "\n"

    def close(self) -> None:
        """Stop listening, without waiting for a client that is being answered."""

        def stop() -> None:
            self._server.shutdown()
            self._server.server_close()

        threading.Thread(target=stop, daemon=True).start()


class _Server(TCPServer):
    """One request at a time: who keeps it busy keeps others from the figures, and nothing else."""

    allow_reuse_address = True  # of a port at which connections of an earlier start are ending

    def __init__(self, address: tuple[str, int], metrics: Metrics) -> None:
        self.metrics, self.address_family = metrics, AF_INET6 if ":" in address[0] else AF_INET
        super().__init__(address, _Answer)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a client that has gone."""


class _Answer(BaseHTTPRequestHandler):
    timeout = 2.0
    server: _Server

    def do_GET(self) -> None:
        metrics = self.server.metrics
        pages = {"/metrics": (TYPE, metrics.text), "/health": ("application/json", self._health)}
        if self.path not in pages:
            self.send_error(404, "there are /metrics and /health")
            return
        kind, make = pages[self.path]
        body = make().encode()
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _health(self) -> str:
        return json.dumps(self.server.metrics.figures()) + "\n"

    def log_message(self, format: str, *words: Any) -> None:
        """Say nothing of requests."""
