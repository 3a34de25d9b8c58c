"""Agents of one start with keys for masks."""

from __future__ import annotations

from admmnet.masking import Masks, StartKey, start_of

RUN = "ab" * 32


def crew(agents: int, run: str = RUN, keys: dict[int, StartKey] | None = None, colluders: int = 1) -> dict[int, Masks]:
    """Masks of so many agents that have agreed on keys."""
    keys = {i: StartKey() for i in range(agents)} if keys is None else keys
    publics = {i: key.public for i, key in keys.items()}
    start = start_of(run, "settings", publics)
    return {i: Masks(i, key, publics, start, colluders) for i, key in keys.items()}
