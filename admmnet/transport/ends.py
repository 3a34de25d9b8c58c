"""Words STAGED that an agent knows: who says that it has which last files on its disk (docs/protocol.md)."""

from __future__ import annotations

from collections import Counter, defaultdict

from admmnet.transport.starts import HISTORY, Staged

RAISES = 8
"""Times, between two starts, that one agent alone moves the others to a higher number, or says a new STAGED."""


class Ends:
    """The first word of an agent for a number, and of every agent the last ones.

    Attributes
    ----------
    named : str or None
        Digest of an end that a quorum has staged.
    """

    def __init__(self, quorum: int) -> None:
        self.named: str | None = None
        self.quorum, self._heard = quorum, Counter[int]()
        self._said: dict[int, dict[str, tuple[Staged, bytes]]] = defaultdict(dict)

    @property
    def words(self) -> list[bytes]:
        """All of them, as signed."""
        return [data for own in self._said.values() for _, data in own.values()]

    def known(self, agent: int, name: str) -> bool:
        """Whether an agent's word with this hash is known."""
        return name in self._said[agent]

    def of(self, number: int) -> dict[int, Staged]:
        """Words of a start, by who has said them."""
        said = {i: [one for one, _ in own.values() if one.number == number] for i, own in self._said.items()}
        return {i: own[0] for i, own in said.items() if own}

    def begin(self) -> None:
        """Count anew what every agent says: a start has ended."""
        self._heard = Counter()

    def take(self, said: Staged, data: bytes, name: str) -> bool:
        """Keep a word, and return whether it is to be passed on."""
        own = self._said[said.agent]
        if name in own or any(other.number == said.number for other, _ in own.values()):
            return False
        self._heard[said.agent] += 1
        if self._heard[said.agent] > RAISES:
            return False
        own[name] = said, data
        if len(own) > HISTORY:
            del own[min(own, key=lambda name: own[name][0].number)]
        if sum(one.digest == said.digest for one in self.of(said.number).values()) >= self.quorum:
            self.named = self.named or said.digest
        return True
