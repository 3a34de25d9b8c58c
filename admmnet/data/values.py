"""What a text says in a column of numbers: a number, nothing, or something that a person takes for one."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from admmnet.types import Vector

MISSING = frozenset({"", "?", "-", ".", "na", "n/a", "#n/a", "nan", "-nan", "null", "none", "<na>", "nat"})
"""Texts of a missing value, in lower case."""
DATE = re.compile(r"\d{4}[-/.]\d{1,2}([-/.]\d{1,2})?([ T]\d.*)?|\d{1,2}[-/.]\d{1,2}[-/.](\d{4}|\d{2})([ T]\d.*)?")
"""A date by numbers, with or without a time."""
LIMIT = re.compile(r"^[<>≤≥]=?\s*")
"""Beginning of a number that is known to lie below or above a limit."""
GROUPS = re.compile(r"[-+]?[1-9]\d{0,2}[.,]\d{3}")
"""A number of which the mark may stand between thousands."""
_COMMA = re.compile(r"[-+]?[\d.,' ]*\d,\d[\d.,]*")
UNIT = re.compile(r"[$€£¥]\s?[-+]?\d[\d.,' ]*|[-+]?\d[\d.,' ]*\s?([%$€£¥]|[A-Za-zµ]{1,3})")
"""A number with a currency, a percent sign or a short unit."""


class Spelling(NamedTuple):
    """How a file writes numbers."""

    decimal: str = "."
    thousands: str = ""  # between groups of three digits; empty: digits stand together

    def number(self, text: str) -> float:
        """Value of a text; a ValueError if it is no number."""
        if self.thousands:
            mark, point = re.escape(self.thousands), re.escape(self.decimal)
            if re.fullmatch(rf"[-+]?\d{{1,3}}({mark}\d{{3}})+({point}\d*)?", text):
                text = text.replace(self.thousands, "")
        if self.decimal != ".":
            if "." in text:
                raise ValueError(text)
            text = text.replace(self.decimal, ".")
        return float(text)

    def finite(self, text: str) -> float | None:
        """Value of a text; None if it is no finite number."""
        try:
            value = self.number(text)
        except ValueError:
            return None
        return value if math.isfinite(value) else None

    def infinite(self, text: str) -> bool:
        """Whether a text is a number, but no finite one."""
        try:
            return not math.isfinite(self.number(text))
        except ValueError:
            return False


PLAIN = Spelling()
"""Digits with a point."""


def is_missing(text: str) -> bool:
    """Whether a text stands for a missing value."""
    return text.strip().casefold() in MISSING


def numbers_of(levels: Sequence[str], spelling: Spelling, *, missing: bool) -> Vector | None:
    """Values of texts, shape (levels,), nan for a missing one where that is allowed; None if one is no number."""
    try:
        values = np.array([spelling.number(text) for text in levels], dtype=np.float64)
        if np.isfinite(values).all():
            return values
    except ValueError:
        pass
    found = [math.nan if missing and is_missing(text) else spelling.finite(text) for text in levels]
    return None if None in found else np.array(found, dtype=np.float64)


def no_number(text: str, spelling: Spelling) -> str | None:
    """Why a text is no finite number, and what helps; None if it is one."""
    if spelling.finite(text) is not None:
        return None
    if is_missing(text):
        what = "not finite" if text.casefold() in ("nan", "-nan") else "no number but a missing value"
        return f'{text!r} is {what}; fill it in, or declare missing = "indicator" for the column in [data.schema]'
    if DATE.fullmatch(text):
        return f"{text!r} is no number but a date; drop the column, or make an age, a year or a duration of it"
    if GROUPS.fullmatch(text) and spelling == PLAIN:
        return f'{text!r} may be with decimals or thousands: declare decimal = "," or thousands = "," in [data.schema]'
    if _COMMA.fullmatch(text) and spelling.decimal == ".":
        return f'{text!r} is no number; declare decimal = "," in [data.schema], or thousands = ","'
    if LIMIT.match(text) and spelling.finite(LIMIT.sub("", text)) is not None:
        return f"{text!r} is no number but a limit; write the number that stands for it"
    if spelling.finite(re.sub(r"\s", "", text)) is not None:
        return f"{text!r} is no number for its blanks; take them out"
    if spelling.infinite(text):
        return f"{text!r} is not finite; remove the row or fill the value in"
    if PLAIN.finite(text) is not None:
        return f"{text!r} is no number where decimal = {spelling.decimal!r}; mend it, or the schema"
    if UNIT.fullmatch(text):
        return f"{text!r} is no number; write it without its unit"
    return (
        f"{text!r} is no number; give a number, or declare the column in [data.schema] as categories, or drop it"
        " (`admmnet data draft` proposes one of these)"
    )
