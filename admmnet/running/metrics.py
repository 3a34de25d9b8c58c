"""Figures of a run that goes on, for Prometheus and health checks: served by a thread for which no run waits."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler
from socketserver import TCPServer
from typing import Any

from admmnet.errors import RequestError

COUNTERS = ("bytes_sent", "frames")
FIGURES = ("round", "rounds", "start", "members", "epsilon", "waiting_seconds", "lines", "lines_up", *COUNTERS)
"""What docs/hosts.md describes."""


class Metrics(TCPServer):
    """Figures that events bring, and those that ``live`` has at the moment, at ``[HOST:]PORT``.

    One request at a time: who keeps it busy keeps others from the figures, and nothing else. RequestError if nothing
    can listen there.
    """

    allow_reuse_address = True  # of a port at which connections of an earlier start are ending

    def __init__(self, address: str) -> None:
        self.latest: Mapping[str, Any] = {}
        self.live: Callable[[], Mapping[str, Any]] = dict
        host, _, port = address.rpartition(":")
        try:
            super().__init__((host or "127.0.0.1", int(port)), _Answer)
        except (OSError, ValueError, OverflowError) as error:
            why, remedy = getattr(error, "strerror", None) or error, "give [HOST:]PORT with a port that is free"
            raise RequestError(f"--metrics {address}: nothing can listen there: {why}; {remedy}") from None
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def take(self, event: Mapping[str, Any]) -> None:
        """Take in an event: in place of what was known as a whole, which the server may be reading."""
        self.latest = {**self.latest, **{name: event[name] for name in ("run", *FIGURES) if name in event}}

    def text(self, found: Mapping[str, Any]) -> str:
        """Figures in Prometheus' text format."""
        lines = list[str]()
        for name in [name for name in FIGURES if found.get(name) is not None]:
            full, kind = (f"{name}_total", "counter") if name in COUNTERS else (name, "gauge")
            verdicts = found[name].items() if name == "frames" else ()
            lines.append(f"# TYPE admmnet_{full} {kind}")
            lines += [f'admmnet_{full}{{verdict="{verdict}"}} {count}' for verdict, count in verdicts]
            lines += [] if name == "frames" else [f"admmnet_{full} {found[name]}"]
        return "\n".join(lines) + "\n"

    def close(self) -> None:
        """Stop listening, without waiting for a client that is being answered."""
        threading.Thread(target=self.shutdown, daemon=True).start()
        self.socket.close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a client that has gone."""


class _Answer(BaseHTTPRequestHandler):
    timeout = 2.0
    server: Metrics

    def do_GET(self) -> None:
        found = {**self.server.latest, **self.server.live()}
        pages = {"/metrics": self.server.text(found), "/health": json.dumps(found) + "\n"}
        body = pages.get(self.path, "there are /metrics and /health\n").encode()
        self.send_response(200 if self.path in pages else 404)
        self.send_header("Content-Type", "application/json" if self.path == "/health" else "text/plain; version=0.0.4")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *words: Any) -> None:
        """Say nothing of requests."""
