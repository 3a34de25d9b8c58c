"""Which methods and losses learn what the labels are; who does not is refused with the names of those that do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from admmnet.errors import RequestError
from admmnet.holder.problem import SINGLE_SITE_LOSSES
from admmnet.methods import METHODS
from admmnet.methods.settings import MethodSettings
from admmnet.solvers.losses import LOSSES, Loss, tasks_of

if TYPE_CHECKING:
    from admmnet.types import LabelKind

LEARNS = {"binary": "two classes", "classes": "three classes or more", "real": "real targets"}
"""Tasks in words."""


def learners(task: LabelKind) -> str:
    """Names of the methods that learn a task, with the commands that run them."""
    found: dict[str, list[str]] = {"run": [], "baseline": []}
    for name, kind in METHODS.sound():
        if task in kind.tasks:
            found["baseline" if kind.verb == "none" else "run"].append(name)
    words = [f"{', '.join(names)} (admmnet {command})" for command, names in found.items() if names]
    return " or ".join(words)


def require_task(settings: MethodSettings, task: LabelKind, labels: str, data: str) -> None:
    """Refuse a method, or its loss, that does not learn the task of the data, whose ``labels`` are in words.

    RequestError names what learns it.
    """
    require_method(settings, task, labels, data)
    losses: Mapping[str, Loss] = SINGLE_SITE_LOSSES if settings.chosen_method.verb == "none" else LOSSES
    if settings.loss not in losses or task in tasks_of(losses[settings.loss]):
        return
    usable = [name for name in losses if task in tasks_of(losses[name]) and accepts(settings, name)]
    raise RequestError(
        f"loss = {settings.loss!r} does not learn {labels}, and {data} has those: take {' or '.join(usable)}"
    )


def require_method(settings: MethodSettings, task: LabelKind, labels: str, data: str) -> None:
    """As ``require_task``, whatever the loss."""
    kind = settings.chosen_method
    if task not in kind.tasks:
        learnt = " or ".join(LEARNS[one] for one in LEARNS if one in kind.tasks)
        others = learners(task)
        remedy = f"take {others}" if others else "no method that is installed learns them"
        raise RequestError(f"algorithm = {settings.algorithm!r} learns {learnt}, and {data} has {labels}: {remedy}")


def accepts(settings: MethodSettings, loss: str) -> bool:
    """Whether the method takes a loss."""
    try:
        settings.chosen_method.check_problem(settings.changed(loss=loss, loss_width="auto"))
    except RequestError:
        return False
    return True
