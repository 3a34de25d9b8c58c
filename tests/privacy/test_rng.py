"""Random streams: the same where they must be, independent elsewhere, never twice in private runs."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray

from admmnet.rng import AgentStreams, Purpose


def raw(rng: np.random.Generator, size: int) -> NDArray[np.uint64]:
    return np.array(rng.bit_generator.random_raw(size), dtype=np.uint64)


def test_seeded_streams_are_frozen() -> None:
    words = [[int(raw(stream, 1)[0]) for stream in AgentStreams(agent, 7).values()] for agent in (0, 1)]
    assert words == [
        [7233101070458666047, 16102320170532561005, 5714753203973567835, 17399280157855551184],
        [10880027834572141776, 8882538910080420722, 8834056210639959753, 4491360187996368185],
    ]
    assert [*Purpose] == [Purpose.OBJECTIVE, Purpose.OUTPUT, Purpose.GATE, Purpose.BATCH]
    for seed, key in product((0, 2**80), Purpose):
        sequence = np.random.SeedSequence(seed, spawn_key=(3, int(key)))
        expected = np.random.Generator(np.random.PCG64(sequence)).standard_normal(3)
        np.testing.assert_array_equal(AgentStreams(3, seed)[key].standard_normal(3), expected)


@pytest.mark.parametrize("seeds", [range(200), [None] * 40], ids=["seeded", "private"])
def test_streams_never_repeat(seeds: Sequence[int | None]) -> None:
    """64-bit words of agents, purposes and seeds repeat with probability 2e-10: no overlap at any shift."""
    streams = [stream for seed in seeds for i in (0, 1, 256) for stream in AgentStreams(i, seed).values()]
    words = np.concatenate([raw(stream, 30) for stream in streams])
    assert np.unique(words).size == words.size


def test_private_streams_are_chacha20_under_256_bits_of_the_operating_system(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def randbits(bits: int) -> int:
        asked.append(bits)
        return 0

    monkeypatch.setattr(secrets, "randbits", randbits)
    streams = AgentStreams(0, None)
    stream = streams[Purpose.OBJECTIVE]
    assert asked == [256]
    assert len({id(streams[purpose].bit_generator) for purpose in Purpose for _ in range(2)}) == len(Purpose)
    assert asked == [256] * len(Purpose), "a key of its own for every purpose, once"
    # keystream of ChaCha20 for key 0, nonce 0: RFC 8439, A.1, test vector 1
    assert raw(stream, 2).tobytes().hex() == "76b8e0ada0f13d90405d6ae55386bd28"


def test_no_seeded_stream_keeps_a_sequence_of_its_own() -> None:
    """Of 100,000 agents with two streams each they are 69 MB."""
    kept = {id(stream.bit_generator.seed_seq) for i in (0, 1) for stream in AgentStreams(i, 7).values()}
    assert len(kept) == 1
