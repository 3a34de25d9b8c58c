"""Methods, losses and topologies of somebody else's package, by name or as objects, with settings of their own."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from hashlib import sha256
from importlib import import_module, invalidate_caches
from inspect import getsource
from pathlib import Path
from typing import Any

import click
import networkx as nx
import numpy as np
import pytest

from admmnet import RequestError, RunConfig, load_config, load_topology, read_run, run
from admmnet.cli import COMMANDS, command_line
from admmnet.cli.settings import SettingsCommand
from admmnet.config.run_config import own_settings
from admmnet.config.toml import load_saved, settings_digest, to_toml
from admmnet.graph.specs import TOPOLOGIES
from admmnet.methods import METHODS, TAKEN, single_sites
from admmnet.methods.pp_admm import PPADMM
from admmnet.methods.rivals import DVP
from admmnet.registry import Registry
from admmnet.running.arguments import public_settings, resumed_config
from admmnet.solvers.losses import LOSSES, Logistic
from tests.command_runs import Admmnet
from tests.interrupted_runs import Place, assert_same

MODULE = """
from typing import Annotated

import networkx as nx

from admmnet.methods.rivals import DVP
from admmnet.methods.settings import NoisySettings
from admmnet.settings import about
from admmnet.solvers.losses import Logistic


class Settings(NoisySettings, frozen=True, kw_only=True):
    momentum: Annotated[float, about(ge=0, le=1)] = 0.5
    "weight of the last step"
    patience: Annotated[int, about(ge=1, resume=True, hosts=True)] = 3
    "rounds to wait"


class Mine(DVP):
    name = "mine"
    Settings = Settings


class Twice(Logistic):
    pass


def wheel(n: int) -> nx.Graph:
    return nx.wheel_graph(n)


def coins(n: int, p: float, seed: int) -> nx.Graph:
    return nx.gnp_random_graph(n, p, seed=seed)


def gaps(n: int, seed: int) -> nx.Graph:
    graph = nx.relabel_nodes(nx.path_graph(n), str) if seed else nx.path_graph(n)
    graph.remove_nodes_from([] if seed > 1 else list(graph)[1:2])
    return graph
"""
POINTS = """
[admmnet.methods]
mine = stranger:Mine
broken = stranger.missing:Thing
number = stranger:__file__
[admmnet.losses]
twice = stranger:Twice
[admmnet.topologies]
wheel = stranger:wheel
coins = stranger:coins
"""


def install(place: Path, name: str, code: str, points: str) -> None:
    """Write a module and its metadata, as an installed package has them."""
    (place / f"{name}.py").write_text(code)
    facts = place / f"{name}-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text(points)


@pytest.fixture(autouse=True)
def site(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Folder of installed packages, with the stranger's."""
    place = tmp_path_factory.mktemp("site")
    install(place, "stranger", MODULE, POINTS)
    monkeypatch.syspath_prepend(str(place))
    registries: tuple[Registry[object], ...] = (METHODS, LOSSES, TOPOLOGIES)  # type: ignore[assignment]
    before = [set(registry._loaded) for registry in registries]
    yield place
    for module in ("stranger", "worse"):
        sys.modules.pop(module, None)
    for registry, names in zip(registries, before, strict=True):
        for name in set(registry._loaded) - names:
            del registry[name]


def test_it_is_compared_and_listed_where_names_are(people: str, tmp_path: Path, admmnet: Admmnet) -> None:
    words = ["compare", "--algorithms", "mine,stranger:Mine:published", "--epsilons", "8", "--seeds", "0:1"]
    words += ["--tune", "mine.momentum=0.1:0.9", "--tune-seeds", "1", "--data", people, "--simulate", "--rounds", "1"]
    words += ["--topology", "ring:3", "--jobs", "1", "-o", str(tmp_path / "grid")]
    out = admmnet.ok(*words).out
    assert all(name in out for name in ("mine", "stranger:Mine:published"))
    assert "momentum" in admmnet.refused(*words, "--momentum", "0.3")
    assert single_sites() == [name for name, method in METHODS.sound() if method.verb == "none"]
    footer = admmnet.ok("baseline", "--help").out.partition("The methods:")[2]
    assert "".join(footer.split()).rstrip(".").split(",") == single_sites()
    general, listed = (admmnet.ok("run", *words, "--help").out for words in ((), ("--algorithm", "mine")))
    assert "mine" in general
    assert [flag in text for text in (general, listed) for flag in ("--momentum", "--growth")] == [0, 0, 1, 0]
    assert "did you mean mine?" in admmnet.refused("run", "--algorithm", "mane")
    assert "mine" in admmnet.refused("run", "--momentum", "0.1")


