"""Private fits of this process on the same rows, added up in memory (docs/library.md, "Many fits").

Worker processes count their own fits. Nothing of a tally is written, and the key of its hashes is kept nowhere.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from secrets import token_bytes
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from admmnet.data.memory import rows_of
from admmnet.errors import AdmmnetError, PrivacyWarning, RequestError, short
from admmnet.privacy.budget import Totals, empty
from admmnet.privacy.together import added, largest
from admmnet.record.format import epsilon

IN_MEMORY = "process"
"""The ``account`` of fits that this tally alone adds up."""
ROWS = 10_000_000
"""Rows that a tally tells apart, of 12 bytes each; once there are more, none are."""
SUMS = 1_000
"""Different sums that it keeps, of 5 kB each; once there are more, all rows have the largest."""
_ENTRIES = 2**20
"""Entries of a table that are hashed in one piece."""


@dataclass(frozen=True, eq=False)
class Sum:
    """Fits that a row took part in, added up."""

    totals: Totals  # their proven costs together
    fits: int = 0
    delta: float = 0.0  # the largest of theirs
    zero_out: bool = False  # whether one holds for zero-out alone; bounds for replace-one hold for zero-out, too
    accounts: frozenset[str] = frozenset()  # where they are added up: folders, or ``IN_MEMORY``
    key: int = 0  # equal for equal fits in whatever order

    @classmethod
    def of(cls, spent: Sequence[Totals], delta: float, adjacency: str, account: str) -> Sum:
        """One fit: each of its agents has spent at most this."""
        totals = largest(spent)
        facts = (float(totals.rho), float(totals.mu_squared), float(totals.kappa), delta, adjacency, account)
        key = blake2b(totals.curve.tobytes() + repr(facts).encode(), digest_size=16).digest()
        accounts = frozenset((account,))
        return cls(totals, 1, delta, adjacency == "zero-out", accounts, int.from_bytes(key, "big"))

    def plus(self, other: Sum) -> Sum:
        """Return both together."""
        return Sum(
            added([self.totals, other.totals]),
            self.fits + other.fits,
            max(self.delta, other.delta),
            self.zero_out or other.zero_out,
            self.accounts | other.accounts,
            (self.key + other.key) % 2**128,
        )


NOTHING = Sum(empty("proven"))


class Shared(NamedTuple):
    """The largest sum over the rows of a fit, read at the largest delta of any fit on them."""

    fits: int
    epsilon: float
    delta: float
    adjacency: str
    accounts: frozenset[str]


class Tally:
    """Rows, by 64-bit hashes with a key that is drawn here, and what the fits on each have cost together.

    Its memory is bounded by ``ROWS`` and ``SUMS``: beyond either all rows, new ones as well, start from the largest sum
    so far, which is at least what each of them has spent.
    """

    def __init__(self) -> None:
        self._key, self._lock = np.frombuffer(token_bytes(16), np.uint64), Lock()
        self._forget(NOTHING)

    def _forget(self, start: Sum) -> None:
        """Let every row have spent ``start``."""
        self._rows: NDArray[np.uint64] = np.zeros(0, np.uint64)  # hashes, in order
        self._places: NDArray[np.int32] = np.zeros(0, np.int32)  # of their sums
        self._sums = [start]  # the first is that of rows which are not listed

    def add(self, X: Any, fit: Sum) -> Shared:
        """Count a fit on rows X, shape (n, d); return what the fits on any one of them have cost at most."""
        hashes = np.unique(self._hashes(X))
        with self._lock:
            where = np.searchsorted(self._rows, hashes)
            known = np.isin(hashes, self._rows, assume_unique=True)
            before = np.zeros(len(hashes), np.int32)
            before[known] = self._places[where[known]]
            former, which = np.unique(before, return_inverse=True)
            found = [self._sums[place].plus(fit) for place in former]
            places = np.array([self._place(one) for one in found], np.int32)[which]
            self._places[where[known]] = places[known]
            self._rows = np.insert(self._rows, where[~known], hashes[~known])
            self._places = np.insert(self._places, where[~known], places[~known])
            self._bound()
        delta = max(one.delta for one in found)
        epsilon, fits, k = max((one.totals.epsilon_proven(delta), one.fits, -k) for k, one in enumerate(found))
        adjacency = "zero-out" if any(one.zero_out for one in found) else "replace-one"
        return Shared(fits, float(epsilon), delta, adjacency, found[-k].accounts)

    def _place(self, one: Sum) -> int:
        """Place of a sum, a new one if none has its key."""
        for place, there in enumerate(self._sums):
            if there.key == one.key:
                return place
        self._sums.append(one)
        return len(self._sums) - 1

    def _bound(self) -> None:
        """Drop sums that no row has any more; where there is too much left, all but the largest."""
        used = np.bincount(self._places, minlength=len(self._sums)) > 0
        used[0] = True
        self._places = (np.cumsum(used) - 1)[self._places].astype(np.int32)
        self._sums = [one for one, kept in zip(self._sums, used, strict=True) if kept]
        if len(self._rows) > ROWS or len(self._sums) > SUMS:
            sums = self._sums
            self._forget(
                Sum(
                    largest([one.totals for one in sums]),
                    max(one.fits for one in sums),
                    max(one.delta for one in sums),
                    any(one.zero_out for one in sums),
                    frozenset().union(*(one.accounts for one in sums)),
                )
            )

    def _hashes(self, X: Any) -> NDArray[np.uint64]:
        """Keyed hashes of rows, shape (n,): of the places and values that are not 0, whether X is sparse or dense."""
        from scipy.sparse import csr_array

        _, rows = rows_of(X)
        found = np.zeros(rows.shape[0], np.uint64)
        step = max(1, _ENTRIES // rows.shape[1])
        for start in range(0, len(found), step):
            part = csr_array(rows[start : start + step])
            part.eliminate_zeros()
            places, values = part.indices.astype(np.uint64), part.data.view(np.uint64)
            sums = np.zeros(len(places) + 1, np.uint64)  # modulo 2^64
            np.cumsum(_mixed(_mixed(values ^ self._key[0]) + _mixed(places ^ self._key[1])), out=sums[1:])
            found[start : start + step] = _mixed(np.diff(sums[part.indptr]))  # rows of a grid have like sums
        return found


def _mixed(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Words that differ in any bit differ in about half of them: the last steps of splitmix64."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        words = (words ^ (words >> np.uint64(shift))) * np.uint64(factor)
    return words ^ (words >> np.uint64(31))


PROCESS = Tally()
"""The tally of this process."""


def folder_of(account: str | Path) -> str | None:
    """Folder of an account; None where fits are added up in memory.

    RequestError if it is neither.
    """
    if account == IN_MEMORY:
        return None
    if not isinstance(account, str | Path):
        raise RequestError(
            f"account = {short(account)} is not allowed: it must be a folder, or {IN_MEMORY!r}, which adds up in memory"
        )
    return str(account)


def counted(X: Any, spent: Sequence[Totals], delta: float, adjacency: str, folder: str | None) -> dict[str, Any] | None:
    """Add a private fit on rows X (n, d) to this process's tally, and warn where it shares rows with others.

    ``spent`` is what each agent has charged. Fits that all have the same account, a ``folder``, are not warned of.
    Returned are the figures of the row that has spent most; None where nothing was spent.
    """
    if not any(totals.rho for totals in spent):
        return None
    account = IN_MEMORY if folder is None else str(Path(folder).resolve())
    shared = PROCESS.add(X, Sum.of(spent, delta, adjacency, account))
    if shared.fits > 1 and (folder is None or shared.accounts != {account}):
        figures = f"epsilon {epsilon(shared.epsilon)} together (delta {epsilon(shared.delta)}, {shared.adjacency})"
        warnings.warn(
            f"{shared.fits} fits on shared rows: {figures}; account=DIR keeps fits to one budget",
            PrivacyWarning,
            stacklevel=4,
        )
    return {
        "fits": shared.fits,
        "epsilon": shared.epsilon if math.isfinite(shared.epsilon) else None,
        "delta": shared.delta,
        "adjacency": shared.adjacency,
    }


@contextmanager
def telling(folder: str | None) -> Iterator[None]:
    """Warn of an error of a fit that has an account: callers such as cross validation turn errors into nan."""
    try:
        yield
    except AdmmnetError as error:
        if folder is not None:
            warnings.warn(
                f"no model from this fit with account = {folder!r}: {error}; folds of a cross validation are other "
                f"records than the whole: account={IN_MEMORY!r} counts them",
                PrivacyWarning,
                stacklevel=4,
            )
        raise
