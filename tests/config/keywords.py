"""The stub of keywords that ``run`` and ``RunConfig`` take, made from the settings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import get_args

import admmnet
from admmnet.config.run_config import TEXTS, known_settings, own_settings
from admmnet.methods import METHODS
from admmnet.settings import Setting

STUB = Path(admmnet.__file__).parent / "config" / "keywords.pyi"
PARAMETERS = ("data", "test", "schema")
"""Settings that ``run`` has as parameters of their own, which take records in memory, too."""
OBJECTS = {"algorithm": "type[Method]", "loss": "Callable[..., Any]", "topology": "Graph[Any]"}
"""What a program may give in place of a name."""
HEAD = '''"""Keywords of run and RunConfig, made by `python -m tests.config.keywords`: see admmnet/settings.py."""

from collections.abc import Callable, Mapping
from os import PathLike
from typing import Any, Literal, TypedDict

from networkx import Graph

from admmnet.methods.base import Method

class Settings(TypedDict, total=False):
'''


def kind(own: Setting) -> str:
    """Type of a setting's values."""
    parts = ["Mapping[str, Any]" if own.base is Mapping else own.base.__name__]
    parts += ["PathLike[str]"] * (own.path or own.name == "schema") + ["str"] * (own.name == "schema")
    parts += ["float"] * (own.name in TEXTS) + [OBJECTS[name] for name in OBJECTS if name == own.name]
    parts += ['Literal["auto"]'] * own.auto + ["None"] * (type(None) in get_args(own.kind))
    return " | ".join(parts)


def stub() -> str:
    """Content of the stub."""
    known = dict(known_settings())
    for algorithm in METHODS.own:
        known |= own_settings(algorithm)
    lines = {name: f"    {name}: {kind(own)}\n" for name, own in known.items()}
    own = "".join(line for name, line in lines.items() if name not in PARAMETERS)
    rest = "".join(lines[name] for name in PARAMETERS)
    return f"{HEAD}{own}\nclass AllSettings(Settings, total=False):\n{rest}"


if __name__ == "__main__":
    STUB.write_text(stub())
