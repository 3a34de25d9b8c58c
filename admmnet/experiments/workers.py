"""Where processes come from: a server that has imported once what runs need, and forks; light to import itself."""

from __future__ import annotations

import os
import signal
from multiprocessing import context, get_all_start_methods, get_context, resource_tracker

NEEDED = "admmnet.experiments.tasks"


def processors() -> int:
    """Processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def ready() -> context.ForkServerContext | context.SpawnContext:
    """Context of new processes, whose server begins its imports now; where the system has none they are spawned.

    The server has no thread of the calling process, so no lock is held at a fork, and ends with it. It and what it
    forks have the keyboard's interrupt blocked.
    """
    if "forkserver" not in get_all_start_methods():
        return get_context("spawn")
    from multiprocessing import forkserver

    own = get_context("forkserver")
    own.set_forkserver_preload([NEEDED])
    resource_tracker.ensure_running()  # its own start would unblock the signal again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return own
