"""The command line in this process."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import pytest

from admmnet.cli import run_command_line


class Printed(NamedTuple):
    code: int
    out: str
    err: str


class Admmnet:
    """Calls commands, with the words before all others that it was given."""

    def __init__(self, capsys: pytest.CaptureFixture[str], *first: object) -> None:
        self._capsys, self._first = capsys, first

    def __call__(self, *words: object) -> Printed:
        self._capsys.readouterr()
        code = run_command_line([str(word) for word in (*self._first, *words)])
        return Printed(code, *self._capsys.readouterr())

    def ok(self, *words: object) -> Printed:
        printed = self(*words)
        assert printed.code == 0, printed.err
        return printed

    def json(self, *words: object) -> Any:
        """What is printed with ``--json``, and nothing besides."""
        printed = self.ok(*words, "--json")
        assert printed.err == ""
        return json.loads(printed.out)

    def refused(self, *words: object, code: int = 2) -> str:
        """The one line of a refusal."""
        printed = self(*words)
        assert (printed.code, printed.out) == (code, ""), printed
        assert len(printed.err.splitlines()) == 1, printed.err
        assert printed.err.startswith("admmnet: ")
        return printed.err
