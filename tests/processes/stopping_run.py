"""A library run whose ``on_round`` ends it: ``stopping_run.py stop|first|fail|uncaught TRANSPORT FOLDER``.

Standard output: a line of JSON a process, how the call ended there.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from admmnet import RoundEvent, StopRun, run
from admmnet.transport import open_world


def called(how: str, transport: str, folder: str) -> list[Any]:
    """Rank, rounds that ``on_round`` was told of, and how the call ended."""
    seen: list[int] = []

    def hear(event: RoundEvent) -> None:
        seen.append(event.round)
        if event.round == 2:
            raise StopRun if how in ("stop", "first") else ValueError("the tracker is gone")

    rank = open_world(transport).rank
    settings: dict[str, Any] = {"algorithm": "ipp-admm", "data": "census", "agents": 3}
    settings |= {"rounds": 6, "epsilon": 5.0, "seed": 0}
    try:
        result = run(**settings, transport=transport, out=folder, on_round=None if how == "first" and rank else hear)
    except Exception as error:
        if how == "uncaught":
            raise
        said = f"{type(error).__name__}: {error}"
    else:
        said = str(result.summary["rounds"])
    return [rank, seen, said]


if __name__ == "__main__":
    sys.stdout.write(json.dumps(called(*sys.argv[1:])) + "\n")
