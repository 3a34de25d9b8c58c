"""admmnet launch: ranks under mpirun, started again where they fail, and a file of each that lives."""

from __future__ import annotations

import json
import os
import select
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import click

from admmnet.cli.settings import words_after
from admmnet.errors import IN_PART, BudgetError, RequestError, RunError, Terminated

FINAL = (0, RequestError.exit_code, BudgetError.exit_code, IN_PART, 130)
"""Exit codes after which another start would end no other way."""


@click.command(context_settings={"ignore_unknown_options": True})
@click.option("-n", "ranks", type=click.IntRange(min=1), required=True, metavar="N", help="ranks")
@click.option("--restarts", type=click.IntRange(min=0), default=0, metavar="R", help="how often they start again (0)")
@click.option("--mpirun", default="mpirun", metavar="COMMAND", help="launcher (this Python's)")
@click.argument("words", nargs=-1, required=True, metavar="-n N -- run --out DIR [FLAGS]")
def launch(ranks: int, restarts: int, mpirun: str, words: tuple[str, ...]) -> int:
    """Run `admmnet run` on N ranks of MPI; where they fail say which was first, and go on from the last checkpoint."""
    folders = [value for flag in ("--out", "-o") for value in words_after([*words], flag)]
    if words[0] != "run" or len(folders) != 1 or any(words_after([*words], "--resume")):
        example = "admmnet launch -n 5 --restarts 3 -- run --out DIR"
        raise RequestError(f"give the words of a run behind --, with its folder and without --resume: {example}")
    program, *own = shlex.split(mpirun)
    program = shutil.which(program, path=str(Path(sys.executable).parent)) or program
    command = [program, *own, "-n", str(ranks), sys.executable, "-m", "admmnet", *words, "--resume", "auto", "--alive"]
    return started(command, Path(folders[0]) / "alive", restarts)


def started(command: Sequence[str], folder: Path, restarts: int) -> int:
    """Start ranks, again while they fail, and return the exit code; KeyboardInterrupt, of SIGTERM too, ends them."""
    for start in range(restarts + 1):
        shutil.rmtree(folder, ignore_errors=True)
        held = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))  # until they can be passed on
        let = partial(signal.pthread_sigmask, signal.SIG_SETMASK, held)
        try:  # in a group of its own: Ctrl-C at the terminal reaches this process alone, which passes it on
            launcher = subprocess.Popen(command, stdin=subprocess.DEVNULL, process_group=0, preexec_fn=let)
        except OSError as error:
            let()
            raise RequestError(f"{command[0]}: {error.strerror}; install admmnet[mpich], or give --mpirun") from None
        try:
            let()
            fallen = _fallen(launcher.pid, folder)
            code = launcher.wait()
        except KeyboardInterrupt as error:
            error.told = True  # type: ignore[attr-defined]  # by the ranks
            os.killpg(launcher.pid, signal.SIGTERM if isinstance(error, Terminated) else signal.SIGINT)
            launcher.wait()
            raise
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        if code in FINAL:
            return code
        again = f"; start {start + 2} of {restarts + 1} follows" if start < restarts else ""
        print(f"admmnet: {', '.join(fallen) or f'{command[0]} ended with exit code {code}'}{again}", file=sys.stderr)
    return RunError.exit_code


def _fallen(launcher: int, folder: Path) -> list[str]:
    """Wait for the end of a launcher; how ranks ended: the first on this host, else all that had not finished."""
    poll, end, seen, first = select.poll(), os.pidfd_open(launcher), dict[Path, int](), list[str]()
    poll.register(end, select.POLLIN)
    while True:
        ready = [handle for handle, _ in poll.poll(500)]  # milliseconds, then a look for ranks that have come
        first = first or [how for path, handle in seen.items() if handle in ready for how in _how(path)]
        paths = sorted(folder.glob("rank-*.json"))
        if end in ready:
            for handle in (end, *seen.values()):
                os.close(handle)
            return first or [how for path in paths for how in _how(path)]
        for handle in ready:
            poll.unregister(handle)
        for path in [path for path in paths if path not in seen]:
            with suppress(OSError, ValueError):  # it has ended, or is writing
                said = json.loads(path.read_text())
                if said["host"] == socket.gethostname():
                    seen[path] = os.pidfd_open(said["pid"])
                    poll.register(seen[path], select.POLLIN)


def _how(path: Path) -> list[str]:
    """How a rank has ended; nothing of one that has finished."""
    with suppress(OSError, ValueError):
        said = json.loads(path.read_text())
        ended = "was killed" if said["code"] is None else f"failed with exit code {said['code']}"
        who = f"rank {said['rank']} (process {said['pid']} on {said['host']})"
        return [] if said["code"] == 0 else [f"{who} {ended}, last seen in round {said['round']}"]
    return []


def alive(rank: int, clock: Callable[[], float] = time.monotonic) -> Callable[[Mapping[str, Any]], None]:
    """What writes events of a rank to ``alive/rank-003.json`` of its run folder, rounds once a second at most."""
    due = 0.0

    def take(event: Mapping[str, Any]) -> None:
        nonlocal due
        if event["run"] is None or (event["event"] == "round" and clock() < due):
            return
        due, code = clock() + 1.0, 0 if event["event"] == "finished" else event.get("code")
        said = {"rank": rank, "pid": os.getpid(), "host": socket.gethostname(), "round": event["round"], "code": code}
        with suppress(OSError):  # a full disk is told elsewhere
            path = Path(event["run"]) / "alive" / f"rank-{rank:03d}.json"
            path.parent.mkdir(exist_ok=True)
            path.write_text(json.dumps(said))

    return take
