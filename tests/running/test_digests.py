"""No digest of records is told to other processes in a private run, or lies in its folder: guesses could be tried."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from admmnet import RunConfig, run
from admmnet.data import DataSettings, load
from admmnet.record.journal import JOURNAL
from admmnet.running.handshake import public_settings
from admmnet.running.resume import resumed_config
from admmnet.transport.local import LocalWorld
from tests.people_runs import Stop, stopping, write_people

AGENTS = 3


class Place:
    """A run of all agents in one process, begun and resumed; ``told`` are its words to others."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, **mode: Any) -> None:
        self.folder, self.told, real = folder, list[str](), LocalWorld.gather
        self.files = [
            write_people(folder / name, rows, seed) for name, rows, seed in (("a.npz", 90, 2), ("b.npz", 40, 3))
        ]

        def gather(world: LocalWorld, value: Any, topic: str = "ready") -> list[Any]:
            self.told.append(json.dumps(value))
            return real(world, value, topic)

        monkeypatch.setattr(LocalWorld, "gather", gather)
        data, test = self.files
        values: dict[str, Any] = {"algorithm": "pp-admm", "agents": AGENTS, "rounds": 4, "epsilon": 20.0}
        values |= {"whiten": "on"}
        values |= {"out": str(folder / "run"), **({} if mode else {"account": str(folder / "account")}), **mode}
        self.config = RunConfig(data=data, test=test, **values)

    def digests(self) -> set[bytes]:
        """Of the files, the arrays in them and as methods see them, their rows, alone and with their labels."""
        return {hashlib.sha256(content).digest() for content in self._contents()}

    def _contents(self) -> Iterator[bytes]:
        for file in self.files:
            yield Path(file).read_bytes()
        for X, y in self.pairs():
            labels = np.ascontiguousarray(y, dtype=np.float64)
            yield from (X.tobytes(), y.tobytes(), labels.tobytes(), X.tobytes() + y.tobytes())
            yield from (start + X.tobytes() + labels.tobytes() for start in (b"", repr(X.shape).encode()))
            yield from (row.tobytes() for row in X)
            yield from (row.tobytes() + label.tobytes() for row, label in zip(X, labels, strict=True))

    def pairs(self) -> Iterator[tuple[Any, Any]]:
        for file in self.files:
            with np.load(file) as arrays:
                yield arrays["X"], arrays["y"]
        records = load(DataSettings(data=self.files[0], test=self.files[1]), AGENTS, range(AGENTS))
        yield from records.shards.values()
        yield records.X_test, records.y_test

    def found(self) -> set[str]:
        """Where the first 8 bytes of a digest stand, raw or in hexadecimal."""
        words = [word for digest in self.digests() for word in (digest[:8], digest.hex()[:16].encode())]
        kept = [path for name in ("run", "account") for path in (self.folder / name).rglob("*") if path.is_file()]
        places = {str(path.relative_to(self.folder)): path.read_bytes() for path in kept}
        places["told"] = "".join(self.told).encode()
        places["agent"] = json.dumps(public_settings(self.config)).encode()  # on a host of its own
        assert len(places) > 6
        return {name for name, content in places.items() if any(word in content for word in words)}

    def interrupt(self) -> None:
        with pytest.raises(Stop):
            run(self.config, on_round=stopping(1))


def test_a_private_run_tells_and_keeps_no_digest_of_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place(tmp_path, monkeypatch)
    place.interrupt()
    journal = (tmp_path / "run" / JOURNAL).read_bytes()
    rows = np.concatenate([np.unique(X) for X, _ in place.pairs()])
    assert not any(value.tobytes() in journal for value in rows)
    assert place.found() == set()
    run(resumed_config(tmp_path / "run"))
    assert place.found() == set()


def test_those_of_a_simulation_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The power of the search: of public records hosts compare files, and what is planted is found."""
    place = Place(tmp_path, monkeypatch, seed=0, whiten="off")
    place.interrupt()
    found = place.found()
    assert found == {"agent"}
    planted = min(place.digests())
    place.told.append(planted.hex()[:16])
    (tmp_path / "run" / "raw").write_bytes(planted[:8])
    assert place.found() == {"agent", "told", "run/raw"}
