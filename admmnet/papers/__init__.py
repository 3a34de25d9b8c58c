"""The papers' figures from one command: `admmnet reproduce NAME` (docs/reproduction.md).

::

    from admmnet.papers import Request, reproduce

    if __name__ == "__main__":  # the runs are spread over processes that import this file again
        print(reproduce(Request("song2013", out="runs/song", scale="quick")).report)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from admmnet.papers.driver import Reproduced, Request, reproduce

__all__ = ["PAPERS", "Reproduced", "Request", "reproduce"]

PAPERS = ("ding2020", "damaskinos2021", "song2013", "banco")
"""Papers whose figures are made; a module of this package each."""


def __getattr__(name: str) -> Any:
    """Import a public name where it is first used."""
    if name not in __all__:
        raise AttributeError(f"module 'admmnet.papers' has no attribute {name!r}")
    return getattr(import_module("admmnet.papers.driver"), name)


def __dir__() -> list[str]:
    """Return the public names."""
    return __all__
