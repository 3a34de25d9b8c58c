"""Renew the fingerprints: ``python -m tests.pins.renew [NAME ...]``, in the project's folder.

Prints what changed; without names all settings are run. A change that is meant is committed with the file.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from .fingerprint import STORED, changes, machine, run_setting
from .settings import SETTINGS


def main(names: list[str]) -> int:
    """Run settings and write the file."""
    strangers = [name for name in names if name not in SETTINGS]
    if strangers:
        print(f"no setting is called {strangers[0]!r}; there are: {'; '.join(SETTINGS)}", file=sys.stderr)
        return 2
    stored: dict[str, Any] = {"pins": {}, "machine": None}
    if STORED.exists():
        stored = json.loads(STORED.read_text(encoding="utf-8"))
    old, here, changed = stored["pins"], machine(), 0
    if names and stored["machine"] != here:
        print("the file was made on another machine, or with other libraries: renew all", file=sys.stderr)
        return 2
    pins = {name: old.get(name) for name in SETTINGS}
    for name in names or SETTINGS:
        with tempfile.TemporaryDirectory() as folder:
            found = run_setting(SETTINGS[name], Path(folder))
        if words := changes(old[name], found) if name in old else ["new"]:
            print(f"{name}: {', '.join(words)}", flush=True)
            changed += 1
        pins[name] = found._asdict()
    for name in old.keys() - pins.keys():
        print(f"{name}: gone")
    print(f"{len(names or SETTINGS)} settings were run, {changed} changed")
    pins = {name: pin for name, pin in pins.items() if pin is not None}
    STORED.write_text(json.dumps({"machine": here, "pins": pins}, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
