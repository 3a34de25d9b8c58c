"""`admmnet` that writes down, in the file of its first word, when its rounds were: private runs say whole seconds.

Seconds of the machine's clock: when the lines to all neighbours stood; when the first round or stage began, and ended;
when the last round ended, and the process does. Besides, seconds that rounds after the first spent in their exchange.
"""

from __future__ import annotations

import atexit
import json
import sys
import time
from pathlib import Path
from unittest.mock import patch

from admmnet.__main__ import main
from admmnet.running.rounds import Rounds
from admmnet.transport.regroup import Regroup, Sent
from admmnet.transport.starts import Standing

if __name__ == "__main__":
    file = Path(sys.argv.pop(1))
    begun, ends = list[float](), list[tuple[float, float]]()
    lines = list[float]()
    run, begin = Rounds.run, Regroup.begin

    def timed(self: Rounds, round: int) -> bool:
        begun.append(time.monotonic())
        said = run(self, round)
        if round >= 0:
            ends.append((time.monotonic(), self.seconds["exchange"]))
        return said

    def met(self: Regroup, standing: Standing) -> list[Sent]:
        lines.append(time.monotonic())
        return begin(self, standing)

    def write() -> None:
        (first, before), (last, after) = ends[0], ends[-1]
        times = {"lines": lines[0], "begun": begun[0], "first": first, "last": last, "end": time.monotonic()}
        file.write_text(json.dumps(times | {"rounds": len(ends) - 1, "exchange": after - before}))

    atexit.register(write)
    with patch.object(Rounds, "run", timed), patch.object(Regroup, "begin", met):
        main()
