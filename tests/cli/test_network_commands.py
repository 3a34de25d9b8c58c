"""admmnet network init, and what admmnet agent checks before anything is sent."""

from __future__ import annotations

import stat
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

from admmnet import RequestError, RunConfig, load_topology
from admmnet.cli import run_command_line
from admmnet.cli.agent import agent_settings
from admmnet.cli.network import addresses_of
from admmnet.config.toml import to_toml
from admmnet.identity.keys import Identity
from admmnet.running.handshake import public_settings
from admmnet.settings import settings_in
from admmnet.transport.hosts.keys import Keys, Secrets, read_secrets, secret_path, write_secrets
from admmnet.transport.hosts.network import read_network
from tests.command_runs import Admmnet
from tests.transport.test_network_file import plain

# admmnet network init


def write_hosts(folder: Path, *lines: str) -> Path:
    path = folder / "hosts.txt"
    path.write_text("# one line an agent\n\n" + "\n".join(lines) + "\n")
    return path


def test_ports_count_up_on_a_host(tmp_path: Path) -> None:
    hosts = write_hosts(tmp_path, "a", "b:6000  # ours", "a", "a:5571", "[::1]", "a")
    assert addresses_of(hosts, 6, 5570) == [
        "tcp://a:5570",
        "tcp://b:6000",
        "tcp://a:5572",  # 5571 is somebody else's
        "tcp://a:5571",
        "tcp://[::1]:5570",
        "tcp://a:5573",
    ]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["a"], "has 1 host for 3 agents: repeat the line"),
        (["a", "b"], "has 2 hosts for 3 agents: repeat the line"),
        (["a", "b", "c", "d"], "has 4 hosts for 3 agents: leave out"),
        (["a", "b c", "d"], "line 4: 'b c' is not host"),
        (["a", "b:0", "d"], "line 4: 'b:0' is not host"),
        (["a", "b:70000", "d"], "line 4"),
        (["a", "b:" + "9" * 5000, "d"], "line 4"),
        (["a", "tcp://b:1", "d"], "line 4"),
    ],
)
def test_wrong_hosts_files(lines: list[str], message: str, tmp_path: Path) -> None:
    with pytest.raises(RequestError, match=message):
        addresses_of(write_hosts(tmp_path, *lines), 3, 5570)


def test_no_ports_left(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="no ports left"):
        addresses_of(write_hosts(tmp_path, "a", "a"), 2, 65535)


def init(tmp_path: Path, *words: str) -> tuple[int, Path]:
    out = tmp_path / "net"
    hosts = tmp_path / "hosts.txt"
    return run_command_line(["network", "init", *words, "--hosts", str(hosts), "-o", str(out)]), out


def publics(out: Path, agents: int) -> tuple[list[str | None], list[str | None]]:
    """Public keys that belong to the key files in a folder."""
    files = [read_secrets(secret_path(out, i), i) for i in range(agents)]
    pairs = [(own.keys, own.identity) for own in files]
    return ([None if keys is None else keys.public for keys, _ in pairs], [identity.public for _, identity in pairs])


def test_init_writes_a_network_and_a_key_pair_an_agent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_hosts(tmp_path, "alpha", "beta", "alpha")
    code, out = init(tmp_path, "path:3")
    assert code == 0
    network = read_network(out / "network.toml")
    assert (network.topology, network.curve) == ("path:3", True)
    addresses = ["tcp://alpha:5570", "tcp://beta:5570", "tcp://alpha:5571"]
    assert [peer.address for peer in network.peers] == addresses
    keys, signing = publics(out, 3)
    assert keys == [peer.public_key for peer in network.peers]
    assert signing == [peer.identity for peer in network.peers]
    assert {path.name for path in out.rglob("*") if path.is_file()} == {
        "network.toml",
        *(f"agent-00{i}.secret.toml" for i in range(3)),
    }
    assert stat.S_IMODE((out / "keys").stat().st_mode) == 0o700
    shown = capsys.readouterr()
    assert shown.err == ""
    assert all(peer.address in shown.out for peer in network.peers)
    for i in range(3):
        for secret in tomllib.loads(secret_path(out, i).read_text()).values():
            assert secret["secret"] not in shown.out + (out / "network.toml").read_text()
    # the same folder again would replace keys that others hold
    assert init(tmp_path, "path:3")[0] == 2
    assert "is not empty" in capsys.readouterr().err


