from __future__ import annotations

import math
import pickle
from pathlib import Path
from typing import Any

import pytest

from admmnet import RequestError, RunConfig, load_config
from admmnet.config.run_config import find_setting, settings_of
from admmnet.config.toml import to_toml
from admmnet.data.settings import DataSettings
from admmnet.graph.specs import SPECS, build_spec
from admmnet.methods import METHODS
from admmnet.methods.m_admm import MADMM
from admmnet.running.graphs import located
from admmnet.settings import TABLES, settings_in
from admmnet.transport.local import LocalWorld

EVERYTHING = """
[data]
data = "people.csv"
data_dir = "sets"
data_seed = 4
test = "public.csv"
split = "dirichlet:0.5"
label = "income"
positive = "high"
no_intercept = true

[data.schema]
labels = ["low", "high"]

[network]
topology = "regular:7:4"
topology_seed = 2
agents = 7
transport = "local"

[problem]
loss = "logistic"
regularisation = 0.25

[algorithm]
algorithm = "ipp-admm"
method = "published"
rounds = 12
eta = 2
beta = 1e-5

[privacy]
accountant = "proven"
epsilon = 3
delta = 1e-6
gate_share = 0.2
gate_threshold = 0.01
max_releases = 4
loss_clip = 1.5

[privacy.agents.3]
epsilon = 0.5

[run]
seed = 9
out = "there"
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "run.toml"
    path.write_text(text, encoding="utf-8")
    return path


def refusal(folder: Path, text: str) -> str:
    with pytest.raises(RequestError) as caught:
        load_config(written(folder, text))
    message = str(caught.value)
    assert message.count("\n") <= 1
    return message


def test_all_tables(tmp_path: Path) -> None:
    config = load_config(written(tmp_path, EVERYTHING))
    expected: dict[str, Any] = {
        "data": "people.csv",
        "data_seed": 4,
        "split": "dirichlet:0.5",
        "no_intercept": True,
        "schema": {"labels": ["low", "high"]},
        "topology": "regular:7:4",
        "agents": 7,
        "regularisation": 0.25,
        "rounds": 12,
        "eta": 2.0,
        "accountant": "proven",
        "epsilon": 3.0,
        "max_releases": 4,
        "budgets": {"3": {"epsilon": 0.5}},
        "seed": 9,
        "out": "there",
    }
    for name, value in expected.items():
        assert getattr(config, name) == value, name
        assert type(getattr(config, name)) is type(value), name


def test_flags_override_the_file(tmp_path: Path) -> None:
    config = load_config(written(tmp_path, EVERYTHING), {"epsilon": 0.125, "out": "here", "seed": None})
    assert (config.epsilon, config.out, config.seed, config.delta) == (0.125, "here", 9, 1e-6)


def test_what_is_written_reads_back(tmp_path: Path) -> None:
    config = load_config(written(tmp_path, EVERYTHING))
    again = load_config(written(tmp_path, to_toml(config)), {"out": "there"})
    assert again == config
    plain = RunConfig(epsilon=0.1 + 0.2, method="published")
    assert load_config(written(tmp_path, to_toml(plain))) == plain


def test_sections_are_the_flat_settings() -> None:
    config = RunConfig(data="people.csv", label="y", epsilon=2, drop=0.25, algorithm="m-admm", growth=1.5)
    for section in config.sections:
        assert all(getattr(section, name) == getattr(config, name) for name in settings_in(type(section)))
    assert config.sections.data == DataSettings(data="people.csv", label="y")
    assert config.sections.method.epsilon == 2.0
    assert set(config.flat) == set(settings_of("m-admm"))
    assert pickle.loads(pickle.dumps(config)) == config == config.changed(growth=1.5)
    assert isinstance(config.sections.method, MADMM.Settings)
    with pytest.raises(AttributeError):
        config.epsilon = 0.1  # type: ignore[attr-defined]
    assert config.changed(algorithm="dvp", growth="auto").algorithm == "dvp"
    with pytest.raises(RequestError, match=r"growth = 1\.5 .*'dvp', but with m-admm"):
        config.changed(algorithm="dvp")


def test_an_older_run_folder_says_defaults_of_other_methods(tmp_path: Path) -> None:
    old = '[algorithm]\nalgorithm = "dvp"\ngrowth = "auto"\n[privacy]\ngate = "auto"\ngate_radius = 5.0\n'
    assert load_config(written(tmp_path, old)) == RunConfig(algorithm="dvp")


def test_mistaken_names_are_answered_with_the_closest(tmp_path: Path) -> None:
    for text, meant in (
        ("[privacy]\nepsilom = 1\n", "epsilon"),
        ("[privat]\nepsilon = 1\n", "privacy"),
        ("[algorithm]\nalgorithm = 'ippadmm'\n", "ipp-admm"),
        ("[algorithm]\ngrowht = 1.1\n", "growth"),
        ("[problem]\nloss = 'hubber'\n", "huber"),
    ):
        assert f"did you mean {meant}?" in refusal(tmp_path, text)
    with pytest.raises(RequestError, match=r"'epsilom': did you mean epsilon\?"):
        RunConfig(epsilom=1.0)  # type: ignore[call-arg]  # mypy finds it, too


def test_a_graph_seed_needs_a_random_graph(tmp_path: Path) -> None:
    random = [spec for spec in SPECS if build_spec(spec, 0).edges != build_spec(spec, 9).edges]
    assert len(random) == 5
    for topology in (None, *random):
        assert RunConfig(topology=topology, topology_seed=3).topology_seed == 3
    for topology in ("mine.edges", *(spec for spec in SPECS if spec not in random)):
        with pytest.raises(RequestError, match=f"topology_seed = 3 goes with a random graph, not .*{topology}"):
            RunConfig(topology=topology, topology_seed=3)
    # what a run writes down can be run again, with another seed, too
    config = RunConfig(topology="ring:5", seed=7)
    config = config.changed(**located(config, LocalWorld())[0])
    assert load_config(written(tmp_path, to_toml(config)), {"seed": 8}).topology_seed == 0
    assert located(RunConfig(seed=7), LocalWorld())[0]["topology_seed"] == 7


def test_defaults_are_the_contracts() -> None:
    config = RunConfig()
    assert (config.algorithm, config.data, config.epsilon, config.delta) == ("ipp-admm", "census", 1.0, "auto")
    assert (config.data_seed, config.seed, config.transport) == (0, None, "auto")
    assert RunConfig(method="published").accountant == "published"
    assert RunConfig(method="published", accountant="proven").accountant == "proven"
    assert RunConfig().budgeted
    assert not RunConfig(algorithm="admm").budgeted


def test_every_setting_has_a_home_and_help() -> None:
    for name in METHODS:
        for own in settings_of(name).values():
            assert own.table in TABLES, own.name
            assert own.help, own.name


def test_keys_of_earlier_settings_are_read_at_their_defaults(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text("[network]\nstrikes = 5\nlinger = 60.0\n[data]\nno_cache = false\n")
    assert load_config(tmp_path / "c.toml") == RunConfig()
    (tmp_path / "c.toml").write_text("[network]\nlinger = 61.0\n")
    with pytest.raises(RequestError, match="linger is gone"):
        load_config(tmp_path / "c.toml")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[privacy]\nepsilonn = 1\n", ["unknown key epsilonn = 1 in [privacy]", "epsilon"]),
        ("[network]\ndelay = '0.1'\n", ["delay is gone: no method waits for a clock"]),
        ("[data]\nno_cache = true\n", ["no_cache is gone: leave it out"]),
        ("[run]\nepsilon = 1\n", ["unknown key epsilon", "it belongs to [privacy]"]),
        ("[privat]\nepsilon = 1\n", ["unknown table or key [privat]", "privacy"]),
        ("epsilon = 1\n", ["unknown table or key [epsilon]"]),
        ("[algorithm]\nrounds = \n", ["is not a TOML file"]),
        ("[algorithm]\nrounds = '12'\n", ["rounds = '12'", "a whole number or 'auto'", "at least 1"]),
        ("[algorithm]\nrounds = 1.5\n", ["rounds = 1.5", "a whole number"]),
        ("[algorithm]\nrounds = inf\n", ["rounds = inf", "a whole number"]),
        ("[algorithm]\nrounds = nan\n", ["rounds = nan", "a whole number"]),
        ("[algorithm]\nrounds = true\n", ["rounds = True", "a whole number"]),
        ("[algorithm]\nrounds = 'all'\n", ["rounds = 'all'", "'auto'"]),
        ("[algorithm]\nalgorithm = 'sgdm'\n", ["algorithm = 'sgdm'", "one of", "ipp-admm"]),
        ("[run]\nseed = 'auto'\n", ["seed = 'auto'", "a whole number"]),
        ("[run]\nseed = -1\n", ["seed = -1", "at least 0"]),
        (f"[run]\nseed = 1{'0' * 400}\n", ["seed = 1", "a whole number"]),
        (f"[run]\nseed = 1{'0' * 5000}\n", ["is not a TOML file"]),
        ("[run]\nout = ''\n", ["out = ''", "text"]),
        ("[run]\nout = 3\n", ["out = 3", "text"]),
        ("[data]\nno_intercept = 1\n", ["no_intercept = 1", "true or false"]),
        ("[data]\nschema = 'x'\n", ["schema = 'x'", "a table"]),
        ("[privacy]\nepsilon = inf\n", ["epsilon = inf", "above 0"]),
        ("[privacy]\ndelta = 1\n", ["delta = 1", "below 1"]),
        ("[privacy]\nagents = 3\n", ["= 3 is not allowed", "a table"]),
        ("[privacy.agents.x]\nepsilon = 1\n", ["[privacy.agents.x]", "agent's number"]),
        ("[privacy.agents.03]\nepsilon = 1\n", ["[privacy.agents.03]", "agent's number"]),
        ("[privacy.agents.3]\nepsilonn = 1\n", ["[privacy.agents.3]", "epsilon and delta"]),
        ("[privacy.agents.3]\nepsilon = 0\n", ["[privacy.agents.3] epsilon = 0", "above 0"]),
        ("[privacy.agents]\n3 = 1\n", ["[privacy.agents.3]"]),
        ("[data]\ntest = 'a.csv'\ntest_fraction = 0.2\n", ["test", "test_fraction", "exclude"]),
        ("[algorithm]\nrounds = 3\n[privacy]\nmax_releases = 4\n", ["max_releases = 4", "at most rounds = 3"]),
        (
            "[network]\ntransport = 'local'\nheartbeat_deadline = 3\n",
            ["heartbeat_deadline = 3 goes with transport = 'zmq', not 'local'"],
        ),
        ("[network]\nheartbeat_deadline = 3\n", ["heartbeat_deadline = 3 goes with transport = 'zmq', not 'auto'"]),
        ("[network]\ntransport = 'zmq'\nblock = 2\n", ["block = 2 does not go with", "'zmq'", "give 1"]),
        (
            "[algorithm]\nalgorithm = 'pp-admm'\n[privacy]\ngate_radius = 2\n",
            ["gate_radius = 2 does not go with", "'pp-admm'", "but with ipp-admm"],
        ),
        ("[privacy]\ngate = 'off'\ngate_radius = 2\n", ["gate_radius = 2 goes with the gate"]),
        ("[algorithm]\nmethod = 'published'\n[privacy]\ngate_radius = 2\n", ["gate_radius = 2", "'proven'"]),
        ("[privacy]\nnoise_share = 0.5\n", ["noise_share = 0.5 goes with method = 'published'"]),
        ("[privacy]\nloss_clip = 1\n", ["loss_clip = 1 goes with algorithm = 'ipp-admm'", "'published'"]),
    ],
)
def test_refusals_name_key_value_and_what_is_allowed(text: str, words: list[str], tmp_path: Path) -> None:
    message = refusal(tmp_path, text)
    for word in words:
        assert word in message, message


def test_deadlines_and_a_block_of_one_go_with_processes(tmp_path: Path) -> None:
    config = RunConfig(transport="zmq", heartbeat_deadline=3.0, block=1)
    assert (config.heartbeat_deadline, config.block) == (3.0, 1)


def test_a_seed_and_an_account_exclude_each_other() -> None:
    with pytest.raises(RequestError, match="seed = 0 and account = 'here' exclude each other: whoever has the seed"):
        RunConfig(algorithm="pp-admm", seed=0, account="here")


def test_unreadable_files(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match=r"cannot read the config file .*gone.toml"):
        load_config(tmp_path / "gone.toml")
    with pytest.raises(RequestError, match="cannot read the config file"):
        load_config(tmp_path)
    (tmp_path / "latin.toml").write_bytes(b"[data]\ndata = '\xff'\n")
    with pytest.raises(RequestError, match="is not a TOML file"):
        load_config(tmp_path / "latin.toml")


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("rounds", "12", 12),
        ("rounds", "auto", "auto"),
        ("epsilon", "1e-3", 1e-3),
        ("label", "12", "12"),
        ("seed", "7", 7),
    ],
)
def test_flags_are_parsed_by_their_settings_type(name: str, text: str, value: object) -> None:
    parsed = find_setting(name).parse(text)
    assert parsed == value
    assert type(parsed) is type(value)


@pytest.mark.parametrize(
    ("name", "text"), [("rounds", "1e2"), ("rounds", "x"), ("seed", "auto"), ("epsilon", "nan"), ("delta", "inf")]
)
def test_flags_of_another_type_are_refused(name: str, text: str) -> None:
    with pytest.raises(RequestError, match=rf"{name} = '?{text}'? is not allowed"):
        find_setting(name).parse(text)


@pytest.mark.parametrize(
    "setting", [own for own in settings_of("ipp-admm").values() if own.base is float], ids=lambda own: own.name
)
def test_no_number_lets_nan_or_infinity_pass(setting: Any) -> None:
    for value in (math.nan, math.inf, -math.inf, 10**400, -(10**400)):
        given: dict[str, Any] = {setting.name: value}
        with pytest.raises(RequestError, match=setting.name):
            RunConfig(**given)


WEIGHTED = {"label": "c", "columns": {"a": {"kind": "numeric", "low": 0, "high": 1, "weight": 2}}}
EVEN = {"label": "c", "columns": {"a": {"kind": "numeric", "low": 0, "high": 1}}}


@pytest.mark.parametrize(
    ("values", "whiten"),
    [
        ({"data": "adult"}, "auto"),
        ({"data": "adult", "algorithm": "noisy-gd"}, "auto"),
        ({"data": "adult", "algorithm": "ipp-admm"}, "auto"),
        ({"data": "mine.csv", "schema": EVEN}, "auto"),
        ({"data": "mine.csv", "schema": WEIGHTED}, "off"),
        ({"data": "census"}, "off"),
        ({"data": "census", "whiten": "on"}, "on"),
        ({"data": "adult", "algorithm": "r-admm-gaussian"}, "off"),
        ({"data": "adult", "method": "published"}, "off"),
        ({"data": "adult", "project": 20}, "off"),
        ({"data": "arrays"}, "off"),
    ],
)
def test_auto_whitens_features_that_nobody_has_weighted(values: dict[str, Any], whiten: str) -> None:
    assert RunConfig(**({"algorithm": "pp-admm"} | values)).request.whiten == whiten
