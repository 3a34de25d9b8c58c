"""Phishing websites (UCI, CC BY 4.0): 11,055 records, in libsvm form (68 binary features) or as UCI has them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from admmnet.data.delimited import read_delimited
from admmnet.data.encode import encode
from admmnet.data.files import locate, locate_first
from admmnet.data.labels import read_labels
from admmnet.data.libsvm import read_libsvm
from admmnet.data.schema import Schema, parse_schema
from admmnet.data.source import Source

FILE = "phishing/phishing.libsvm"
"""Path of the libsvm form below the data folder."""
FEATURES = 68
LABELS = ("0", "1")
NOTE = (
    "phishing: only 5,849 of its 11,055 records are distinct, so train and test share some: errors look low"
)
_VALUE = 0.18257  # of every entry: 1/sqrt(30) to five digits

UCI_FILES = ("phishing/phishing_uci.csv", "phishing/Training Dataset.arff")
"""Paths of the UCI form: the data rows alone, or the original with its header."""
ORIGIN = "the UCI archive (Phishing Websites): Training Dataset.arff, or its data rows as phishing_uci.csv"
_ATTRIBUTES = (
    "having_IP_Address", "URL_Length", "Shortining_Service", "having_At_Symbol", "double_slash_redirecting",
    "Prefix_Suffix", "having_Sub_Domain", "SSLfinal_State", "Domain_registeration_length", "Favicon", "port",
    "HTTPS_token", "Request_URL", "URL_of_Anchor", "Links_in_tags", "SFH", "Submitting_to_email", "Abnormal_URL",
    "Redirect", "on_mouseover", "RightClick", "popUpWidnow", "Iframe", "age_of_domain", "DNSRecord", "web_traffic",
    "Page_Rank", "Google_Index", "Links_pointing_to_page", "Statistical_report",
)  # fmt: skip
UCI_SCHEMA: dict[str, Any] = {
    "label": "Result",
    "labels": ["-1", "1"],
    "columns": {name: {"kind": "numeric", "low": -1, "high": 1, "scale": "centred"} for name in _ATTRIBUTES},
}
"""The encoding of the UCI form: every attribute is -1, 0 or 1."""


def find_phishing(data_dir: str | None) -> Path:
    """Path of the libsvm form.

    Raises
    ------
    RequestError
        Saying where it was expected and what to do.
    """
    return locate(FILE, data_dir, None, None)


def find_phishing_uci(data_dir: str | None) -> Path:
    """Path of the UCI form.

    Raises
    ------
    RequestError
        As `find_phishing`.
    """
    return locate_first(UCI_FILES, data_dir, ORIGIN)


def read_phishing(data_dir: str | None) -> Source:
    """Read the libsvm form from the data folder; a quarter of it is drawn for testing.

    Raises
    ------
    RequestError
        If the file is missing or unsound.
    """
    schema = Schema(labels=LABELS, features=FEATURES)
    source = read_libsvm(find_phishing(data_dir), schema, None, discover=False)
    return replace(source, name="phishing", notes=(NOTE,), bounds=np.full(FEATURES, _VALUE))


def read_phishing_uci(data_dir: str | None) -> Source:
    """Read the UCI form from the data folder; a quarter of it is drawn for testing.

    Raises
    ------
    RequestError
        If the file is missing or unsound.
    """
    path = find_phishing_uci(data_dir)
    schema = parse_schema(UCI_SCHEMA)
    table = read_delimited(path, (*_ATTRIBUTES, "Result"), ",", skip=_no_record)
    labels = read_labels(table.column("Result"), "Result", table.where, schema.labels, None, discover=False)
    encoded = encode(schema, table)
    return Source(
        name="phishing:uci",
        y=labels.y,
        features=encoded.names,
        rows=encoded.rows,
        column=table.column,
        where=table.where,
        schema=schema,
        bounds=encoded.bounds,
        notes=(NOTE,),
    )


def _no_record(line: str) -> bool:
    """Whether a line belongs to the header of an arff file."""
    return not line.strip() or line.lstrip().startswith(("%", "@"))