def test_init_with_a_file_and_a_seed(tmp_path: Path) -> None:
    write_hosts(tmp_path, *["localhost"] * 6)
    assert init(tmp_path, "erdos-renyi:6:0.5", "--seed", "4", "--port", "7000")[0] == 0
    network = read_network(tmp_path / "net" / "network.toml")
    assert list(network.edges) == sorted(load_topology("erdos-renyi:6:0.5", seed=4).edges())
    assert network.topology_seed == 4
    assert network.peers[5].address == "tcp://localhost:7005"
    (tmp_path / "mine.edges").write_text("0 1\n1 2\n2 3\n3 4\n4 5\n")
    (tmp_path / "net").rename(tmp_path / "before")
    assert init(tmp_path, str(tmp_path / "mine.edges"))[0] == 0
    content = tomllib.loads((tmp_path / "net" / "network.toml").read_text())
    assert content["network"]["topology"] == "mine.edges"


def test_init_without_keys_warns_where_messages_leave_the_machine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_hosts(tmp_path, "localhost", "localhost")
    assert init(tmp_path, "path:2", "--plain")[0] == 0
    assert capsys.readouterr().err == ""
    (tmp_path / "net").rename(tmp_path / "before")
    write_hosts(tmp_path, "localhost", "10.0.0.2")
    code, out = init(tmp_path, "path:2", "--plain")
    assert code == 0
    assert "warning: --plain" in capsys.readouterr().err
    network = read_network(out / "network.toml")
    assert not network.curve
    assert [peer.agent for peer in network.exposed] == [1]
    assert publics(out, 2) == ([None, None], [peer.identity for peer in network.peers])


@pytest.mark.parametrize("words", [["path:9"], ["no-such:3"], ["path:1"], ["missing.edges"]])
def test_init_refuses_what_is_no_network(words: list[str], tmp_path: Path) -> None:
    write_hosts(tmp_path, "a", "b", "c")
    assert init(tmp_path, *words)[0] == 2
    assert not (tmp_path / "net").exists()


# admmnet network rotate, revoke


