"""A saved model, read back from its run folder and checked."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from admmnet.config.run_config import RunConfig
from admmnet.config.toml import load_saved
from admmnet.data.records import TargetRange
from admmnet.data.rows import target_of
from admmnet.data.schema import Task, parse_schema
from admmnet.data.sets import KNOWN
from admmnet.data.settings import parse_centre
from admmnet.data.source import oriented
from admmnet.data.sources import declared_task
from admmnet.errors import CheckFailed, RequestError, short
from admmnet.record.encoding import NOTHING, WHITENING, Found, read_found
from admmnet.record.folder import model_arrays
from admmnet.types import Matrix, Vector

NOISE = "noise.npy"
"""File of the run folder with the standard deviation of the noise in each number, where the method knows it."""


@dataclass(frozen=True)
class Model:
    """A model with what is needed to encode rows for it."""

    folder: Path  # of the run
    theta: Matrix  # model of every agent: (N, d), or (N, K, d) of K > 2 classes
    consensus: Vector  # their average: (d,) or (K, d)
    feature_names: tuple[str, ...]  # the d names
    config: RunConfig
    encoding: dict[str, Any] | None  # the table `[data.schema]` with what the run had read from rows, if it had
    classes: tuple[str, ...] = ()  # the K names; empty of two classes and of real targets
    deviation: Vector | None = None
    """Standard deviation of the noise in each number of the consensus, where the method's releases tell it."""
    found: Found = NOTHING
    """What sums before the first round have told of the records, by which rows are encoded and whitened."""

    @property
    def task(self) -> Task:
        """What its labels were, as the settings of the run declare it."""
        if self.classes:
            return "classes"
        read = None if self.encoding is None else parse_schema(self.encoding).task
        return read or declared_task(self.config.sections.data)

    @property
    def labels(self) -> tuple[str, ...]:
        """Words of the labels -1 and +1, or of the classes; empty of real targets."""
        schema = parse_schema(self.table)
        if self.task == "real" or self.classes:
            return self.classes
        return schema.classes if schema.labels is None else oriented(schema.labels, self.config.positive)

    @property
    def target(self) -> TargetRange | None:
        """How real targets became labels."""
        schema = parse_schema(self.table)
        if self.task != "real" or schema.targets is None:
            return None
        given = parse_centre(self.config.centre)
        return target_of(*schema.targets, given if isinstance(given, float) else schema.centre)

    @property
    def table(self) -> Mapping[str, Any] | None:
        """Table `[data.schema]` by which its rows were made; None where there is none."""
        known = KNOWN.get(self.config.data)
        # labels of a family, such as one digit against the others, are in no file
        public = dict(known.schema) if known is not None and known.public and not known.shown else None
        return self.encoding or self.config.schema or public

    def vector(self, agent: int | None = None) -> Vector:
        """Model (d,) or (K, d) of an agent, or the consensus; RequestError if there is no such agent."""
        if agent is None:
            return self.consensus
        if not 0 <= agent < len(self.theta):
            raise RequestError(f"--agent {agent}: the run has the agents 0 to {len(self.theta) - 1}")
        return np.ascontiguousarray(self.theta[agent])


def read_model(folder: str | Path) -> Model:
    """Read the model of a finished run from its folder.

    Raises
    ------
    RequestError
        If a file is missing, as in an unfinished run, or damaged.
    """
    if not isinstance(folder, str | os.PathLike):
        raise RequestError(f"{short(folder)} is no run folder: give its path")
    folder = Path(folder)
    path = folder / "model.npz"
    if not path.is_file():
        lacks = f"{folder} has no model.npz" if folder.exists() else f"there is nothing of the name {folder}"
        raise RequestError(f"{lacks}: name the folder of a finished run")
    try:
        arrays = model_arrays(path.read_bytes(), path)
        encoding, found = read_found(folder)
    except (OSError, CheckFailed) as error:
        raise RequestError(f"{error}: take the original run folder") from None
    theta, consensus = arrays["theta"], arrays["consensus"]
    names, classes = (tuple(map(str, arrays.get(key, ()))) for key in ("feature_names", "classes"))
    if not (np.isfinite(theta).all() and np.isfinite(consensus).all()):
        raise _unsound(path, "is no sound model (it holds numbers that are not finite)")
    if found.whitening is not None and len(found.whitening) != len(names):
        raise _unsound(folder / WHITENING, f"is not of the {len(names)} features of the model")
    deviation = _deviation(folder / NOISE, consensus)
    return Model(folder, theta, consensus, names, load_saved(folder), encoding, classes, deviation, found)


def _unsound(path: Path, why: object) -> RequestError:
    return RequestError(f"{path} {why}: take the original run folder")


def _deviation(path: Path, consensus: Vector) -> Vector | None:
    """Standard deviation of the noise in each number of the consensus; None where the run wrote none."""
    if not path.exists():
        return None
    try:
        with path.open("rb") as file:
            found: Vector = np.lib.format.read_array(file, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise _unsound(path, f"is no sound array ({error})") from None
    if found.dtype != np.float64 or found.shape != consensus.shape or not ((found >= 0.0) & np.isfinite(found)).all():
        raise _unsound(path, f"({found.dtype} {found.shape}) must hold {consensus.shape} finite numbers, none negative")
    return found
