"""Cost of a round in the journal of an agent on a host of its own: encoding, write and fsync, and playing it again.

``python -m tests.benchmarks.journal [FOLDER]``: medians of 50 rounds with the vectors of four neighbours.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from admmnet.holder.outbox import Answered
from admmnet.record.journal import Heard, Round, Run, Said, read_record, record_bytes
from admmnet.running.journal import Journal

DEGREE, ROUNDS = 4, 50


def cost(width: int, folder: Path) -> tuple[float, float, float, float]:
    """Seconds to encode, to have on the disk, and to read a round; bytes of it."""
    own = Journal(folder)
    own.write(Run("", {}, b""))
    stream = np.random.default_rng(0)
    seconds: list[list[float]] = []
    for round in range(ROUNDS):
        vectors = {j: stream.standard_normal(width) for j in range(1 + DEGREE)}
        begin = time.perf_counter()
        answers = [Answered(bytes(16), "<f8", vectors[0].tobytes())]
        heard = Heard(round - 1, {j: vectors[j].tobytes() for j in range(1, 1 + DEGREE)})
        record = Round(round, {0: Said(answers, [], bytes(600))}, heard)
        size = len(record_bytes(record))
        encoded = time.perf_counter()
        place = own._size
        own.write(record)
        written = time.perf_counter()
        read_record(own.path, place)
        seconds.append([encoded - begin, written - encoded, time.perf_counter() - written])
    own.close()
    encode, write, read = (statistics.median(column) for column in zip(*seconds, strict=True))
    return encode, write - encode, read, size


def main() -> None:
    """Print a row a width."""
    with tempfile.TemporaryDirectory(dir=sys.argv[1] if len(sys.argv) > 1 else ".") as name:
        print("d       encode ms  write and fsync ms  read ms  kB")
        for width in (100, 10_000):
            (folder := Path(name) / str(width)).mkdir()
            encode, write, read, size = cost(width, folder)
            print(f"{width:<7} {1e3 * encode:<10.2f} {1e3 * write:<19.2f} {1e3 * read:<8.2f} {size / 1e3:.1f}")


if __name__ == "__main__":
    main()
