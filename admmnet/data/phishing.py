"""Phishing websites (UCI, CC BY 4.0) in libsvm form: 11,055 records, 68 binary features."""

from __future__ import annotations

from dataclasses import replace

from admmnet.data.files import locate
from admmnet.data.libsvm import read_libsvm
from admmnet.data.schema import Schema
from admmnet.data.source import Source

FILE = "phishing/phishing.libsvm"
"""Path below the data folder."""
FEATURES = 68
LABELS = ("0", "1")
NOTE = (
    "phishing: only 5,849 of its 11,055 records are distinct, so train and test share some: errors look low"
)


def read_phishing(data_dir: str | None) -> Source:
    """Read the set from the data folder; a quarter of it is drawn for testing.

    Raises
    ------
    RequestError
        If the file is missing or unsound.
    """
    path = locate(FILE, data_dir, None, None)
    source = read_libsvm(path, Schema(labels=LABELS, features=FEATURES), None, discover=False)
    return replace(source, name="phishing", notes=(NOTE,))
