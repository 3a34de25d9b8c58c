"""Whether summary.json and ledgers of a run folder, and accounts, are as the JSON Schemas of the package say."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

from admmnet.privacy.ledger import schema as ledger
from admmnet.record import schema as summary


@cache
def schema(name: str) -> dict[str, Any]:
    """A schema of the package: of a ledger's lines, or of a summary."""
    return ledger.schema() if name == "ledger" else summary.schema()


@cache
def validator(name: str) -> Draft202012Validator:
    Draft202012Validator.check_schema(schema(name))
    return Draft202012Validator(schema(name))


@cache
def _line(kind: str, mechanism: str | None) -> Draft202012Validator:
    """Validator of one kind of line, of an event by its mechanism: ``oneOf`` tries all, and says that none fits."""
    forms = schema("ledger")["$defs"]
    line = dict(forms[f"{kind.capitalize()}Line"])
    if mechanism is not None:
        line["oneOf"] = [own for own in line["oneOf"] if own["properties"]["mechanism"]["const"] == mechanism]
    return Draft202012Validator({**line, "$defs": forms})


def check_lines(path: Path) -> set[str]:
    """Hold every line of a ledger or an account against the schema; kinds and mechanisms that it has."""
    found = set()
    for text in path.read_text(encoding="utf-8").splitlines():
        line = json.loads(text)
        kind, mechanism = line["kind"], line.get("mechanism")
        _line(kind, mechanism).validate(line)
        found |= {kind, mechanism or kind}
    return found


def check_folder(folder: Path) -> set[str]:
    """Hold a finished run folder against both schemas; kinds of lines and mechanisms that its ledgers have."""
    validator("summary").validate(json.loads((folder / "summary.json").read_text(encoding="utf-8")))
    return set().union(*map(check_lines, sorted((folder / "ledger").glob("*.jsonl"))))
