"""Skin segmentation (UCI, CC BY 4.0): 245,057 pixels, skin (+1) or not, by their three colours.

The file is sorted by class, which the draw undoes.
"""

from __future__ import annotations

from functools import partial

from admmnet.data.known import DataSet
from admmnet.data.readers.delimited import Form, read_texts

_BYTE = {"kind": "numeric", "low": 0, "high": 255}

SETS = (
    DataSet(
        name="skin",
        read=partial(read_texts, names=("blue", "green", "red", "label"), form=Form("\t", header=False)),
        schema={"label": "label", "labels": ["2", "1"], "columns": {"blue": _BYTE, "green": _BYTE, "red": _BYTE}},
        files=(("skin/Skin_NonSkin.txt",),),
        origin="the UCI archive (Skin Segmentation): Skin_NonSkin.txt",
        notes=("skin: only 51,444 of its 245,057 records are distinct, so train and test share most: errors look low",),
    ),
)
