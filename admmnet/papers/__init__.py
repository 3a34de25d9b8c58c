"""The papers' figures from one command: `admmnet reproduce NAME` (docs/reproduction.md).

::

    from admmnet.papers import reproduce

    if __name__ == "__main__":  # the runs are spread over processes that import this file again
        print(reproduce("song2013", out="runs/song", quick=True).report)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from admmnet.registry import lazily

if TYPE_CHECKING:
    from admmnet.papers.driver import Reproduced, reproduce

__all__ = ["PAPERS", "Reproduced", "reproduce"]

PAPERS = ("ding2020", "damaskinos2021", "song2013", "banco")
"""Papers whose figures are made; a module of this package each."""
__getattr__, __dir__ = lazily(__name__, dict.fromkeys(("Reproduced", "reproduce"), "driver"))
