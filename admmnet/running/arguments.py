"""Arguments of the library's ``run`` besides settings: wrong ones are refused in words, others are the same at all.

One gather of a digest a name, in which every process also says what is wrong with its arguments. Of records shapes are
in it, and contents in simulations alone: test records of a private run are held against each other by their number.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import replace

from admmnet.config.run_config import AUTO, RunConfig, known_settings
from admmnet.config.toml import load_saved, read_schema
from admmnet.data.given import Given, given_in
from admmnet.data.memory import frame_of
from admmnet.data.settings import AGENT, GIVEN, GROUPS, SHARDS, reserved
from admmnet.errors import RequestError, article, short
from admmnet.methods.sums import SumMethod
from admmnet.record.folder import SUMMARY, followed, is_begun, ledger_files
from admmnet.record.format import epsilon
from admmnet.record.journal import journals
from admmnet.running.takeover import told_of
from admmnet.transport import World, launched_size, open_world
from admmnet.transport.collective import as_one, install_exception_hook, share
from admmnet.version import __version__

_GRAPHS = ("topology", "topology_schedule")
FIRST = ("algorithm", "seed", "simulate", "private", "transport", "account", "no_account")
"""Settings that decide which others there are."""
OWN = "a file of each agent's own"
"""All that is told of a file that no other agent need have."""


def taken(before: Mapping[str, Any], typed: Mapping[str, Any], asked: Any) -> tuple[dict[str, Any], Given | None]:
    """Settings, those typed over those of before, and the records in memory; no number of a record is looked at.

    ``asked`` has the arguments of ``run`` that are no settings, as they came.

    RequestError names the argument, what it is, and what it must be.
    """
    for name in ("loader", "on_start", "on_round"):
        value = getattr(asked, name)
        if value is not None and not callable(value):
            raise RequestError(f"{name} = {short(value)} cannot be called: give a function")
        if name != "loader" and value is not None and not _takes_one(value):
            raise RequestError(f"{name} = {short(value)} cannot be called with one argument: give f(event)")
    settings = {**before, **typed}
    if asked.schema is not None:
        settings |= _declared(asked.schema, typed)
    if asked.graph is not None:
        if (other := next((name for name in _GRAPHS if settings.get(name) is not None), None)) is not None:
            raise RequestError(f"graph and {other} exclude each other: give one of them")
        settings["topology"] = asked.graph
    if type(asked.scaled) is not bool:
        raise RequestError(f"scaled = {short(asked.scaled)}: it must be True or False")
    if asked.scaled:
        settings |= {"normalise": "none", "no_intercept": True}
    for name in ("data", "test"):  # names and paths
        if isinstance(getattr(asked, name), str | os.PathLike):
            settings[name] = os.fspath(getattr(asked, name))
    given = given_in(asked.shards, asked.X, asked.y, asked.data, asked.test)
    if asked.kinds not in (None, "dtype"):
        raise RequestError(f"kinds = {short(asked.kinds)}: it must be 'dtype', or left out")
    if given is None:
        if asked.kinds is not None:
            raise RequestError("kinds = 'dtype' goes with data frames: of a file the schema names kinds")
        return settings, None
    if asked.loader is not None:
        raise RequestError("a loader and records in memory exclude each other: give one of them")
    if asked.kinds is not None:
        settings["schema"] = given.with_kinds(settings.get("label"), settings.get("schema"))
    settings |= {"data": given.kind} | ({} if given.test is None else {"test": given.kind})
    if given.kind == "frame" and given.truths(settings.get("label"), settings.get("schema"), settings.get("task")):
        settings["schema"] = {**(settings.get("schema") or {}), "labels": ["False", "True"]}
    return settings, given


def _takes_one(function: Any) -> bool:
    """Whether a callable can be called with one argument, as far as it says."""
    try:
        signature(function).bind(None)
    except TypeError:
        return False
    except ValueError:  # of some in C, which do not say
        pass
    return True


def _declared(schema: Any, typed: Mapping[str, Any]) -> dict[str, Any]:
    """Settings by which records are read, of a table or of a file."""
    if isinstance(schema, str | os.PathLike):
        found = read_schema(Path(schema))
        return {name: value for name, value in found.items() if name == "schema" or typed.get(name) is None}
    if not isinstance(schema, Mapping):
        raise RequestError(
            f"schema is {article(type(schema).__name__)}: it must be a table such as {{'labels': ['no', 'yes']}}, or "
            "the path of a file"
        )
    return {"schema": schema}


def in_python(text: str) -> str:
    """Message for whoever wrote a program: flags as the arguments that they are."""
    known = known_settings()

    def word(found: re.Match[str]) -> str:
        name = found[1].replace("-", "_")
        own = known.get(name)
        if own is not None and own.base is bool:
            return f"{name}=True" + (found[2] or "")
        return f"{name}={found[2].strip()}" if found[2] else name

    text = re.sub(r"--task (binary|classes|real)", r"task='\1'", text)
    text = re.sub(r"--([a-z][a-z0-9-]*)( [A-Z]{2,}\b| \d+\b)?", word, text)
    text = text.replace("test=FILE", "test=(X, y)").replace("[data.schema]", "schema")
    return re.sub(r"\bdata\.schema\b", "schema", text)


def arguments(
    world: World, config: RunConfig | None, typed: Mapping[str, Any], asked: Any, *, stoppable: bool
) -> tuple[RunConfig, Given | None]:
    """Settings and records in memory of the arguments of ``run``, in ``as_one``.

    RequestError if arguments are wrong, differ, or leave an agent out.
    """
    if not isinstance(config, RunConfig | None):
        raise RequestError(
            f"run was given a {type(config).__name__} without a name: it takes a RunConfig there; records go by "
            "name, run(X=X, y=y), run(shards=[(X, y), ...]) or run(data=frame, label=NAME)"
        )
    before = {} if config is None else config.flat
    settings, given = taken(before, typed, asked)
    found = config if config is not None and settings == before else RunConfig(**settings)
    if given is not None:  # what follows from records in memory
        split, entries = found.split, None if given.own is None else len(given.own)
        if entries is not None and found.baseline:
            raise RequestError(
                f"algorithm = {found.algorithm!r} has one holder of all records: give them as X=X, y=y, not as shards"
            )
        if entries is not None and split not in ("auto", "iid", SHARDS) and not split.startswith(f"{GROUPS}:"):
            raise RequestError(f"split = {split!r} deals records to agents, and shards are dealt already: drop it")
        if given.whole and entries is not None and found.agents not in (None, entries):
            raise RequestError(f"shards has {entries} entries, and agents = {found.agents}: give one an agent")
        if not found.simulation and given.tests_itself:
            raise RequestError(
                "test is made of the run's own records: a private run tests on records of others, or no_test=True"
            )
        if entries is not None:  # accounts and resumed runs know by the split how records were dealt
            own_split = split if split.startswith(f"{GROUPS}:") else SHARDS
            found = found.changed(split=own_split, agents=entries if given.whole else found.agents)
        given = replace(given, sparse=found.baseline or issubclass(found.chosen_method, SumMethod))
    elif found.data in GIVEN and asked.loader is None:
        raise RequestError(reserved(found.data))
    own = {"account": found.account and "DIR", "stoppable": stoppable, "loader": asked.loader and "a function"}
    own |= {name: getattr(found, name) for name in ("transport", "no_account", "out", "resume")}
    shown: Callable[[], dict[str, Any]] = lambda: public_settings(found, digests=found.simulation) | own  # noqa: E731
    known = agreed(world, given, shown, simulation=found.simulation)
    if known is None:
        return found, given
    agents = numbered(known, found.agents, named=found.topology is not None or found.topology_schedule is not None)
    return found.changed(agents=agents) if found.agents != agents else found, given


def resuming(config: RunConfig) -> RunConfig:
    """Settings of a run whose ``resume`` is set: what it does not say is as in the folder.

    RequestError as ``resumed_config``.
    """
    folder = Path(str(config.out if config.resume == AUTO else config.resume))
    if config.resume == AUTO and not is_begun(folder):
        return config.changed(resume=None)
    saved = saved_config(folder)
    known = config.described
    kept = [name for name in saved.keeps if name not in known or known[name].about.saved]
    if all(name in known and getattr(config, name) == getattr(saved, name) for name in kept):
        return config.changed(out=str(folder), resume=str(folder))  # from `resumed_config`
    plain = RunConfig()
    given = {name: getattr(config, name) for name in known}
    given = {name: value for name, value in given.items() if value != getattr(plain, name, known[name].default)}
    return resumed_config(folder, given)


def resumed_config(folder: str | Path, flags: Mapping[str, Any] | None = None) -> RunConfig:
    """Settings with which an interrupted run goes on.

    Of ``flags``, by setting, None counts as not given. Transport and deadlines alone may differ from the folder's.
    RequestError if the folder is no run's, the run is finished or cannot go on, or a setting differs.
    """
    folder = Path(folder)
    saved = saved_config(folder)
    given = {name: value for name, value in (flags or {}).items() if value is not None and name != "resume"}
    known = saved.described
    may = [name for name in known if name not in saved.keeps]
    for name, value in given.items():
        own = str(folder) if name == "out" else getattr(saved, name, None)
        if name not in may and value != own:
            raise RequestError(
                f"{name} = {value!r} differs from the interrupted run's {own!r}: a resumed run keeps its settings, "
                f"other than {', '.join(may)}; leave it out, or run anew"
            )
    free = {name: value for name, value in given.items() if name in may}
    transport = free.get("transport", saved.transport)  # another one's own settings fall away
    fallen = {name: own.default for name, own in known.items() if own.scope not in ("", "network", transport)}
    free = fallen | free
    return saved.changed(out=str(folder), resume=str(folder), **free)


def saved_config(folder: Path) -> RunConfig:
    """Settings of a run that can go on.

    RequestError if the folder is no run's, the run is finished, or it has charged what no journal has.
    """
    if not (folder / "config.toml").is_file():
        raise RequestError(f"{folder} is no run folder: it has no config.toml; name one with --resume")
    if (folder / SUMMARY).exists():
        raise RequestError(f"the run in {folder} is finished: there is nothing to resume")
    saved = load_saved(folder)
    if saved.seeded or journals(folder) or all(path.read_bytes().count(b"\n") < 2 for path in ledger_files(folder)):
        return saved  # else there are charges behind the headers
    known = [0.0 if one.total is None else one.total.epsilon_spent or 0.0 for one in followed(folder)]
    spent = f"epsilon {epsilon(max(known))} is spent" if any(known) else "its ledgers have charges"
    why = f"{saved.algorithm} keeps none" if saved.baseline else "it was removed, or another version wrote the folder"
    raise RequestError(
        f"{folder} has no journal to go on from ({why}), and {spent}: run anew with --account, so that spent budget "
        "counts, or remove the folder"
    )


def public_settings(config: RunConfig, *, schedule: str | None = None, digests: bool = True) -> dict[str, Any]:
    """Return what must be the same at every agent, as JSON values; nothing in it is secret.

    Where all agents read the same disk (``digests`` false) files are compared by their paths. Over hosts a simulation
    compares the content of a file with every agent's records, as all must deal the same rows, and of the test file. Of
    a private run's files nothing is told: each agent has its own. ``schedule`` is the digest of the graphs that take
    turns.
    """
    known = config.described.values()
    values = {own.name: getattr(config, own.name) for own in known if not own.about.hosts}
    data, test = config.data, config.test
    values["encode"] = told_of(config.sections.data, config.sections.run)
    if digests and data not in GIVEN and not config.sections.data.named:
        data = _digest(data) if config.simulation and AGENT not in data else OWN
    if digests and test not in (None, "official", *GIVEN):
        test = _digest(str(test)) if config.simulation else OWN
    if digests and schedule is not None:
        values["topology_schedule"] = f"graphs with sha256 {schedule[:16]}"
    return {"admmnet": __version__, "data": data, "test": test, **values}


def _digest(path: str) -> str:
    """Content of a file in a few words; a file that cannot be read is found out together, when all load."""
    try:
        with Path(path).open("rb") as file:
            return f"a file with sha256 {hashlib.file_digest(file, 'sha256').hexdigest()[:16]}"
    except OSError as error:
        return f"a file that cannot be read: {error.strerror}"


def world_of(world: World | None, transport: Any) -> World:
    """Processes to run on: those given, else those of the transport that is asked for.

    RequestError if they are none; under a launcher at every process. Of a transport that is none ``taken`` says so.
    """
    if world is not None and not hasattr(world, "gather"):
        refused = RequestError(f"world = {short(world)}: it must be a World, or left out")
    elif world is not None:
        return world
    else:
        try:
            return open_world(transport if transport in ("local", "mpi", "zmq") else "auto")
        except RequestError as error:
            refused = error
    if launched_size() > 1:  # this one alone may have found something wrong
        try:
            launched = open_world("mpi")
        except RequestError:  # the processes do not find each other
            raise refused from None
        install_exception_hook(launched)
        with as_one(launched):
            raise refused
    raise refused


def agreed(
    world: World, given: Given | None, settings: Callable[[], Mapping[str, Any]], *, simulation: bool
) -> set[int] | None:
    """Compare the arguments of ``run`` over all processes: records ``given`` in memory, and settings.

    Processes on hosts of their own, over ZeroMQ, have compared their settings when they connected, and have no records
    in memory. Return the agents with a shard at some process, where each has those of its own agents alone; else None.
    RequestError comes on every process, where they differ, or leave an agent out.
    """
    if world.name == "zmq":
        return None
    words = _words_of(given, settings(), simulation=simulation) if world.size > 1 else {}
    digests = {name: _word(value) for name, value in words.items()}
    answers = share(world, {"own": sorted((given and given.own) or ()), "told": digests})
    for rank, answer in enumerate(answers):
        first, other = answers[0]["told"], answer["told"]
        name = next((name for name in {**first, **other} if first.get(name) != other.get(name)), None)
        if name is not None:
            what = f"other {name}" if name.endswith("records") else f"another {name}"
            shards = ", or shards of its own agents, {agent: (X, y)}" if name == "records" else ""
            raise RequestError(
                f"process {rank} was given {what} than process 0: give every process of a run the same{shards}"
            ).of_all()
    if given is None or given.whole:
        return None
    return set().union(*(answer["own"] for answer in answers))


def _word(value: Any) -> str:
    plain = json.loads(json.dumps(value, default=repr))
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()[:16]


def _words_of(given: Given | None, said: Mapping[str, Any], *, simulation: bool) -> dict[str, Any]:
    """What must be the same at all processes, in the order in which it is compared."""
    words = {name: said[name] for name in FIRST}
    words |= {"shards": None if given is None or given.own is None else given.whole, **said}
    if given is None:
        return words
    pieces = {"": given.pool} if given.own is None else given.own
    compared = {"records": pieces} if given.whole else {}
    compared |= {} if given.test is None else {"test records": {"": given.test}}
    for name, parts in compared.items():
        words[name] = [[agent, *_shapes(given.kind, piece)] for agent, piece in parts.items()]
        if simulation:
            words[name].append(_contents(given.kind, parts.values()))
    return words


def _shapes(kind: str, piece: Any) -> Iterator[Any]:
    """Of records, all that leaves a process of a private run."""
    if kind == "frame":
        yield [str(column) for column in piece.columns]
    for rows in piece if kind == "arrays" else [piece]:
        shape = (len(rows),) if isinstance(rows, list | tuple) else getattr(rows, "shape", None)
        yield [int(length) for length in shape] if isinstance(shape, tuple) else None


def _contents(kind: str, pieces: Any) -> str:
    """Digest of records, whatever arrays hold them; what is no number, text or truth value counts by its type."""
    found, plain = hashlib.sha256(), (int, float, str, bool, bytes)
    for part in (part for piece in pieces for part in (piece if kind == "arrays" else [piece])):
        columns: list[Any] = [part]
        if hasattr(part, "tocsr"):
            rows = part.tocsr()
            columns = [rows.data, rows.indices, rows.indptr]
        elif (frame := frame_of(part)) is not None and len(frame.shape) == 2:
            columns = [frame.get_column(name).to_numpy() for name in frame.columns]
        for column in columns:
            try:
                array = np.asarray(column)
            except Exception:  # of lists of many lengths, or what only seems to be an array: refused when it is read
                array = np.asarray(type(column).__name__)
            if array.dtype.kind in "biuf":
                found.update(np.ascontiguousarray(array, dtype=np.float64).tobytes())
                continue
            words = (repr(one) if isinstance(one, plain) else type(one).__name__ for one in array.ravel().tolist())
            found.update("\0".join(words).encode(errors="backslashreplace"))
    return found.hexdigest()


def numbered(known: set[int], agents: int | None, *, named: bool) -> int | None:
    """Number of agents, each of whom must have a shard at some process; None where a ``named`` network alone tells it.

    RequestError names the agent without a shard, or without a place in the network.
    """
    count = agents or (None if named else max(known) + 1)
    missing = next((i for i in range(count or max(known) + 1) if i not in known), None)
    if missing is not None:
        raise RequestError(
            f"no process has a shard of agent {missing}: give one an agent, 0 to {(count or max(known) + 1) - 1}"
        ).of_all()
    if count is not None and max(known) >= count:
        raise RequestError(f"shards has agent {max(known)}, and the agents are 0 to {count - 1}: leave it out").of_all()
    return count
