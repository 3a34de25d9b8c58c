"""The library's entrance: ``run``, and what the command line calls (docs/reference.md, "Running")."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from admmnet.config.modes import check_mode
from admmnet.config.run_config import RunConfig
from admmnet.errors import RequestError, RunError
from admmnet.files import raise_descriptors, remedy
from admmnet.methods.blame import blaming
from admmnet.running.agreement import agreed, world_of
from admmnet.running.arguments import Asked, in_python, taken
from admmnet.running.checkpoint.resume import resuming
from admmnet.running.ends import terminating
from admmnet.running.events import OnRound
from admmnet.running.loading import Loader
from admmnet.running.loop import execute
from admmnet.running.plan import Plan
from admmnet.running.result import RunResult
from admmnet.transport import World
from admmnet.transport.collective import end_all_on_error, install_exception_hook, run_on_all


def run(
    config: RunConfig | None = None,
    *,
    shards: Any = None,
    X: Any = None,
    y: Any = None,
    data: Any = None,
    test: Any = None,
    schema: Any = None,
    graph: Any = None,
    scaled: bool = False,
    world: World | None = None,
    loader: Loader | None = None,
    on_start: Callable[[Plan], None] | None = None,
    on_round: OnRound | None = None,
    stoppable: bool = True,
    debug: bool = False,
    **settings: Any,
) -> RunResult:
    """Train one model on the network, or in one place, and write the run folder.

    Records are a data set's, a file's, or in memory: ``shards``, ``X`` with ``y``, or a frame as ``data``. Those in
    memory are private unless ``seed`` or ``simulate`` is given, and treated as a file's: an intercept is appended,
    then every row is scaled to norm 1, by itself.

    Parameters
    ----------
    config : RunConfig, optional
        The settings; keywords change them, or make them: ``run(algorithm="dvp", epsilon=1)``. Their ``mode``
        follows from them alone: a run on records that are not public needs ``data`` to name them, or ``private``,
        also where a loader brings them.
    shards : list of (X, y), or {agent: (X, y)}
        Every agent's own records, as arrays or data frames. A list holds those of all N agents, at every process. A
        mapping may hold those of this process's agents alone; then nothing is read from rows that could be declared.
    X, y : array_like, scipy.sparse matrix, frame of numbers, shape (n, d); array_like, shape (n,)
        Records that are dealt to the agents as ``split`` says. Labels are -1 and +1 or 0 and 1, else ``positive``,
        ``task`` or ``schema`` says what they are.
    data : str, path or data frame
        Name of a data set, file, or frame (pandas, or what speaks for one) with the column ``label``. A simulation
        reads from the rows what no ``schema`` declares; a private run refuses that.
    test : path, (X, y) or data frame
        Test records, encoded alike, and taken to be public; or say ``no_test=True``. Without either a simulation draws
        a quarter of pooled records.
    schema : dict or path
        Public schema of columns and labels (docs/data.md).
    graph : networkx.Graph
        Network with the nodes 0 to N - 1; ``topology`` names a file or a spec instead.
    scaled : bool
        Whether rows are taken as they are, without an intercept; longer ones than 1 are refused.
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
        As those of ``RunConfig``; paths may be ``str`` or ``Path``.

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

    asked = Asked(shards, X, y, data, test, schema, graph, scaled, loader, on_start, on_round)
    # the processes first: where one of them alone is given something wrong, all say so
    world = world_of(world, config, settings)
    install_exception_hook(world)
    config, given = agreed(world, lambda: taken(config, settings, asked), loader, stoppable=stoppable)
    raise_descriptors()
    ending = end_all_on_error(world, debug=debug, withhold=not config.simulation)
    # more threads a process than one are slower on few cores, and change the last bits
    with terminating(), ending, threadpool_limits(limits=1):
        try:
            loader = loader if given is None else given.load
            if config.resume is not None:
                config = run_on_all(world, partial(resuming, config))
            run_on_all(world, partial(check_mode, config))
            if config.transport == "zmq" and world.name != "zmq":
                from admmnet.running.spawn import run_spawned

                return run_spawned(
                    config, on_start=on_start, on_round=on_round, stoppable=stoppable, debug=debug, loader=loader
                )
            with blaming(config.chosen_method, RunError):
                return execute(config, world, loader, on_start or (lambda plan: None), on_round, stoppable=stoppable)
        except RequestError as error:
            if given is not None:
                error.args = (in_python(str(error)),)
            raise
        except OSError as error:
            raise RunError(f"cannot write {error.filename or 'the run folder'}: {remedy(error)}") from error
