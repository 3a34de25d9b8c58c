"""Words of messages."""

from __future__ import annotations

from admmnet.cli.model import _few
from admmnet.errors import article, counted


def test_articles_and_counts() -> None:
    assert [article(noun) for noun in ("int", "object", "float", "list of length 2")] == [
        *("an int", "an object", "a float", "a list of length 2")
    ]
    assert [counted(number, "round") for number in (0, 1, 2)] == ["0 rounds", "1 round", "2 rounds"]


def test_an_expected_count_has_no_exponent() -> None:
    assert [_few(chance) for chance in (0.04, 4.96, 12.3, 360.1)] == ["0.04", "5", "12", "360"]