def test_new_keys_leave_those_of_before_in_the_list(tmp_path: Path, admmnet: Admmnet) -> None:
    write_hosts(tmp_path, "alpha", "beta", "gamma")
    _, out = init(tmp_path, "path:3")
    first = read_network(out / "network.toml")
    a, b, c = (str(tmp_path / name) for name in "abc")
    admmnet.ok("network", "rotate", str(out / "network.toml"), "--agent", "1", "-o", a)
    second = read_network(Path(a) / "network.toml")
    assert second.peers[1].former == (first.peers[1].identity,)
    assert second.peers[1].public_key != first.peers[1].public_key
    assert [second.peers[i] for i in (0, 2)] == [first.peers[i] for i in (0, 2)]
    assert second.edges == first.edges
    assert [path.name for path in (Path(a) / "keys").iterdir()] == ["agent-001.secret.toml"]
    own = read_secrets(secret_path(Path(a), 1), 1)
    assert own.keys is not None
    assert (own.keys.public, own.identity.public) == (second.peers[1].public_key, second.peers[1].identity)
    admmnet.ok("network", "revoke", a + "/network.toml", "--agent", "1", "-o", b)
    third = read_network(Path(b) / "network.toml")
    assert third.peers[1].former == ()  # who had the last key file may have had those before
    assert third.peers[1].revoked == (*second.peers[1].former, second.peers[1].identity)
    told = admmnet.ok("network", "rotate", b + "/network.toml", "--keep-curve", "-o", c).out
    fourth = read_network(Path(c) / "network.toml")
    assert [peer.public_key for peer in fourth.peers] == [peer.public_key for peer in third.peers]
    assert not {peer.identity for peer in fourth.peers} & {peer.identity for peer in third.peers}
    assert publics(Path(c), 3) == ([None] * 3, [peer.identity for peer in fourth.peers])
    assert "when no run is under way" in told
    one, new = secret_path(Path(b), 1), secret_path(Path(c), 1)
    advice = told.splitlines()[-1].replace("agent-00I.secret.toml", str(one)).replace("new.secret.toml", str(new))
    subprocess.run(["bash", "-c", advice], check=True, timeout=20)
    whole = read_secrets(one, 1)
    assert whole.keys is not None
    assert (whole.keys.public, whole.identity.public) == (fourth.peers[1].public_key, fourth.peers[1].identity)
    for words, message in [
        (("rotate", a + "/network.toml", "--agent", "3", "-o", "d"), "has the agents 0 to 2"),
        (("rotate", a + "/network.toml", "-o", b), "is not empty"),
        (("revoke", a + "/network.toml", "-o", "d"), "name each agent"),
        (("rotate", a + "/none.toml", "-o", "d"), "there is no network file"),
    ]:
        assert message in admmnet.refused("network", *words)


# admmnet agent, before anything is sent


def settings(tmp_path: Path, content: str | None = None, **flags: Any) -> RunConfig:
    path = None
    if content is not None:
        path = str(tmp_path / "config.toml")
        Path(path).write_text(content)
    return agent_settings(path, flags, plain())


def test_the_graph_comes_from_the_network_file(tmp_path: Path) -> None:
    config = settings(tmp_path, '[network]\ntopology = "path:3"\nagents = 3\n', rounds=4, quorum="all")
    assert (config.topology, config.agents, config.topology_seed) == ("path:3", 3, 0)
    assert (config.transport, config.rounds, config.quorum) == ("zmq", 4, "all")
    assert settings(tmp_path, to_toml(config)) == config


@pytest.mark.parametrize(
    ("content", "flags", "message"),
    [
        (None, {"topology": "ring:3"}, "topology = 'ring:3', but the network file says 'path:3'"),
        (None, {"agents": 4}, "agents = 4, but the network file says 3"),
        (None, {"topology_seed": 1}, "leave --topology-seed out"),
        ("[network]\nagents = 5\n", {}, "agents = 5"),
        (None, {"transport": "zmq"}, "--transport does not go with"),
        ('[network]\ntransport = "mpi"\n', {}, "transport = 'mpi' does not go with"),
        (None, {"algorithm": "dp-sgd"}, "dp-sgd"),
        (None, {"rounds": 0}, "rounds = 0"),
    ],
)
def test_settings_that_no_agent_can_have(
    content: str | None, flags: dict[str, str], message: str, tmp_path: Path
) -> None:
    with pytest.raises(RequestError, match=message.replace("(", r"\(")):
        settings(tmp_path, content, **flags)


