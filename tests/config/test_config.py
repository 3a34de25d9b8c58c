"""Settings from files, flags and keywords: one meaning, read back as written, and refused by name."""

from __future__ import annotations

import math
import pickle
from pathlib import Path
from typing import Any

import pytest

from admmnet import RequestError, RunConfig, load_config
from admmnet.config.run_config import find_setting, settings_of
from admmnet.config.toml import settings_digest, to_toml
from admmnet.data.settings import DataSettings
from admmnet.graph.specs import SPECS, build_spec
from admmnet.methods import METHODS
from admmnet.methods.rivals import MADMM
from admmnet.running.before import located
from admmnet.settings import TABLES, settings_in
from admmnet.transport import World

EVERYTHING = """
[data]
data = "people.csv"
data_seed = 0
no_intercept = true
schema = {labels = ["low", "high"]}
[network]
topology = "regular:7:4"
topology_seed = 2
agents = 7
[problem]
regularisation = 0
[algorithm]
method = "published"
rounds = 12
eta = 2
[privacy]
epsilon = 3
delta = 1e-6
max_releases = 4
agents.3 = {epsilon = 0.5}
[run]
seed = 9
out = "there"
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "run.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_file_is_read_and_what_is_written_reads_back_and_flags_override_it(tmp_path: Path) -> None:
    config = load_config(written(tmp_path, EVERYTHING))
    expected: dict[str, Any] = {
        **{"data": "people.csv", "data_seed": 0, "no_intercept": True, "schema": {"labels": ["low", "high"]}},
        **{"topology": "regular:7:4", "agents": 7, "regularisation": 0.0, "rounds": 12, "eta": 2.0, "epsilon": 3.0},
        **{"max_releases": 4, "budgets": {"3": {"epsilon": 0.5}}, "seed": 9, "out": "there"},
    }
    found = {name: getattr(config, name) for name in expected}
    assert found == expected
    assert list(map(type, found.values())) == list(map(type, expected.values()))
    flags = {"epsilon": 0.125, "out": "here", "seed": None, "topology_seed": 0, "no_intercept": False}
    over = load_config(written(tmp_path, EVERYTHING), flags)
    assert over == config.changed(epsilon=0.125, out="here", topology_seed=0, no_intercept=False)
    assert load_config(written(tmp_path, to_toml(config)), {"out": "there"}) == config
    plain = RunConfig(epsilon=0.1 + 0.2, method="published", seed=0)
    assert load_config(written(tmp_path, to_toml(plain))) == plain


def test_sections_are_the_flat_settings() -> None:
    config = RunConfig(data="people.csv", label="y", epsilon=2, drop=0.25, algorithm="m-admm", growth=1.5)
    found = {name: getattr(one, name) for one in config.sections for name in settings_in(type(one))}
    assert found == {name: getattr(config, name) for name in config.described} == config.flat
    assert set(config.flat) == set(settings_of("m-admm"))
    assert config.sections.data == DataSettings(data="people.csv", label="y")
    assert isinstance(config.sections.method, MADMM.Settings)
    assert pickle.loads(pickle.dumps(config)) == config == config.changed(growth=1.5)
    with pytest.raises(AttributeError):
        config.epsilon = 0.1  # type: ignore[attr-defined]
    assert config.changed(algorithm="dvp", growth="auto").algorithm == "dvp"
    with pytest.raises(RequestError, match=r"growth = 1\.5 .*'dvp', but with m-admm"):
        config.changed(algorithm="dvp")


def test_a_run_that_goes_on_keeps_what_changes_its_numbers() -> None:
    """An unseeded run may go on with another kernel, whose last bits differ; a seeded one may not."""
    for seed, same in ((None, True), (0, False)):
        config = RunConfig(seed=seed, kernel="numpy")
        assert (settings_digest(config) == settings_digest(config.changed(kernel="auto"))) is same
        assert settings_digest(config) == settings_digest(config.changed(measure_every=7, out="there"))
        assert settings_digest(config) != settings_digest(config.changed(epsilon=2.0))


def test_settings_of_other_methods_are_passed_over_at_their_defaults(tmp_path: Path) -> None:
    other = '[algorithm]\nalgorithm = "dvp"\ngrowth = "auto"\n[privacy]\ngate = "auto"\n'
    assert load_config(written(tmp_path, other)) == RunConfig(algorithm="dvp")


def test_a_graph_seed_needs_a_random_graph(tmp_path: Path) -> None:
    random = [spec for spec in SPECS if build_spec(spec, 0).edges != build_spec(spec, 9).edges]
    assert len(random) == 5
    for topology in (None, *random):
        assert RunConfig(topology=topology, topology_seed=3).topology_seed == 3
    for topology in ("mine.edges", *(spec for spec in SPECS if spec not in random)):
        with pytest.raises(RequestError, match=f"topology_seed = 3 goes with a random graph, not .*{topology}"):
            RunConfig(topology=topology, topology_seed=3)
    # what a run writes down can be run again, with another seed, too
    for topology, seed in (("ring:5", 0), (None, 7)):
        config = RunConfig(topology=topology, seed=7)
        config = config.changed(**located(config, World())[0])
        assert load_config(written(tmp_path, to_toml(config)), {"seed": 8}).topology_seed == seed


def test_defaults_are_the_contracts() -> None:
    config = RunConfig()
    assert (config.algorithm, config.data, config.epsilon, config.delta) == ("ipp-admm", "census", 1.0, "auto")
    assert (config.data_seed, config.seed, config.transport, config.budgeted) == (0, None, "auto", True)
    assert not RunConfig(algorithm="admm").budgeted
    assert RunConfig(method="published").accountant == "published"
    assert RunConfig(method="published", accountant="proven").accountant == "proven"
    for own in (own for name in METHODS for own in settings_of(name).values()):
        assert own.table in TABLES, own.name
        assert own.help, own.name


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[privacy]\nepsilom = 1\n", ["unknown key epsilom = 1 in [privacy]", "did you mean epsilon?"]),
        ("[algorithm]\nalgorithm = 'ippadmm'\n", ["algorithm = 'ippadmm'", "did you mean ipp-admm?", "one of"]),
        ("[algorithm]\ngrowht = 1.1\n", ["did you mean growth?"]),
        ("[data]\nno_cache = false\n", ["no_cache is gone: leave it out"]),
        ("[run]\nepsilon = 1\n", ["unknown key epsilon", "it belongs to [privacy]"]),
        ("[privat]\nepsilon = 1\n", ["unknown table or key [privat]", "did you mean privacy?"]),
        ("[algorithm]\nrounds = \n", ["is not a TOML file"]),
        (f"[run]\nseed = 1{'0' * 5000}\n", ["is not a TOML file"]),
        ("[algorithm]\nrounds = '12'\n", ["rounds = '12'", "a whole number or 'auto'", "at least 1"]),
        ("[algorithm]\nrounds = 1.5\n", ["rounds = 1.5", "a whole number"]),
        ("[algorithm]\nrounds = true\n", ["rounds = True", "a whole number"]),
        ("[run]\nout = ''\n", ["out = ''", "text"]),
        ("[data]\nno_intercept = 1\n", ["no_intercept = 1", "true or false"]),
        ("[data]\nschema = 'x'\n", ["schema = 'x'", "a table"]),
        ("[privacy]\ndelta = 1\n", ["delta = 1", "above 0 and below 1"]),
        ("[privacy.agents.03]\nepsilon = 1\n", ["[privacy.agents.03]", "agent's number"]),
        ("[privacy.agents.3]\nepsilonn = 1\n", ["[privacy.agents.3]", "epsilon and delta"]),
        ("[privacy.agents.3]\nepsilon = 0\n", ["[privacy.agents.3] epsilon = 0", "above 0"]),
        ("[data]\ntest = 'a.csv'\ntest_fraction = 0.2\n", ["test", "test_fraction", "exclude"]),
        ("[network]\nheartbeat_deadline = 3\n", ["heartbeat_deadline = 3 goes with transport = 'zmq', not 'auto'"]),
        ("[network]\ntransport = 'zmq'\nblock = 2\n", ["block = 2 does not go with", "'zmq'", "give 1"]),
        ("[algorithm]\nmethod='published'\nalgorithm='pp-admm'\n[problem]\nloss_width=0.5\n", ["has no width"]),
        ("[run]\nseed = 0\n[privacy]\naccount = 'here'\n", ["seed = 0 and account = 'here' exclude each other"]),
        ("[run]\nshow = 'end'\n[algorithm]\nanswer = 'last'\n", ["show = 'end' goes with answer = 'average'"]),
        ("[run]\nresume = 'auto'\n", ["resume = 'auto' goes with out"]),
        ("[algorithm]\nalgorithm = 'dp-scd'\n[network]\nagents = 2\n", ["agents = 2", "there is no network"]),
        ("[algorithm]\nalgorithm = 'dp-scd'\n[data]\ndata = 'a-{agent}.csv'\n", ["name one file"]),
    ],
)
def test_refusals_name_key_value_and_what_is_allowed(text: str, words: list[str], tmp_path: Path) -> None:
    with pytest.raises(RequestError) as caught:
        load_config(written(tmp_path, text))
    message = str(caught.value)
    assert message.count("\n") <= 1
    assert [word for word in words if word not in message] == []


def test_files_that_cannot_be_read_and_names_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "latin.toml").write_bytes(b"[data]\ndata = '\xff'\n")
    for name, why in (("gone.toml", "cannot read the config file"), ("latin.toml", "is not a TOML file")):
        with pytest.raises(RequestError, match=why):
            load_config(tmp_path / name)
    with pytest.raises(RequestError, match=r"'epsilom': did you mean epsilon\?"):
        RunConfig(epsilom=1.0)  # type: ignore[call-arg]  # mypy finds it, too
    assert RunConfig(transport="zmq", heartbeat_deadline=3.0, block=1).heartbeat_deadline == 3.0
    assert RunConfig(algorithm="dp-scd", agents=1, transport="local").baseline


def test_flags_are_parsed_by_their_settings_type() -> None:
    texts = {"rounds": ("12", 12), "epsilon": ("1e-3", 1e-3), "label": ("12", "12"), "delta": ("auto", "auto")}
    for name, (text, value) in texts.items():
        parsed = find_setting(name).parse(text)
        assert (parsed, type(parsed)) == (value, type(value))
    for name, text in (("rounds", "1e2"), ("seed", "auto"), ("epsilon", "nan")):
        with pytest.raises(RequestError, match=rf"{name} = '?{text}'? is not allowed"):
            find_setting(name).parse(text)


@pytest.mark.parametrize("name", [n for n, s in settings_of("ipp-admm").items() if s.base in (int, float)])
def test_no_number_lets_nan_or_infinity_pass(name: str) -> None:
    for value in (math.nan, math.inf, -math.inf, 10**400, -(10**400)):
        given: dict[str, Any] = {name: value}
        with pytest.raises(RequestError, match=name):
            RunConfig(**given)


WEIGHTED = {"label": "c", "columns": {"a": {"kind": "numeric", "low": 0, "high": 1, "weight": 2}}}
EVEN = {"label": "c", "columns": {"a": {"kind": "numeric", "low": 0, "high": 1}}}
RAW = {"label": "c", "labels": ["0", "1"], "columns": {"a": {"kind": "numeric"}}}


@pytest.mark.parametrize(
    ("values", "encode", "whiten"),
    [
        ({"data": "adult"}, "declared", "auto"),
        ({"data": "adult", "algorithm": "noisy-gd"}, "declared", "auto"),
        ({"data": "mine.csv", "schema": EVEN}, "private", "auto"),
        ({"data": "mine.csv", "schema": WEIGHTED}, "private", "off"),
        ({"data": "mine.csv", "schema": RAW}, "private", "auto"),
        ({"data": "mine.csv", "schema": RAW, "data_dependent": True}, "declared", "auto"),
        ({"data": "census"}, "declared", "off"),
        ({"data": "census", "whiten": "on"}, "declared", "on"),
        ({"data": "adult", "algorithm": "r-admm-gaussian"}, "declared", "off"),
        ({"data": "adult", "method": "published"}, "declared", "off"),
        ({"data": "adult", "project": 20}, "declared", "off"),
        ({"data": "arrays"}, "declared", "off"),
    ],
)
def test_auto_measures_and_whitens_where_it_was_tried(values: dict[str, Any], encode: str, whiten: str) -> None:
    request = RunConfig(**({"algorithm": "pp-admm"} | values)).request
    assert (request.encode, request.whiten) == (encode, whiten)