def check_others(admmnet: Admmnet) -> None:
    """What a package does wrong breaks nothing else."""
    admmnet.ok("run", "--help")
    for command in ("run", "calibrate"):
        assert "m-admm" in admmnet.refused(command, "--algorithm", "pp-admm", "--growth", "1.1")


@pytest.mark.parametrize(
    ("flag", "name", "cause"),
    [
        ("--algorithm", "broken", "mend or remove"),
        ("--algorithm", "number", "no subclass of Method; mend or remove"),
        ("--algorithm", "stranger:None", "package stranger"),
        ("--algorithm", "no.such:Thing", "there is no module no: install its package, or run from its folder"),
        ("--algorithm", "stranger.none:Thing", "there is no module stranger.none: install"),
        ("--algorithm", "os:path", "no subclass of Method; name another"),
        ("--algorithm", "a:", "package.module:Name"),
        ("--algorithm", ".a:b", "package.module:Name"),
        ("--loss", "none.py:Twice", "the file none.py: FileNotFoundError"),
        ("--loss", "m6.py:nothing", "the file m6.py: AttributeError"),
        ("--loss", "m6.py:text", "the file m6.py: TypeError: it is no Loss: it has no name"),
        ("--loss", "m6.py:", "file.py:Name"),
        ("--loss", "bad.py:Twice", "the file bad.py: SyntaxError"),
    ],
)
@pytest.mark.usefixtures("_here")
def test_what_cannot_be_loaded_is_named_and_breaks_nothing_else(
    flag: str, name: str, cause: str, admmnet: Admmnet
) -> None:
    Path("m6.py").write_text("text = str\n")
    Path("bad.py").write_text("Twice = (\n")
    err = admmnet.refused("run", flag, name, "--seed", "0")
    assert name in err
    assert cause in err
    assert not any(module.startswith("bad-") for module in sys.modules)
    check_others(admmnet)


BAD = """
from typing import Annotated, Literal

from admmnet.methods.rivals import DVP
from admmnet.methods.settings import NoisySettings
from admmnet.settings import about

{0}

class Settings(NoisySettings, frozen=True, kw_only=True):
    {1}


class Bad(DVP):
    name = "bad"
    Settings = Settings
"""


@pytest.mark.parametrize(
    ("field", "text"),
    [
        ("foo: int", ""),
        ("foo: Annotated[int, about(table='mytable')] = 3", ""),
        ("rounds: Annotated[int, about(ge=1)] = 3", ""),
        ("data: Annotated[str, about(table='data')] = 'x'", ""),
        ("debug: int = 3", ""),
        ("seeded: bool = False", ""),
        ("foo: tuple[int, ...] = (1,)", ""),
        ("foo: Literal['a', 'b'] = 'a'", ""),
        ("foo: 'Missing' = 3", "MORE = 1"),
        ("foo: Annotated[int, about(colour='red')] = 3", "MORE = 1"),
        ("foo: int = 3", "import sys; sys.exit(7)"),
    ],
)
def test_a_badly_written_package_is_refused_and_breaks_nothing_else(
    field: str, text: str, site: Path, admmnet: Admmnet
) -> None:
    install(site, "worse", BAD.format(text, field), "[admmnet.methods]\nbad = worse:Bad\n")
    for name in ("bad", "worse:Bad"):
        err = admmnet.refused("run", "--algorithm", name)
        assert "worse" in err
        assert (field.partition(":")[0] in err) or text
        assert not ("rename it" in err and "mend" in err)  # one remedy
    check_others(admmnet)
    with pytest.raises(RequestError, match="growth"):
        RunConfig(growth=2)


def test_the_names_that_are_taken_are_those_of_the_commands_flags() -> None:
    for name in COMMANDS:
        command = command_line.get_command(click.Context(command_line), name)
        for param in command.params if isinstance(command, SettingsCommand) else ():
            assert {param.name, *(flag.lstrip("-").replace("-", "_") for flag in param.opts)} <= TAKEN


