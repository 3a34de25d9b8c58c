"""No copy of a process that holds secret keys is left on a disk when it crashes."""

from __future__ import annotations

import ctypes
import resource
import sys
from contextlib import suppress

_PR_SET_DUMPABLE = 4


def forbid_dumps() -> None:
    """Let this process leave no core dump, to no file and no collector, and be read by no debugger.

    On Linux whole (prctl, PR_SET_DUMPABLE); elsewhere the limit on the size of core files has to do.
    """
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
