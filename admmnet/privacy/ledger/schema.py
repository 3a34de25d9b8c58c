"""The JSON Schema of a ledger's lines, made of their types.

python -m admmnet.privacy.ledger.schema > ledger.json
"""

from __future__ import annotations

from typing import Any, get_args

import msgspec

from admmnet import form_tables
from admmnet.privacy.events import EVENTS
from admmnet.privacy.ledger.form import Budget, EventLine, Limit, Line, Planned, Total

FORMS: tuple[type, ...] = (*get_args(Line), Budget, Planned, Limit, Total)
"""Lines, and the forms inside them."""


def schema() -> dict[str, Any]:
    """Return the schema of one line of any kind."""
    forms = form_tables.schema([*FORMS, *EVENTS.values()])
    mine = {name: {"$ref": f"#/$defs/{kind.__name__}"} for name, kind in EVENTS.items()}
    forms[EventLine.__name__]["oneOf"] = [
        {"properties": {"mechanism": {"const": name}, "parameters": form}} for name, form in mine.items()
    ]
    forms[Planned.__name__]["properties"]["planned"]["items"]["oneOf"] = [
        {"prefixItems": [{"const": name}, form]} for name, form in mine.items()
    ]
    kinds = [{"$ref": f"#/$defs/{kind.__name__}"} for kind in get_args(Line)]
    about = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "One line of a ledger of admmnet"}
    return {**about, "oneOf": kinds, "$defs": forms}


if __name__ == "__main__":
    print(msgspec.json.format(msgspec.json.encode(schema()), indent=2).decode())  # noqa: T201
