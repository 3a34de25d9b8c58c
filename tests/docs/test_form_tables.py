"""Tables of keys in the docs are those of the types; `python -m tests.docs.test_form_tables` writes them."""

from __future__ import annotations

import ast
import inspect
import re
from typing import get_args

import msgspec
import pytest

from admmnet.holder.encoding import Number, Plain, Words
from admmnet.privacy.events import EVENTS
from admmnet.privacy.ledger.form import Budget, Limit, Line, Planned, Total
from admmnet.record.file_forms import Measured
from admmnet.record.forms import TABLES as TABLES_OF_SUMMARY
from tests.doc_pages import ROOT

PAGES = {"ledger.md": 23}
ENCODING_TABLES = (Measured, Number, Plain, Words)
FORMS: tuple[type, ...] = (*get_args(Line), Budget, Planned, Limit, Total)
"""Lines of a ledger, and the forms inside them."""


def keys(kind: type) -> dict[str, str]:
    """Keys of a form, those that one description has joined by commas, from the texts behind its fields."""
    found: dict[str, str] = {}
    for base in reversed([base for base in kind.__mro__ if base.__module__.startswith("admmnet.")]):
        names: list[str] = []
        for node in ast.walk(ast.parse(inspect.getsource(base))):
            if isinstance(node, ast.AnnAssign) and "ClassVar" not in ast.unparse(node.annotation):
                names.append(ast.unparse(node.target))
            elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and names:
                found[", ".join(names)] = " ".join(str(node.value.value).split()).replace("``", "`")
                names = []
    return found


def summary(kind: type) -> str:
    """First paragraph of its docstring."""
    return " ".join(inspect.cleandoc(kind.__doc__ or "").split("\n\n")[0].split())


def table(kind: type) -> str:
    """Return a Markdown list of the keys of a form."""
    properties, rows = msgspec.json.schema_components([kind])[1][kind.__name__]["properties"], []
    for names, told in keys(kind).items():
        known = [properties.get(name, {}) for name in names.split(", ")]
        values = [f"`{value}`" for form in known[:1] for value in form.get("enum", ()) if len(form["enum"]) > 1]
        choice = f"{told}: {' or '.join(values)}" if values and not any(value in told for value in values) else told
        rows.append(f"- {', '.join(f'`{name}`' for name in names.split(', '))}: {choice}")
    return "\n".join(rows)


def mechanisms() -> str:
    rows = []
    for name, kind in EVENTS.items():
        told = ", ".join(f"`{one}`" for names in keys(kind) for one in names.split(", "))
        released = summary(kind).replace("docs/proofs.md, ", "")
        rows.append(f"- `{name}`: {released}" + (f" Parameters: {told}" if told else ""))
    return "\n".join(rows)


TABLES = {"mechanisms": mechanisms} | {
    f"keys:{kind.__name__}": lambda kind=kind: table(kind) for kind in (*FORMS, *TABLES_OF_SUMMARY, *ENCODING_TABLES)
}


def renewed(page: str) -> str:
    found = re.compile(r"<!--([\w:]+)-->\n(?:.*\n)*?<!--end-->")
    return found.sub(lambda at: f"<!--{at[1]}-->\n\n{TABLES[at[1]]()}\n\n<!--end-->", page)


@pytest.mark.parametrize("page", PAGES)
def test_tables_of_keys_are_those_of_the_types(page: str) -> None:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    assert text.count("<!--end-->") >= PAGES[page]
    assert renewed(text) == text


if __name__ == "__main__":
    for page in PAGES:
        path = ROOT / "docs" / page
        path.write_text(renewed(path.read_text(encoding="utf-8")), encoding="utf-8")
