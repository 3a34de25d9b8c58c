"""What a reader of a run must know of its settings and data: notes that change nothing."""

from hashlib import sha256
from inspect import getsource

from admmnet.config.defaults import is_loose, own_delta
from admmnet.data import Records
from admmnet.methods import METHODS
from admmnet.methods.settings import MethodSettings
from admmnet.privacy.settings import PrivacySettings
from admmnet.running.attempts import Attempts


def host_notes(hosts: int) -> tuple[str, ...]:
    """Note on readers of the network where ranks are on several hosts."""
    if hosts == 1:
        return ()
    return (f"the ranks span {hosts} hosts: MPI sends everything in clear, and anyone on the network can read it",)


def source_note(settings: MethodSettings) -> tuple[str, ...]:
    """Which source a method from outside has, and whether others can go on with it."""
    kind, name = settings.chosen_method, settings.algorithm
    if name in METHODS.own:
        return ()
    try:
        source = f"the source of {name} has sha256 {sha256(getsource(kind).encode()).hexdigest()}"
    except (OSError, TypeError):  # typed into a shell
        source = f"the source of {name} is not known"
    alone = "" if METHODS.importable(name) else "; no other process can import it, or resume this run"
    return (source + alone,)


def notes_of(settings: MethodSettings, data: Records, *, simulation: bool, seeded: bool) -> tuple[str, ...]:
    """What settings and data make worth knowing."""
    notes = [*data.notes, *(data.telling if simulation else ())]
    if not settings.budgeted:
        return tuple(notes)
    own = own_delta(data.counts.values())
    deltas = {i: PrivacySettings.budget_of(settings, i)[1] for i in data.counts}
    loose = [i for i, count in data.counts.items() if is_loose(deltas[i], count, own)]
    if loose:
        notes.append(
            f"delta is above 0.1 / records for {len(loose)} of {len(data.counts)} agents (agent {loose[0]}: "
            f"{deltas[loose[0]]:g}, {data.counts[loose[0]]} records): a mechanism that leaks a whole "
            "record could satisfy it"
        )
    if settings.accountant == "published":
        notes.append(
            "noise is calibrated by the paper's arithmetic, which is partly wrong: "
            "read epsilon_proven; --accountant proven calibrates by it"
        )
    if seeded:
        notes.append("the seed can regenerate the noise: a seeded run is a simulation, not a private release")
    return tuple(notes)


def attempt_notes(attempts: Attempts) -> tuple[str, ...]:
    """What the reader of a run must know of void attempts at masked sums."""
    found, void, colluders = [], attempts.void, attempts.colluders
    if void:
        found.append(
            f"{len(void)} masked sum{'s were' if len(void) > 1 else ' was'} void, the first in round {void[0]}: "
            "an agent was missing, or sent a wrong part; the cost stays charged"
        )
    if attempts.missed:
        who = ", ".join(f"agent {i} from round {round} on" for i, round in sorted(attempts.missed.items()))
        found.append(f"masked sums are without {who}: it was missing in one, whatever the reason")
    if attempts.ended is not None:
        found.append(
            f"from round {attempts.ended} on fewer than {colluders + 2} agents were left: masked sums against "
            f"{colluders} colluders need that many, so the model stayed as it was"
        )
    return tuple(found)
