"""Runs one after another in one process, or on the ranks of one mpirun: ``many_runs.py SETTINGS.json FOLDER``."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

from admmnet import RunConfig, run
from admmnet.transport import open_world


def run_all(settings: dict[str, dict[str, Any]], folder: Path) -> None:
    """Run every setting into the folder of its name; what is returned is the same at every process."""
    world = open_world()
    for name, values in settings.items():
        result = run(RunConfig(**values, out=str(folder / name)), world=world)
        summary = json.dumps(result.summary, sort_keys=True).encode()
        said = hashlib.sha256(summary + result.theta.tobytes()).hexdigest()
        assert set(world.gather(said)) == {said}, name


if __name__ == "__main__":
    run_all(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")), Path(sys.argv[2]))
