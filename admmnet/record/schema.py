"""The JSON Schema of summary.json, made of its types.

python -m admmnet.record.schema > summary.json
"""

from __future__ import annotations

from typing import Any

import msgspec

from admmnet import form_tables
from admmnet.record.forms import TABLES, Summary


def schema() -> dict[str, Any]:
    """Return the schema of a summary."""
    about = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "summary.json of a run of admmnet"}
    return {**about, "$ref": f"#/$defs/{Summary.__name__}", "$defs": form_tables.schema(TABLES)}


if __name__ == "__main__":
    print(msgspec.json.format(msgspec.json.encode(schema()), indent=2).decode())  # noqa: T201
