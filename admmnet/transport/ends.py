"""Words STAGED that an agent knows: who says that it has which last files on its disk (docs/protocol.md)."""

from __future__ import annotations

from collections import Counter, defaultdict

from msgspec.structs import replace

from admmnet.identity.keys import SIGNATURE
from admmnet.transport.starts import HISTORY, Staged

RAISES = 8
"""Times, between two starts, that one agent alone moves the others to a higher number, or says a new STAGED."""


class Ends:
    """The first word of an agent for a number, and of every agent the last ones.

    Attributes
    ----------
    named : Staged or None
        A word of an end that a quorum has staged.
    signed : dict
        Signatures of all such words, by agent, as finish.json has them.
    """

    def __init__(self, quorum: int) -> None:
        self.named: Staged | None = None
        self.signed: dict[int, str] = {}
        self.quorum, self._heard = quorum, Counter[int]()
        self._said: dict[int, dict[str, tuple[Staged, bytes]]] = defaultdict(dict)

    @property
    def words(self) -> list[bytes]:
        """All of them, as signed."""
        return [data for _, data in self._all()]

    def _all(self) -> list[tuple[Staged, bytes]]:
        return [one for own in self._said.values() for one in own.values()]

    def known(self, agent: int, name: str) -> bool:
        """Whether an agent's word with this hash is known."""
        return name in self._said[agent]

    def begin(self) -> None:
        """Count anew what every agent says: a start has ended."""
        self._heard = Counter()

    def take(self, said: Staged, data: bytes, name: str, *, now: bool) -> bool:
        """Keep a word, and return whether it is to be passed on.

        ``now`` says that it is of the last start: an agent has one such word, which old ones that anybody can send
        again do not keep out.
        """
        own = self._said[said.agent]
        numbers = [other.number for other, _ in own.values()]
        if said.number in numbers or (len(own) == HISTORY and said.number < min(numbers)):
            return False  # also one that was kept once: anybody can send it again
        self._heard[said.agent] += 1
        if self._heard[said.agent] > RAISES and not now:
            return False
        own[name] = said, data
        if len(own) > HISTORY:
            del own[min(own, key=lambda name: own[name][0].number)]
        alike = {
            one.agent: data[:SIGNATURE].hex() for one, data in self._all() if replace(one, agent=said.agent) == said
        }
        if self.named is None and len(alike) >= self.quorum:
            self.named = said
        if self.named is not None and replace(self.named, agent=said.agent) == said:
            self.signed |= alike
        return True
