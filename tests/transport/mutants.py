"""Mistakes in transports that the tests beside this file must see (tests/mutate.py)."""

from __future__ import annotations

WIRE, MEETING, TURNS = "transport/zmq/wire.py", "transport/zmq/meeting.py", "transport/zmq/turns.py"
COLLECTIVE, KEYS, NETWORK = "transport/collective.py", "transport/hosts.py", "transport/hosts.py"
MUTANTS = {
    "a frame may come twice": (WIRE, "if frame.number != self.got + 1:", "if frame.number > self.got + 1:"),
    "frames of the last turn are forgotten": (WIRE, "self._log[0][1] < turn:", "self._log[0][1] <= turn:"),
    "words of two turns contradict": (WIRE, "return place == there and", "return place[:3] == there[:3] and"),
    "half is most": (MEETING, "return found if 2 * count > of", "return found if 2 * count >= of"),
    "a liar ends the rounds": (MEETING, "min(c[-1], second + 1, ", "min(c[-1], second + 9, "),
    "an older copy of equal length": (MEETING, " or (word.lines == one.lines and word.head != one.head)", ""),
    "a key of low order": (MEETING, "ValueError:\n        return False", "ValueError:\n        return True"),
    "a replay of masked rounds": (MEETING, "(alike or not (masked or at < 0))", "(alike or not at < 0)"),
    "a void end is finished": (MEETING, "and one.run == run and one.staged not in void)", "and one.run == run)"),
    "a leaf is never late": (TURNS, " not all(self._has(", " not any(self._has("),
    "a sum before its children's": (TURNS, "if any(one.kinds.get(i)", "if not turn and any(one.kinds.get(i)"),
    "a turn is forgotten early": (TURNS, "if old < self.count]", "if old <= self.count]"),
    "others speak for an agent": (COLLECTIVE, "agent in mine else", "agent in mine and str(agent) not in told else"),
    "a first word does not stand": (COLLECTIVE, ", **before}", "}"),
    "a group may read the key": (KEYS, "mode & (0o007 if given else 0o077)", "mode & (0o007 if given else 0o007)"),
    "names count for nothing": (NETWORK, "peer.records, peer.name] for", "peer.records] for"),
}  # fmt: skip
