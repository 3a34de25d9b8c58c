"""Tables of keys in the docs are those of the types; `python -m tests.docs.test_form_tables` writes them."""

from __future__ import annotations

import re

import pytest

from admmnet.form_tables import keys, schema, summary
from admmnet.holder.encoding import Number, Plain, Words
from admmnet.privacy.events import EVENTS
from admmnet.privacy.ledger.schema import FORMS
from admmnet.record.file_forms import Measured
from admmnet.record.forms import TABLES as TABLES_OF_SUMMARY
from tests.doc_pages import ROOT

PAGES = {"ledger.md": 23}
ENCODING_TABLES = (Measured, Number, Plain, Words)


def table(kind: type) -> str:
    """Return a Markdown list of the keys of a form."""
    properties, rows = schema([kind])[kind.__name__]["properties"], []
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
