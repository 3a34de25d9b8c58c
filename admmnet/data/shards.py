"""The draw of the test set and the split of the training records, decided by the data seed alone."""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from admmnet.data.columns import RawColumn, Rows
from admmnet.data.settings import Split
from admmnet.errors import DataError, RequestError
from admmnet.types import Vector

ATTEMPTS = 100
"""Draws of dirichlet proportions before an empty shard is reported."""


class Stream(IntEnum):
    """What a stream of the data seed is for."""

    DRAW = 0
    SHARDS = 1
    PROJECTION = 3  # 2 is the held-out part of a comparison


def stream(data_seed: int, purpose: Stream) -> np.random.Generator:
    """PCG64 stream of the data seed for one purpose; the same on every rank."""
    sequence = np.random.SeedSequence(data_seed, spawn_key=(int(purpose),))
    return np.random.Generator(np.random.PCG64(sequence))


def shuffled(n: int, generator: np.random.Generator) -> Rows:
    """Random order of 0..n-1, made of uniforms only so that it outlives changes in numpy's shuffling."""
    order: Rows = np.argsort(generator.random(n), kind="stable")
    return order


def draw(n: int, share: float, data_seed: int) -> tuple[Rows, Rows]:
    """Draw ``n * share`` test records, rounded: increasing row numbers of training and test, neither empty."""
    tests = round(n * share)
    if not 0 < tests < n:
        raise RequestError(
            f"--test-fraction {share:g} of {n} records gives {tests} test and {n - tests} training records:"
            " both must be 1 or more"
        )
    order = shuffled(n, stream(data_seed, Stream.DRAW))
    return np.sort(order[tests:]), np.sort(order[:tests])


def deal(
    split: Split, train: Rows, y: Vector, column: Callable[[str], RawColumn], agents: int, data_seed: int
) -> tuple[Rows, ...]:
    """Deal the training rows to the agents: increasing rows of every agent, disjoint, none empty.

    `y` are the labels of all rows, `column` gives the raw column of a name.
    """
    if agents > len(train):
        raise RequestError(f"{agents} agents and {len(train)} training records: every agent needs 1 or more")
    if split.kind == "by-column":
        owner = _by_column(column(split.column), split.column, train, agents)
        return tuple(train[owner == agent] for agent in range(agents))
    shares = _shares(split, agents)
    generator = stream(data_seed, Stream.SHARDS)
    mixed = train[shuffled(len(train), generator)]
    if split.kind == "iid":
        return tuple(np.sort(part) for part in np.array_split(mixed, agents))
    if shares is not None:
        return _unequal(mixed, shares, split.kind)
    return _dirichlet(mixed, y[mixed], split.concentration, agents, generator)


def _shares(split: Split, agents: int) -> Vector | None:
    """Shares of the records that a split names, None where it names none."""
    if split.kind == "zipf":
        found: Vector = np.arange(1.0, agents + 1.0) ** -split.exponent
        return found
    if split.kind != "sizes":
        return None
    if len(split.shares) != agents:
        raise RequestError(
            f"--split sizes: has {len(split.shares)} shares for {agents} agents: give one share an agent, or --agents "
            f"{len(split.shares)}"
        )
    return np.array(split.shares)


def _unequal(rows: Rows, shares: Vector, kind: str) -> tuple[Rows, ...]:
    """Cut shuffled rows in proportion to shares, ends rounded."""
    ends = np.rint(np.cumsum(shares / shares.max()) / np.sum(shares / shares.max()) * len(rows))
    parts = np.split(rows, ends[:-1].astype(np.intp))
    empty = [agent for agent, part in enumerate(parts) if not len(part)]
    if empty:
        raise RequestError(
            f"--split {kind}: leaves agent {empty[0]} without records, {len(rows)} are dealt to {len(parts)} agents: "
            "take shares that differ less, or fewer agents"
        )
    return tuple(np.sort(part) for part in parts)


def _dirichlet(
    rows: Rows, y: Vector, concentration: float, agents: int, generator: np.random.Generator
) -> tuple[Rows, ...]:
    classes = [rows[y == label] for label in np.unique(y)]
    for _ in range(ATTEMPTS):
        cuts = []
        for members in classes:
            shares = generator.dirichlet(np.full(agents, concentration))
            ends = np.rint(np.cumsum(shares)[:-1] * len(members)).astype(np.intp)
            cuts.append(np.split(members, ends))
        parts = tuple(np.sort(np.concatenate(pieces)) for pieces in zip(*cuts, strict=True))
        if min(len(part) for part in parts) > 0:
            return parts
    raise RequestError(
        f"--split dirichlet:{concentration:g} left one of {agents} agents without records {ATTEMPTS} times:"
        " raise A, or use fewer agents"
    )


def _by_column(column: RawColumn, name: str, train: Rows, agents: int) -> NDArray[np.intp]:
    """Owner of each record: a value goes to the agent with least so far, the largest first."""
    sizes = np.bincount(column.codes[train], minlength=len(column.levels))
    order = sorted(range(len(sizes)), key=lambda code: (-sizes[code], column.levels[code]))
    groups = [code for code in order if sizes[code]]
    if len(groups) < agents:
        raise DataError(
            f"--split by-column:{name}: {len(groups)} values among the training records for {agents} agents;"
            " use fewer agents or a column with more values"
        )
    owner_of = np.zeros(len(sizes), dtype=np.intp)
    load = [0] * agents
    for code in groups:
        agent = min(range(agents), key=lambda i: (load[i], i))
        owner_of[code] = agent
        load[agent] += int(sizes[code])
    owners: NDArray[np.intp] = owner_of[column.codes[train]]
    return owners
