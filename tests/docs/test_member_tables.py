"""What docs/library.md lists of `Agent` and of the measurements; `python -m tests.docs.test_member_tables` writes it.

A place is `<!--attributes-->` or `<!--measurements-->`, up to `<!--end-->`.
"""

from __future__ import annotations

import ast
import inspect
import re
from dataclasses import MISSING, fields
from itertools import pairwise
from typing import Any

from admmnet.holder import measurements
from admmnet.holder.answers import KINDS
from admmnet.methods.agent import Agent
from tests.doc_pages import ROOT, text

PAGE = ROOT / "docs" / "library.md"
PLACE = re.compile(r"<!--(attributes|measurements)-->\n(?:.*\n)*?<!--end-->")
OTHERS = {"ColumnCounts", "SecondMoments", "PublishedComparison"}
"""Asked before the first round, or by a paper's gate."""
SENTENCE = re.compile(r"[.](?:\s|$)")


def attributes() -> dict[str, str]:
    """Fields and properties of an agent, with their words."""
    (found,) = ast.parse(inspect.getsource(Agent)).body
    assert isinstance(found, ast.ClassDef)
    told = {}
    for part, after in pairwise([*found.body, ast.Pass()]):
        if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name):
            assert isinstance(after, ast.Expr), f"{part.target.id} has no words"
            told[part.target.id] = str(ast.literal_eval(after.value))
        elif isinstance(part, ast.FunctionDef) and any(ast.unparse(own) == "property" for own in part.decorator_list):
            told[part.name] = str(ast.get_docstring(part))
    return told


def call(kind: Any) -> str:
    """How a measurement is made; what has a default is left out."""
    words = [field.name for field in fields(kind) if field.default is MISSING]
    more = ["..."] * any(field.default is not MISSING for field in fields(kind))
    return f"{kind.__name__}({', '.join(words + more)})"


def lines(kind: str) -> list[str]:
    if kind == "attributes":
        return [f"- `{name}`: {words[0].lower()}{words[1:].removesuffix('.')}" for name, words in attributes().items()]
    found = [getattr(measurements, name) for name in measurements.__all__ if name not in OTHERS]
    return [f"- `{call(own)}`: {SENTENCE.split(inspect.cleandoc(own.__doc__))[0]}" for own in found]


def renewed(page: str) -> str:
    return PLACE.sub(lambda at: "\n".join([f"<!--{at[1]}-->", "", *lines(at[1]), "", "<!--end-->"]), page)


def test_both_places_are_there_and_name_all() -> None:
    assert PLACE.findall(text(PAGE)) == ["attributes", "measurements"]
    assert set(attributes()) >= {field.name for field in fields(Agent)} | {"degree", "present"}
    assert {getattr(measurements, name) for name in measurements.__all__} <= KINDS


def test_they_are_those_of_the_program() -> None:
    assert renewed(text(PAGE)) == text(PAGE), "python -m tests.docs.test_member_tables writes them"


if __name__ == "__main__":
    PAGE.write_text(renewed(text(PAGE)), encoding="utf-8")