def test_what_is_derived_from_a_settings_own_words(tmp_path: Path) -> None:
    """Two settings that no other file knows: flag, file, handshake, digest of a run that goes on."""
    own: dict[str, Any] = {"algorithm": "mine", "momentum": 0.25}
    config = RunConfig(**own, seed=0)
    assert [own.flag for own in own_settings("mine").values()][-2:] == ["--momentum", "--patience"]
    (tmp_path / "run.toml").write_text(to_toml(config))
    assert load_config(tmp_path / "run.toml") == config
    public = public_settings(config)
    assert (public["momentum"], "patience" in public) == (0.25, False)  # each host has its own patience
    digests = [settings_digest(config.changed(**more)) for more in ({}, {"patience": 9}, {"momentum": 0.5})]
    assert digests[0] == digests[1] != digests[2]
    for wrong in ({"momentum": 2.0}, {"patience": 0}, {"momentun": 0.5}, {"growth": 1.1}):
        with pytest.raises(RequestError, match=next(iter(wrong))):
            RunConfig(algorithm="mine", **wrong)
    with pytest.raises(AttributeError, match="momentum"):
        RunConfig(algorithm="dvp").momentum  # noqa: B018


@pytest.mark.parametrize("name", ["mine", "stranger:Mine"])
def test_a_method_runs_as_named_and_goes_on_with_what_changes_numbers(
    name: str, place: Place, site: Path, admmnet: Admmnet
) -> None:
    method: dict[str, Any] = {"algorithm": name, "momentum": 0.25, "rounds": 3, "topology": "wheel:4", "loss": "twice"}
    cut, whole = place.interrupted("cut", 1, **method), place.whole("whole", **method)
    header = next(iter(read_run(whole).ledgers.values())).header
    assert (header["algorithm"], header["loss"]) == (name, "twice")
    config = load_config(whole / "config.toml")
    assert {key: getattr(config, key) for key in method} == method
    assert name in admmnet.ok("calibrate", whole / "config.toml").out
    with pytest.raises(RequestError, match=r"momentum = 0\.5"):
        resumed_config(cut, {"momentum": 0.5})
    assert_same(place.resume(cut, patience=5), whole)
    cut = place.interrupted("again", 1, **method)
    for file in ("stranger.py", "stranger-1.0.dist-info/entry_points.txt"):
        (site / file).unlink()
    sys.modules.pop("stranger")
    invalidate_caches()
    del METHODS[name]  # not put back: it would outlive the package
    for words in (("run", "--resume", cut), ("evaluate", whole, "--data", place.data)):
        said = admmnet.refused(*words)
        assert f"the package that brought the method {name} of the run in" in said, said
    admmnet.ok("ledger", "verify", whole)


@pytest.mark.usefixtures("_here")
def test_names_may_be_of_a_file(people: str, tmp_path: Path, admmnet: Admmnet) -> None:
    """Of all three kinds, relative to the current folder; nothing but the file's folder matters."""
    Path("own").mkdir()
    Path("own/m5.py").write_text(MODULE)
    names = ("--algorithm", "own/m5.py:Mine", "--loss", "own/m5.py:Twice", "--topology", "own/m5.py:wheel:4")
    admmnet.ok("run", *names, "--data", people, "--rounds", "2", "--momentum", "0.25", "--seed", "0", "--quiet")
    (folder,) = Path("runs").iterdir()
    assert folder.name.endswith("-Mine")
    config = load_config(folder / "config.toml")
    assert (config.algorithm, config.loss, config.topology) == names[1::2]
    assert METHODS["own/m5.py:Mine"] is METHODS[f"{tmp_path}/own/m5.py:Mine"]
    assert "m5" not in sys.modules
    assert str(tmp_path / "own") not in sys.path


def test_losses_and_topologies() -> None:
    for name in ("twice", "stranger:Twice"):
        assert RunConfig(loss=name).loss == name
    with pytest.raises(RequestError, match=r"did you mean twice\?"):
        RunConfig(loss="twic")
    assert load_topology("wheel:7").degree(0) == 6
    assert load_topology("stranger:wheel:7").edges == load_topology("wheel:7").edges
    assert len({tuple(load_topology("coins:8:0.6", seed=seed).edges) for seed in range(4)}) > 1
    assert RunConfig(topology="stranger:coins:8:0.6", topology_seed=3).topology_seed == 3
    assert len(load_topology("stranger:gaps:5")) == 5  # draws in parts may have any labels: the next one is tried
    for wrong in ("wheel:x", "wheel:0", "wheels:7", "wheel", "coins:8:2.5:1"):
        with pytest.raises(RequestError, match="topology"):
            load_topology(wrong)


