"""Pictures as SVG elements of a page: without what its policy refuses and what several pictures cannot share."""

from __future__ import annotations

import io
import re
from typing import Any
from xml.etree import ElementTree

import numpy as np

from admmnet.report.figure import Panel, Picture, draw, style
from admmnet.report.html.markup import Raw, text

_XLINK, _SVG = "{http://www.w3.org/1999/xlink}", "{http://www.w3.org/2000/svg}"
_USELESS = ("font-family", "stroke-dashoffset", "stroke-miterlimit")


def drawn(panel: Panel, key: str, width: float, height: float, words: str) -> tuple[Raw, dict[str, Any]]:
    """Return a panel as an element, width and height in inches, and where its axes are in the element's units.

    ``key`` is unique on the page. ``box``: left, top, right, bottom; ``x`` and ``y``: the ends of the axes; ``log``:
    whether that of y is logarithmic.
    """
    figure: Any = draw(Picture("", ((panel,),), width=width, height=height))
    figure.set_dpi(72)
    raw = io.StringIO()
    with style(text_as_text=True):
        figure.savefig(raw, format="svg", dpi=72, metadata={"Date": None})
    axes = figure.axes[0]
    across, tall = figure.bbox.size
    place = axes.get_position()
    box = (place.x0 * across, (1 - place.y1) * tall, place.x1 * across, (1 - place.y0) * tall)
    found = {
        "box": [round(float(end), 2) for end in box],
        "x": [float(end) for end in axes.get_xlim()],
        "y": [float(end) for end in axes.get_ylim()],
        "log": axes.get_yscale() == "log",
    }
    head = {"viewBox": f"0 0 {_tenths(across)} {_tenths(tall)}", "role": "img", "tabindex": "0", "aria-label": words}
    markup = raw.getvalue()
    names = dict.fromkeys(re.findall(r'#([\w-]+)["\)]', markup))
    named = {name: f"{key}-{number}" for number, name in enumerate(names)}
    root = ElementTree.fromstring(markup)
    inner = "".join(_element(child, named) for child in root)
    return Raw(f"<svg{_attributes(head)}>{inner}</svg>"), found


def _element(node: ElementTree.Element, named: dict[str, str]) -> str:
    name = node.tag.removeprefix(_SVG)
    if name in ("metadata", "style"):
        return ""
    given: dict[str, str] = {}
    for full, value in node.attrib.items():
        attribute = full.removeprefix(_XLINK)
        if attribute == "style":  # the same words as attributes are allowed by the page's policy
            parts = (part.partition(":") for part in value.split(";") if part.strip())
            given |= {part.strip(): setting.strip() for part, _, setting in parts}
        elif attribute != "id":
            given[attribute] = re.sub(r"(?<=#)[\w-]+", lambda found: named.get(found[0], found[0]), value)
        elif value in named:
            given["id"] = named[value]
        elif value == "nodes":
            given["class"] = value
    for attribute in given.keys() & {"x", "y"}:
        given[attribute] = _tenths(float(given[attribute]))
    if "d" in given:
        given["d"] = _steps(given["d"])
    if given.get("transform", "").startswith("rotate(-0 "):
        del given["transform"]
    kept = {attribute: value for attribute, value in given.items() if attribute not in _USELESS}
    inner = "".join(_element(child, named) for child in node) + text((node.text or "").strip())
    if name == "g" and not kept:
        return inner
    return f"<{name}{_attributes(kept)}>{inner}</{name}>" if inner else f"<{name}{_attributes(kept)}/>"


def _attributes(given: dict[str, str]) -> str:
    return "".join(f' {name}="{text(value)}"' for name, value in given.items())


def _tenths(value: float) -> str:
    return str(round(float(value), 1)).removesuffix(".0")


def _steps(path: str) -> str:
    """Path in steps of tenths from point to point, which is half as long."""
    found, before, start, last = list[str](), np.zeros(2, dtype=int), np.zeros(2, dtype=int), ""
    for letter, numbers in re.findall(r"([A-Za-z])([^A-Za-z]*)", path):
        points = np.round(10.0 * np.array(numbers.split(), dtype=float)).astype(int).reshape(-1, 2)
        steps = (points - before).ravel().tolist()
        words = " ".join(_tenths(step / 10) for step in steps)
        small = letter.lower()
        found.append((" " if small == last == "l" else small) + words)
        last = small
        before = points[-1] if len(points) else start
        start = points[0] if small == "m" else start
    return re.sub(r"(?<!\d)0(?=\.)| (?=-)", "", "".join(found))
