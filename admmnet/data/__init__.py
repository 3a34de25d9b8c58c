"""Records for the agents: sources, public encoding, train/test draw and shards (docs/data.md).

A rank calls `load` with the agents it runs and gets their rows, scaled to norm 1, and the test set. The draw
and the shards depend on the data seed alone, so that all ranks agree without a message. `load_new` encodes
further rows for a model that exists.
"""

from admmnet.data.loading import ENCODING, headline, load, load_sparse
from admmnet.data.records import NewRows, Records, Target, Task, require_classes
from admmnet.data.scoring import Part, load_new
from admmnet.data.sets import BUILT_IN
from admmnet.data.settings import FILE_FORMS, DataSettings
from admmnet.data.sources import validate

__all__ = [
    "BUILT_IN",
    "ENCODING",
    "FILE_FORMS",
    "DataSettings",
    "NewRows",
    "Part",
    "Records",
    "Target",
    "Task",
    "headline",
    "load",
    "load_new",
    "load_sparse",
    "require_classes",
    "validate",
]