def test_a_class_is_its_name(people: str, tmp_path: Path) -> None:
    """A run with objects is the one with names, for a program as for a file."""
    assert RunConfig(algorithm=PPADMM).algorithm == "pp-admm"
    assert RunConfig(loss=Logistic).loss == f"{Logistic.__module__}:Logistic"
    stranger = import_module("stranger")
    how: dict[str, Any] = {"rounds": 2, "seed": 0, "data": people, "momentum": 0.25}
    graph = nx.relabel_nodes(nx.cycle_graph(3), str)
    one = run(algorithm=stranger.Mine, loss=stranger.Twice, topology=graph, out=tmp_path / "one", **how)
    names: dict[str, Any] = {"algorithm": "stranger:Mine", "loss": "stranger:Twice", "topology": "ring:3"}
    other = run(out=tmp_path / "other", **names, **how)
    np.testing.assert_array_equal(one.theta, other.theta)
    assert [load_config(tmp_path / name / "config.toml").algorithm for name in ("one", "other")] == [
        "stranger:Mine"
    ] * 2
    notes = " ".join(one.summary["notes"])
    assert f"the source of stranger:Mine has sha256 {sha256(getsource(stranger.Mine).encode()).hexdigest()}" in notes
    assert "nobody else" not in notes
    ours = run(algorithm=DVP, out=tmp_path / "ours", rounds=2, seed=0, data=people)
    assert not any("source" in note for note in ours.summary["notes"])


def test_what_no_other_process_can_import_runs_here(people: str, tmp_path: Path) -> None:
    class Local(DVP):
        name = "local"

    class Hidden(Logistic):
        pass

    small: dict[str, Any] = {"rounds": 2, "seed": 0, "topology": "ring:3", "data": people}
    result = run(algorithm=Local, out=tmp_path / "run", **small)
    assert result.summary["algorithm"].endswith(":test_what_no_other_process_can_import_runs_here.<locals>.Local")
    assert "no other process can import it, or resume this run" in " ".join(result.summary["notes"])
    for given in ({"algorithm": Local}, {"loss": Hidden}):
        with pytest.raises(RequestError, match=r"starts other processes, which cannot see .*: save it to a file"):
            run(transport="zmq", out=tmp_path / "zmq", **(small | given))
    del METHODS[result.summary["algorithm"]]  # as in another process
    with pytest.raises(RequestError, match=r"the package that brought the method .* is missing"):
        load_saved(result.folder)


def test_a_notebook_may_change_its_class(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = (type("Again", (DVP,), {"name": "again", "__module__": "__main__"}) for _ in range(2))
    for kind in (first, second):
        assert RunConfig(algorithm=kind).chosen_method is kind
    monkeypatch.setattr(sys.modules["__main__"], "Again", second, raising=False)
    assert not METHODS.importable("__main__:Again")
    assert METHODS.importable("dvp")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"algorithm": int}, r"algorithm = builtins:int: it is no subclass of Method"),
        ({"loss": lambda: 0}, r"loss = .*<lambda>: losses are no functions any more"),
        ({"topology": nx.path_graph(["a", "b"])}, r"got 'a'; networkx.convert_node_labels_to_integers\(graph\)"),
        ({"topology": nx.path_graph(3), "agents": 4}, "the graph has 3 nodes, and agents = 4"),
        ({"topology": 3}, "it is a int, and must be a networkx.Graph"),
        ({"label": [1]}, "label = .1. is not allowed: a run has one value, and `admmnet compare FILE.toml` tries"),
        ({"algorithm": ["dvp", "pp-admm"]}, r"algorithm = \['dvp', 'pp-admm'\] is not allowed: a run has one value"),
        ({"seed": (0, 1)}, r"seed = \(0, 1\) is not allowed: a run has one value"),
        ({"positive": True}, "positive = True is not allowed: it must be text"),
    ],
)
def test_what_will_not_do(given: dict[str, Any], words: str) -> None:
    with pytest.raises(RequestError, match=words):
        RunConfig(**given)


def test_numbers_are_texts_where_a_file_has_texts() -> None:
    given: dict[str, Any] = {"label": 3, "positive": np.int64(1), "centre": 0.1, "data": "t.csv"}
    config = RunConfig(**given)
    assert (config.label, config.positive, config.centre) == ("3", "1", "0.10000000000000001")
