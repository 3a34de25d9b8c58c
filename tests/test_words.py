"""Words of messages."""

from __future__ import annotations

from admmnet.errors import article, counted


def test_articles_and_counts() -> None:
    assert [article(noun) for noun in ("int", "object", "float", "list of length 2")] == [
        *("an int", "an object", "a float", "a list of length 2")
    ]
    assert [counted(number, "round") for number in (0, 1, 2)] == ["0 rounds", "1 round", "2 rounds"]
