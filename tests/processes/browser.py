"""A headless Chromium over its DevTools pipe, with the standard library alone."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
DEADLINE = 60.0
"""Seconds that a command may take."""

# Chromium wants its pipe at descriptors 3 and 4
_START = """
import os, sys
ends = [os.dup(int(word)) for word in sys.argv[1:3]]
while min(ends) < 5:
    ends = [os.dup(end) for end in ends]
os.dup2(ends[0], 3)
os.dup2(ends[1], 4)
os.execv(sys.argv[3], sys.argv[3:])
"""


def found() -> str | None:
    """Path of a Chromium, None where there is none."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Browser:
    """One page of a running Chromium.

    Parameters
    ----------
    send, receive : int
        File descriptors of its DevTools pipe: JSON, each message ended by a zero byte.

    Attributes
    ----------
    events : list of dict
        Everything that Chromium has told unasked.
    """

    def __init__(self, send: int, receive: int) -> None:
        self._send, self._receive = send, receive
        self._buffer = b""
        self._last = 0
        self._session: str | None = None
        self.events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Run a command and return its result."""
        self._last += 1
        message: dict[str, Any] = {"id": self._last, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        raw = json.dumps(message).encode() + b"\0"
        while raw:
            raw = raw[os.write(self._send, raw) :]
        deadline = time.monotonic() + DEADLINE
        while True:
            answer = self._message(deadline, method)
            if answer.get("id") == self._last:
                if "error" in answer:
                    raise AssertionError(f"{method}: {answer['error']}")
                result: dict[str, Any] = answer["result"]
                return result
            self.events.append(answer)

    def _message(self, deadline: float, what: str) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._receive], [], [], left)[0]:
                raise AssertionError(f"{what}: no answer within {DEADLINE:g} s")
            part = os.read(self._receive, 1 << 20)
            if not part:
                raise AssertionError(f"{what}: the browser has ended")
            self._buffer += part
        raw, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(raw)
        return message

    def open(self, page: Path | str, width: int = 1280, height: int = 900, *, scripts: bool = True) -> None:
        """Load a file or address in a window of this size and wait until it has loaded."""
        self.call("Emulation.setScriptExecutionDisabled", value=not scripts)
        self.resize(width, height)
        self.events.clear()
        self.call("Page.navigate", url=page if isinstance(page, str) else page.resolve().as_uri())
        deadline = time.monotonic() + DEADLINE
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self.events.append(self._message(deadline, "load"))

    def resize(self, width: int, height: int = 900) -> None:
        """Give the window another size."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )

    def run(self, script: str) -> Any:
        """Evaluate an expression in the page, waiting for promises."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def press(self, key: str) -> None:
        """Press and release a key; buttons take Enter for a click."""
        text = {"text": "\r"} if key == "Enter" else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, code=key, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, code=key)

    def move(self, x: float, y: float) -> None:
        """Move the mouse there."""
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def click(self, x: float, y: float) -> None:
        """Click there."""
        for part in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=part, x=x, y=y, button="left", clickCount=1)

    def pdf(self) -> bytes:
        """Print the page."""
        return base64.b64decode(self.call("Page.printToPDF", printBackground=False)["data"])

    def complaints(self) -> list[str]:
        """Errors and warnings of the console, exceptions, and what the page's policy has refused."""
        said = []
        for event in self.events:
            parameters = event.get("params", {})
            if event["method"] == "Runtime.exceptionThrown":
                said.append(json.dumps(parameters["exceptionDetails"]))
            elif event["method"] == "Runtime.consoleAPICalled":
                said.append(json.dumps(parameters["args"]))
            elif event["method"] == "Log.entryAdded":
                said.append(parameters["entry"]["text"])
        return said

    def requests(self) -> list[str]:
        """Addresses that were asked for since the page was opened."""
        return [
            event["params"]["request"]["url"] for event in self.events if event["method"] == "Network.requestWillBeSent"
        ]


@contextmanager
def browser(home: Path) -> Iterator[Browser]:
    """A browser with nothing kept from before; ``home`` is a folder for it alone."""
    path = found()
    assert path is not None
    command_read, command_write = os.pipe()
    answer_read, answer_write = os.pipe()
    flags = "--headless --no-sandbox --disable-gpu --disable-dev-shm-usage --disable-background-networking "
    flags += "--disable-component-update --no-first-run --hide-scrollbars --remote-debugging-pipe"
    words = [sys.executable, "-c", _START, str(command_read), str(answer_write), path, f"--user-data-dir={home}"]
    nothing, env = subprocess.DEVNULL, {**os.environ, "HOME": str(home)}
    process = subprocess.Popen(
        [*words, *flags.split()],
        pass_fds=(command_read, answer_write),
        stdin=nothing,
        stdout=nothing,
        stderr=nothing,
        env=env,
    )
    os.close(command_read)
    os.close(answer_write)
    try:
        page = Browser(command_write, answer_read)
        yield page
        page._session = None
        page.call("Browser.close")
    finally:
        os.close(command_write)
        os.close(answer_read)
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
