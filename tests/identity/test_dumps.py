"""A process that holds keys leaves no core dump."""

from __future__ import annotations

import subprocess
import sys

import pytest

ASK = """
import ctypes, resource
from admmnet.cli import run_command_line
resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
before = ctypes.CDLL(None).prctl(3, 0, 0, 0, 0)
code = run_command_line({words})
print(code, before, ctypes.CDLL(None).prctl(3, 0, 0, 0, 0), resource.getrlimit(resource.RLIMIT_CORE)[1])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="prctl is of Linux")
@pytest.mark.parametrize(
    ("words", "dumpable"), [(["agent", "--id", "0", "--network", "none.toml"], 0), (["ledger", "show", "none"], 1)]
)
def test_an_agent_cannot_be_dumped(words: list[str], dumpable: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", ASK.format(words=words)], capture_output=True, text=True, timeout=60, check=True
    )
    code, before, after, limit = map(int, done.stdout.split())
    assert (code, before, after) == (2, 1, dumpable)
    assert limit == 0 or dumpable