def test_the_agent_command_refuses_before_it_opens_a_socket(tmp_path: Path, admmnet: Admmnet) -> None:
    write_hosts(tmp_path, "10.0.0.1", "10.0.0.2")
    _, out = init(tmp_path, "path:2")
    network = ("--network", str(out / "network.toml"))
    (tmp_path / "plain").mkdir()
    hosts = str(tmp_path / "hosts.txt")
    open_ = str(tmp_path / "plain" / "net")
    admmnet.ok("network", "init", "path:2", "--hosts", hosts, "--plain", "-o", open_)
    other, curve_alone = str(secret_path(out, 1)), str(tmp_path / "curve_alone.toml")
    Path(curve_alone).write_text(secret_path(out, 0).read_text().partition("[identity]")[0])
    Path(curve_alone).chmod(0o600)
    for words, message in [
        (("--id", "0", *network, "--private"), "it needs --no-test and --account DIR"),
        (("--id", "2", *network), "has the agents 0 to 1"),
        (("--id", "0", *network, "--secret", other), "key file of agent 1, not of agent 0"),
        (("--id", "0", *network, "--secret", str(tmp_path / "no")), "cannot read the key file"),
        (("--id", "0", "--network", open_ + "/network.toml"), "accept it with --plain"),
        (("--id", "0", *network, "--secret", curve_alone), "a key file has the tables [identity] and"),
        (("--network", open_ + "/network.toml"), "--id"),
        (("--id", "0"), "--network"),
    ]:
        assert message in admmnet.refused("agent", *words, "-o", tmp_path / "run")
    own = read_secrets(secret_path(out, 0), 0)
    for name, mixed in {
        "curve": Secrets(Keys.fresh(), own.identity),
        "signing": Secrets(own.keys, Identity.fresh()),
    }.items():
        write_secrets(tmp_path / name, 0, mixed)
        told = admmnet.refused("agent", "--id", "0", *network, "--secret", tmp_path / name)
        assert "is not the key that the network file lists" in told
    write_secrets(tmp_path / "alone", 0, Secrets(None, own.identity))
    told = admmnet.refused("agent", "--id", "0", *network, "--secret", tmp_path / "alone")
    assert "has no table [key], which curve = true needs" in told
    assert not (tmp_path / "run").exists()


def test_what_agents_must_agree_on(tmp_path: Path) -> None:
    config = RunConfig(topology="path:3", seed=1)
    values = public_settings(config)
    theirs = {name for name, setting in settings_in(RunConfig).items() if setting.about.hosts}
    assert theirs >= {"data_dir", "account", "out", "transport", "round_deadline"}
    assert not set(values) & theirs - {"data", "test"}
    assert {"seed", "epsilon", "rounds", "budgets", "schema", "quorum", "admmnet"} <= set(values)
    assert values["data"] == "census"
    own = RunConfig(data=str(tmp_path / "{agent}.csv"), test=str(tmp_path / "test.csv"))
    assert public_settings(own)["data"] == "a file of each agent's own"
    files = [tmp_path / "a" / "people.csv", tmp_path / "b" / "people.csv", tmp_path / "c.csv"]
    for path, content in zip(files, ("x\n", "x\n", "y\n"), strict=True):
        path.parent.mkdir(exist_ok=True)
        path.write_text(content)
    said = [public_settings(RunConfig(data=str(path)))["data"] for path in files]
    assert said[0] == said[1] != said[2]
    missing = public_settings(RunConfig(data=str(tmp_path / "none.csv")))["data"]
    assert "cannot be read" in missing
    here = public_settings(RunConfig(data=str(files[0])), digests=False)["data"]
    assert here == str(files[0])


def test_an_agent_leaves_another_runs_folder_as_it_is(tmp_path: Path, admmnet: Admmnet) -> None:
    write_hosts(tmp_path, "127.0.0.1", "127.0.0.1")
    _, out = init(tmp_path, "path:2")
    words = ("agent", "--id", "0", "--network", out / "network.toml", "--private", "--no-test", "--no-account")
    folder, own = tmp_path / "run", tmp_path / "own.toml"
    own.write_text("")
    assert f"{own} and --resume exclude each other" in admmnet.refused(*words, own, "--resume", folder)
    (folder / "starts").mkdir(parents=True)
    (folder / "config.toml").write_text("")
    (folder / "starts" / "starts.json").write_text("{}")
    said = admmnet.refused(*words, "-o", folder)
    assert f"the run folder {folder} is not empty: name another one with --out, or add --resume auto" in said
    assert (folder / "starts" / "starts.json").read_text() == "{}"
