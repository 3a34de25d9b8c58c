"""The end of a run: every agent's model, and the files that are written once."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from admmnet.files import write_whole
from admmnet.identity.keys import statement
from admmnet.record import folder as run_folder
from admmnet.record.finish import FINISH, model_of, read_end
from admmnet.record.forms import Summary
from admmnet.running.observer import Observer
from admmnet.running.party import Party
from admmnet.running.plan import Plan
from admmnet.running.readout import TailAverage, average
from admmnet.transport import Transport, World, edge
from admmnet.types import Matrix


def answer(plan: Plan, transport: Transport, observer: Observer, tail: TailAverage, party: Party, done: int) -> Matrix:
    """Every agent's model: the average, its own last released vector, or the mean of its tail."""
    theta, asked, sent = observer.theta, plan.settings.answer, np.zeros(len(plan.graph), dtype=np.int64)
    if asked == "tail":
        if tail.count:  # none of a run that was stopped in its first half
            theta = observer.kept(edge.collect(transport, tail.mean()), tail.heard(theta))
    elif asked == "average" and plan.method.verb == "exchange":
        away = () if plan.faults is None else np.flatnonzero(~plan.faults.members(done - 1)).tolist()
        found, sent = average(transport, plan.graph, party, done, away)
        theta = theta if found is None else np.tile(found, (len(theta), 1))
    elif asked == "average" and plan.method.verb == "reduce":  # all that go on hold the same
        theta = np.tile(party.models()[0], (len(theta), 1))
    if asked != "last" and plan.method.verb != "none":
        observer.judge(theta, sent)
    return theta


def note_model(plan: Plan, theta: Matrix, folder: Path, world: World) -> None:
    """Have on the disk that this agent has come to these models, before it gives others what they need for an end."""
    if world.start is not None and world.start.journal is not None:
        ledger = run_folder.ledger_path(folder, world.rank, world.size)
        world.start.journal.note_model(made_of(run_folder.sha256(ledger), {"model.npz": _model(plan, theta)}))


def made_of(ledger: str, files: Mapping[str, bytes]) -> str:
    """Hash of the arrays of model.npz but for the average, and of a ledger with this digest."""
    arrays = sorted(model_of(files, "the last files").items())
    words = [word for name, one in arrays for word in (name, one.dtype.str, str(one.shape), one.tobytes())]
    return hashlib.sha256(statement("made", ledger, *words)).hexdigest()


def _model(plan: Plan, theta: Matrix) -> bytes:
    return run_folder.model_bytes(theta, plan.data.feature_names, _names(plan))


def _names(plan: Plan) -> Sequence[str]:
    return plan.data.labels if plan.data.task == "classes" else ()


def write_end(
    plan: Plan, observer: Observer, theta: Matrix, summary: Summary, folder: Path, transport: Transport
) -> None:
    """Write the model, the manifest and the summary; RunError if the disk refuses.

    Of several hosts each has them as drafts first, and gives them their names once most say that they have.
    """
    observer.close()
    files = {"model.npz": _model(plan, theta)}
    deviation = plan.method.deviation()
    if deviation is not None:
        classes = len(_names(plan))  # of each number of the consensus, in its shape
        files["noise.npy"] = run_folder.npy_bytes(deviation.reshape(classes, -1) if classes else deviation)
    last = run_folder.last_files(folder, files, summary)
    if transport.world.start is None or transport.world.shared_folder:
        write_whole(last)
        return
    drafts = {path.name: content for path, content in last.items()}
    assert transport.world.start.stage is not None
    finish = transport.world.start.stage(read_end(drafts)[1], drafts)
    write_whole({folder / FINISH: finish, **last})
