"""Records for the agents: sources, public encoding, train/test draw and shards (docs/data.md).

A rank calls `load` with the agents it runs and gets their rows, scaled to norm 1, and the test set. The draw
and the shards depend on the data seed alone, so that all ranks agree without a message.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from admmnet.registry import lazily

if TYPE_CHECKING:
    from admmnet.data.loading import load
    from admmnet.data.records import Records
    from admmnet.data.settings import DataSettings

__all__ = ["DataSettings", "Records", "load"]
__getattr__, __dir__ = lazily(__name__, {"DataSettings": "settings", "Records": "records", "load": "loading"})
