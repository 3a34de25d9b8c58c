"""Records for the agents: sources, public encoding, train/test draw and shards (docs/data.md).

A rank calls `load` with the agents it runs and gets their rows, scaled to norm 1, and the test set. The draw
and the shards depend on the data seed alone, so that all ranks agree without a message. `load_new` encodes
further rows for a model that exists.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from admmnet.registry import lazily

if TYPE_CHECKING:
    from admmnet.data.loading import ENCODING, Part, load, load_each, load_new
    from admmnet.data.records import Records, TargetRange
    from admmnet.data.schema import Task
    from admmnet.data.sets import BUILT_IN
    from admmnet.data.settings import FILE_FORMS, DataSettings
    from admmnet.data.sources import declared_classes, declared_task, validate

_HOMES = {
    **dict.fromkeys(("ENCODING", "Part", "load", "load_each", "load_new"), "loading"),
    **dict.fromkeys(("Records", "TargetRange"), "records"),
    "Task": "schema",
    **dict.fromkeys(("FILE_FORMS", "DataSettings"), "settings"),
    "BUILT_IN": "sets",
    **dict.fromkeys(("declared_classes", "declared_task", "validate"), "sources"),
}
__all__ = [
    "BUILT_IN",
    "ENCODING",
    "FILE_FORMS",
    "DataSettings",
    "Part",
    "Records",
    "TargetRange",
    "Task",
    "declared_classes",
    "declared_task",
    "load",
    "load_each",
    "load_new",
    "validate",
]
__getattr__, __dir__ = lazily(__name__, _HOMES)  # help and the settings do without numpy
