"""A grid as a TOML file (docs/compare.md, "A grid in a file").

[compare] has its lists, the tables of a run hold for all runs, and each [[place]] says what is different there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any

from admmnet.config.toml import values_of
from admmnet.errors import RequestError, short
from admmnet.experiments.grid import Comparison
from admmnet.experiments.parsing import parse_seeds

WORDS = ("algorithms", "epsilons", "seeds", "resplit", "tune", "tune_seeds")
"""Keys of [compare] and of a place beside its name: what ``Comparison`` has of the same names."""


def grids_of(
    tables: dict[str, Any], path: Path, words: Mapping[str, Any], settings: Mapping[str, Any], out: str
) -> dict[str, Comparison]:
    """Comparisons by the names of their places; without places a single one, whose name is empty.

    A place that says ``vary.SETTING = [...]`` is one for each value, with that in its name. ``words`` and ``settings``
    hold for all of them, in place of what the tables of the file say.

    RequestError if the file is no such file, or a place has no name or the name of another one.
    """
    common, places = tables.pop("compare", {}), tables.pop("place", [{"name": ""}])
    if not (isinstance(common, dict) and isinstance(places, list) and all(isinstance(one, dict) for one in places)):
        raise RequestError(f"{path}: compare must be a table, [compare], and every place one, [[place]]")
    found: dict[str, Comparison] = {}
    for place, varied in [(dict(one), value) for one in places for value in _varied(one, path)]:
        name, folder = place.pop("name", None), ""
        name = "; ".join([str(name), *(f"{key}={value}" for key, value in varied.items())]) if varied else name
        if len(places) > 1 or name != "":
            folder = re.sub(r"[^\w.+-]+", "-", str(name or ""))
            if not folder or str(Path(out, folder)) in (one.out for one in found.values()):
                raise RequestError(f"{path}: a place with name = {name!r} is not allowed: give each one of its own")
        own = common | {word: place.pop(word) for word in WORDS if word in place} | dict(words)
        if unknown := [word for word in own if word not in WORDS]:
            raise RequestError(f"{path}: unknown key {unknown[0]} in [compare]; keys: {', '.join(WORDS)}")
        if "algorithms" not in own:
            raise RequestError(f"{path} names no methods: say algorithms = [NAME, ...] in [compare], or --algorithms")
        if isinstance(own.get("seeds"), str):
            own["seeds"] = parse_seeds(own["seeds"])
        values = values_of(tables, path) | values_of(place, path) | varied | dict(settings)
        found[name] = Comparison(**own, settings=values, out=str(Path(out, folder)))
    return found


def _varied(place: dict[str, Any], path: Path) -> Iterator[dict[str, Any]]:
    vary = place.pop("vary", {})
    lists = list(vary.values()) if isinstance(vary, dict) else [None]
    if not all(isinstance(values, list) and values for values in lists):
        raise RequestError(f"{path}: vary = {short(vary)} is not allowed: give lists of values, vary.SETTING = [...]")
    if vary and not place.get("name"):
        raise RequestError(f"{path}: a place that varies a setting has no name: give it one")
    yield from (dict(zip(vary, values, strict=True)) for values in product(*vary.values()))
