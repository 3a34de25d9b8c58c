"""Methods, losses and topologies of somebody else's package, with settings of their own."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from importlib import import_module, invalidate_caches
from pathlib import Path
from typing import Any

import pytest

from admmnet import RequestError, RunConfig, load_config, load_topology
from admmnet.cli import COMMANDS
from admmnet.cli.settings import SettingsCommand
from admmnet.config.run_config import own_settings, settings_of
from admmnet.config.toml import settings_digest, to_toml
from admmnet.graph.specs import TOPOLOGIES
from admmnet.methods import METHODS, TAKEN, single_sites
from admmnet.registry import Registry
from admmnet.running.handshake import public_settings
from admmnet.running.resume import resumed_config
from admmnet.solvers.losses import LOSSES
from tests.command_runs import Admmnet
from tests.interrupted_runs import Place, assert_same

MODULE = """
from typing import Annotated

import networkx as nx

from admmnet.methods.dvp import DVP
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


@pytest.fixture(autouse=True)
def stranger(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The package, installed: a module and its metadata on the path."""
    place = tmp_path_factory.mktemp("site")
    (place / "stranger.py").write_text(MODULE)
    facts = place / "stranger-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: stranger\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text(POINTS)
    monkeypatch.syspath_prepend(str(place))
    registries: tuple[Registry[object], ...] = (METHODS, LOSSES, TOPOLOGIES)  # type: ignore[assignment]
    before = [set(registry._loaded) for registry in registries]
    yield
    for module in ("stranger", "worse"):
        sys.modules.pop(module, None)
    for registry, names in zip(registries, before, strict=True):
        for name in set(registry._loaded) - names:
            del registry[name]


@pytest.mark.parametrize("name", ["mine", "stranger:Mine"])
def test_a_method_runs_with_its_settings_and_is_named_as_given(
    name: str, people: str, tmp_path: Path, admmnet: Admmnet
) -> None:
    common = ("--algorithm", name, "--rounds", "2", "--topology", "wheel:4", "--loss", "twice", "--seed", "0")
    admmnet.ok("run", *common, "--data", people, "--momentum", "0.25", "--quiet", "-o", tmp_path / "run")
    header = json.loads((tmp_path / "run/ledger/agent-000.jsonl").read_text().split("\n")[0])
    assert (header["algorithm"], header["loss"]) == (name, "twice")
    config = load_config(tmp_path / "run" / "config.toml")
    assert (config.algorithm, config.momentum, config.loss) == (name, 0.25, "twice")
    admmnet.ok("ledger", "verify", tmp_path / "run")
    assert name in admmnet.ok("calibrate", *common).out


def test_it_is_compared(people: str, tmp_path: Path, admmnet: Admmnet) -> None:
    words = ["compare", "--algorithms", "mine,dvp,stranger:Mine:published", "--epsilons", "8", "--seeds", "0:1"]
    words += ["--tune", "mine.momentum=0.1:0.9", "--tune-seeds", "1", "--data", people, "--simulate", "--rounds", "1"]
    words += ["--topology", "ring:3", "--jobs", "1", "-o", str(tmp_path / "grid")]
    out = admmnet.ok(*words).out
    assert all(name in out for name in ("mine", "stranger:Mine:published"))
    assert "momentum" in admmnet.refused(*words, "--momentum", "0.3")


def test_it_is_listed_where_names_are(admmnet: Admmnet) -> None:
    assert single_sites() == [name for name, method in METHODS.sound() if method.verb == "none"]
    footer = admmnet.ok("baseline", "--help").out.partition("The methods:")[2]
    assert "".join(footer.split()).rstrip(".").split(",") == single_sites()
    general, listed = (admmnet.ok("run", *words, "--help").out for words in ((), ("--algorithm", "mine")))
    assert "mine" in general
    assert [flag in text for text in (general, listed) for flag in ("--momentum", "--growth")] == [0, 0, 1, 0]
    assert "did you mean mine?" in admmnet.refused("run", "--algorithm", "mane")
    assert "mine" in admmnet.refused("run", "--momentum", "0.1")


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
    assert "growth" in settings_of("m-admm")
    admmnet.ok("run", "--help")
    assert "m-admm" in admmnet.refused("run", "--growth", "1.1")


BAD = """
from typing import Annotated, Literal

from admmnet.methods.dvp import DVP
from admmnet.methods.settings import NoisySettings
from admmnet.settings import about

{0}

class Settings(NoisySettings, frozen=True, kw_only=True):
    {1}


class Bad(DVP):
    name = "bad"
    Settings = Settings
"""


def bad(field: str, text: str = "") -> None:
    """Install a package ``worse`` whose method has a setting that will not do."""
    place = Path(sys.path[0])
    (place / "worse.py").write_text(BAD.format(text, field))
    facts = place / "worse-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: worse\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text("[admmnet.methods]\nbad = worse:Bad\n")


@pytest.mark.parametrize(
    ("field", "text"),
    [
        ("foo: int", ""),
        ("foo: Annotated[int, about(table='mytable')] = 3", ""),
        ("rounds: Annotated[int, about(ge=1)] = 3", ""),
        ("data: Annotated[str, about(table='data')] = 'x'", ""),
        ("help: int = 3", ""),
        ("debug: int = 3", ""),
        ("seeded: bool = False", ""),
        ("foo: tuple[int, ...] = (1,)", ""),
        ("foo: Literal['a', 'b'] = 'a'", ""),
        ("foo: object = None", ""),
        ("foo: 'Missing' = 3", "MORE = 1"),
        ("foo: Annotated[int, about(colour='red')] = 3", "MORE = 1"),
        ("foo: int = 3", "import sys; sys.exit(7)"),
    ],
)
def test_a_badly_written_package_is_refused_and_breaks_nothing_else(field: str, text: str, admmnet: Admmnet) -> None:
    bad(field, text)
    for name in ("bad", "worse:Bad"):
        err = admmnet.refused("run", "--algorithm", name)
        assert "worse" in err
        assert (field.partition(":")[0] in err) or text
        assert not ("rename it" in err and "mend" in err)  # one remedy
    for command in ("run", "calibrate"):
        assert "m-admm" in admmnet.refused(command, "--algorithm", "pp-admm", "--growth", "1.1")
    with pytest.raises(RequestError, match="growth"):
        RunConfig(growth=2)
    admmnet.ok("run", "--help")


def test_the_names_that_are_taken_are_those_of_the_commands_flags() -> None:
    commands = [import_module(f"admmnet.cli.{name}") for name in COMMANDS if name != "predict"]
    for command in (getattr(module, module.__name__.rpartition(".")[2]) for module in commands):
        for param in command.params if isinstance(command, SettingsCommand) else ():
            assert {param.name, *(flag.lstrip("-").replace("-", "_") for flag in param.opts)} <= TAKEN


def test_what_is_derived_from_a_settings_own_words(tmp_path: Path) -> None:
    """Two settings that no other file knows: flag, file, handshake, digest of a run that goes on."""
    own: dict[str, Any] = {"algorithm": "mine", "momentum": 0.25}
    config = RunConfig(**own, seed=0)
    assert [own.flag for own in own_settings("mine").values()][-2:] == ["--momentum", "--patience"]
    (tmp_path / "run.toml").write_text(to_toml(config))
    assert load_config(tmp_path / "run.toml") == config
    assert public_settings(config)["momentum"] == 0.25
    assert "patience" not in public_settings(config)  # each host has its own
    assert settings_digest(config) == settings_digest(config.changed(patience=9))
    assert settings_digest(config) != settings_digest(config.changed(momentum=0.5))
    for wrong in ({"momentum": 2.0}, {"patience": 0}, {"momentun": 0.5}, {"growth": 1.1}):
        with pytest.raises(RequestError, match=next(iter(wrong))):
            RunConfig(algorithm="mine", **wrong)
    with pytest.raises(AttributeError, match="momentum"):
        RunConfig(algorithm="dvp").momentum  # noqa: B018


@pytest.mark.parametrize("name", ["mine", "stranger:Mine"])
def test_a_run_that_goes_on_needs_its_method_and_keeps_what_changes_numbers(
    name: str, place: Place, admmnet: Admmnet
) -> None:
    method: dict[str, Any] = {"algorithm": name, "momentum": 0.25, "rounds": 3}
    cut, whole = place.interrupted("cut", 1, **method), place.whole("whole", **method)
    with pytest.raises(RequestError, match=r"momentum = 0\.5"):
        resumed_config(cut, {"momentum": 0.5})
    assert_same(place.resume(cut, patience=5), whole)
    cut = place.interrupted("again", 1, **method)
    for file in ("stranger.py", "stranger-1.0.dist-info/entry_points.txt"):
        (Path(sys.path[0]) / file).unlink()
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
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "m5.py").write_text(MODULE)
    names = ("--algorithm", "own/m5.py:Mine", "--loss", "own/m5.py:Twice", "--topology", "own/m5.py:wheel:4")
    admmnet.ok("run", *names, "--data", people, "--rounds", "2", "--momentum", "0.25", "--seed", "0", "--quiet")
    (folder,) = (tmp_path / "runs").iterdir()
    assert folder.name.endswith("-Mine")
    config = load_config(folder / "config.toml")
    assert (config.algorithm, config.loss, config.topology) == names[1::2]
    assert METHODS["own/m5.py:Mine"] is METHODS[f"{tmp_path}/own/m5.py:Mine"]
    assert "m5" not in sys.modules
    assert str(tmp_path / "own") not in sys.path


def test_losses_and_topologies() -> None:
    assert RunConfig(loss="twice").loss == "twice"
    assert RunConfig(loss="stranger:Twice").loss == "stranger:Twice"
    with pytest.raises(RequestError, match=r"did you mean twice\?"):
        RunConfig(loss="twic")
    assert load_topology("wheel:7").degree(0) == 6
    assert load_topology("stranger:wheel:7").edges == load_topology("wheel:7").edges
    graphs = {tuple(load_topology("coins:8:0.6", seed=seed).edges) for seed in range(4)}
    assert len(graphs) > 1
    assert RunConfig(topology="stranger:coins:8:0.6", topology_seed=3).topology_seed == 3
    assert len(load_topology("stranger:gaps:5")) == 5  # draws in parts may have any labels: the next one is tried
    for wrong in ("wheel:x", "wheel:0", "wheels:7", "wheel", "coins:8:2.5:1"):
        with pytest.raises(RequestError, match="topology"):
            load_topology(wrong)
