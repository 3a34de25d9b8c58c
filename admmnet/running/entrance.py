"""The library's entrance: ``run``, and what the command line calls (docs/reference.md, "Running")."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from admmnet.config.modes import check_mode
from admmnet.config.run_config import RunConfig
from admmnet.errors import RunError
from admmnet.files import raise_descriptors, remedy
from admmnet.running.checkpoint.resume import resuming
from admmnet.running.events import OnRound
from admmnet.running.loading import Loader
from admmnet.running.loop import execute
from admmnet.running.plan import Plan
from admmnet.running.result import RunResult
from admmnet.transport import World, open_world
from admmnet.transport.collective import end_all_on_error, install_exception_hook, run_on_all


def run(
    config: RunConfig | None = None,
    *,
    world: World | None = None,
    loader: Loader | None = None,
    on_start: Callable[[Plan], None] | None = None,
    on_round: OnRound | None = None,
    stoppable: bool = True,
    debug: bool = False,
    **settings: Any,
) -> RunResult:
    """Train one model on the network, or in one place, and write the run folder.

    Parameters
    ----------
    config : RunConfig, optional
        The settings; keywords change them, or make them: ``run(algorithm="dvp", epsilon=1)``. Their ``mode``
        follows from them alone: a run on records that are not public needs ``data`` to name them, or ``private``,
        also where a loader brings them.
    world : World, optional
        Processes to run on; by default those that ``config.transport`` asks for.
    loader : callable, optional
        Where the records come from, as in ``prepare``.
    on_start : callable, optional
        Called before the first round with the ``Plan``.
    on_round : callable, optional
        Called after every round (of a method in one place: epoch) with a ``RoundEvent``, at the process that writes the
        run folder. If it raises ``StopRun``, that round is the last one, and the run ends as if no more were planned.
    stoppable : bool
        Whether it may raise; if not, processes are spared a word about that after every round.
    debug : bool
        Whether an error that ends all MPI ranks comes with its traceback.
    **settings
        As those of ``RunConfig``.

    Returns
    -------
    RunResult
        The same at every process.

    Raises
    ------
    RequestError
        If the settings, the graph or the data are wrong.
    BudgetError
        If the budget affords no round.
    RunError
        If a solve misses its certificate, steps run away, or a ledger cannot be written.
    """
    from threadpoolctl import threadpool_limits

    config = RunConfig(**settings) if config is None else config.changed(**settings)
    world = world or open_world(config.transport)
    install_exception_hook(world)
    raise_descriptors()
    # more threads a process than one are slower on few cores, and change the last bits
    with end_all_on_error(world, debug=debug, withhold=not config.simulation), threadpool_limits(limits=1):
        try:
            if config.resume is not None:
                config = run_on_all(world, partial(resuming, config))
            run_on_all(world, partial(check_mode, config))
            if config.transport == "zmq" and world.name != "zmq":
                from admmnet.running.spawn import run_spawned

                return run_spawned(
                    config,
                    on_start=on_start,
                    on_round=on_round,
                    stoppable=stoppable,
                    debug=debug,
                    loader=loader,
                )
            return execute(
                config,
                world,
                loader,
                on_start or (lambda plan: None),
                on_round,
                stoppable=stoppable,
            )
        except OSError as error:
            raise RunError(f"cannot write {error.filename or 'the run folder'}: {remedy(error)}") from error
