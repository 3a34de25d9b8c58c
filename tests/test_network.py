"""The network file, the key files, the hosts file and the settings of an agent: checked where they are read."""

from __future__ import annotations

import stat
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import zmq
from hypothesis import given
from hypothesis import strategies as st

from admmnet import RequestError, RunConfig, load_topology
from admmnet.cli import run_command_line
from admmnet.cli.agent import agent_settings
from admmnet.cli.network import addresses_of
from admmnet.config_file import to_toml
from admmnet.hosts.handshake import OWN, public_settings
from admmnet.hosts.keys import Z85, Keys, check_key, read_keys, secret_path, write_keys
from admmnet.hosts.network import (
    Network,
    Peer,
    check_address,
    is_loopback,
    make_network,
    read_network,
    write_network,
)

PUBLIC = [Keys.fresh().public for _ in range(4)]


def plain(agents: int = 3, topology: str = "path:3") -> Network:
    peers = [Peer(i, f"tcp://127.0.0.1:{5570 + i}") for i in range(agents)]
    return make_network(topology, load_topology(topology).edges(), peers, curve=False)


def with_keys() -> Network:
    peers = [Peer(i, f"tcp://node-{i}.example:5570", PUBLIC[i]) for i in (2, 0, 1)]
    return make_network("star.edges", [[2, 0], [0, 1]], peers, curve=True, topology_seed=7)


@pytest.mark.parametrize("network", [plain(), with_keys()], ids=["plain", "curve"])
def test_a_network_is_read_as_it_was_written(network: Network, tmp_path: Path) -> None:
    write_network(network, tmp_path / "network.toml")
    again = read_network(tmp_path / "network.toml")
    assert again == network
    assert again.digest() == network.digest()


def test_order_and_comments_do_not_matter(tmp_path: Path) -> None:
    network = with_keys()
    assert [peer.agent for peer in network.peers] == [0, 1, 2]
    assert network.edges == ((0, 1), (0, 2))
    assert [network.neighbours(i) for i in range(3)] == [(1, 2), (0,), (0,)]
    assert sorted(network.graph().edges()) == [(0, 1), (0, 2)]
    write_network(network, tmp_path / "network.toml")
    head, *agents = (tmp_path / "network.toml").read_text().split("[[agents]]")
    (tmp_path / "network.toml").write_text(
        "# ours\n"
        + head.replace("[0, 1], [0, 2]", "[2, 0], [1, 0]")
        + "[[agents]]"
        + "\n[[agents]]".join(agents[::-1])
    )
    assert read_network(tmp_path / "network.toml").digest() == network.digest()


def test_the_digest_sees_every_field() -> None:
    digests = {plain().digest(), with_keys().digest(), plain(topology="complete:3").digest()}
    digests.add(
        make_network("path:3", [[0, 1], [1, 2]], plain().peers, curve=False, topology_seed=1).digest()
    )
    moved = [*plain().peers[:2], Peer(2, "tcp://127.0.0.1:9999")]
    digests.add(make_network("path:3", [[0, 1], [1, 2]], moved, curve=False).digest())
    assert len(digests) == 5


GOOD = """
[network]
topology = "path:2"
curve = true
edges = [[0, 1]]

[[agents]]
agent = 0
address = "tcp://a:5570"
public_key = "{}"

[[agents]]
agent = 1
address = "tcp://b:5570"
public_key = "{}"
""".format(*PUBLIC[:2])

FAULTS = {
    "no toml": ("[network]", "[network", "is not a TOML file"),
    "no network": ("[network]", "[else]", "unknown key else; known: network, agents"),
    "no curve": ("curve = true\n", "", "curve = None must be true or false"),
    "unknown key": ("curve =", "curves = 1\ncurve =", "[network] unknown key curves"),
    "unknown agent key": ("agent = 1\n", "agent = 1\nport = 3\n", "[[agents]] number 1: unknown key port"),
    "no address": ('address = "tcp://b:5570"\n', "", "agent 1 has no address"),
    "no port": ("tcp://b:5570", "tcp://b", "'tcp://b' is no address"),
    "port 0": ("tcp://b:5570", "tcp://b:0", "port 1 to 65535"),
    "port too large": ("tcp://b:5570", "tcp://b:65536", "port 1 to 65535"),
    "wildcard": ("tcp://b:5570", "tcp://0.0.0.0:5570", "is no host"),
    "same address": ("tcp://b:5570", "tcp://a:5570", "agents 0 and 1 have the same address"),
    "same agent": ("agent = 1", "agent = 0", "agent 0 is listed twice"),
    "gap": ("agent = 1", "agent = 2", "edge 0-1: agent 1 has no address"),
    "negative": ("agent = 1", "agent = -1", "agent = -1 must be a whole number"),
    "same key": (PUBLIC[1], PUBLIC[0], "agents 0 and 1 have the same public_key"),
    "no key": (f'public_key = "{PUBLIC[1]}"', "", "agent 1 has no public_key"),
    "short key": (PUBLIC[1], PUBLIC[1][:-1], "is no key"),
    "key too large": (PUBLIC[1], "#" * 40, "is no key"),
    "key without curve": ("curve = true", "curve = false", "would not be used"),
    "ipc": ("tcp://b:5570", "ipc:///run/b", "curve = true is for tcp"),
    "self-loop": ("[[0, 1]]", "[[0, 1], [1, 1]]", "self-loop 1-1"),
    "parallel": ("[[0, 1]]", "[[0, 1], [1, 0]]", "parallel edge 1-0"),
    "stranger": ("[[0, 1]]", "[[0, 1], [1, 2]]", "agent 2 has no address"),
    "unconnected": ("[[0, 1]]", "[]", "not connected"),
    "no pair": ("[[0, 1]]", "[[0, 1, 2]]", "expected two agents"),
    "text": ("[[0, 1]]", '[["a", "b"]]', "got 'a'"),
    "flat": ("[[0, 1]]", "[0, 1]", "must be a list of pairs"),
    "name": ('"path:2"', "3", "topology = 3"),
}


def test_the_file_that_the_faults_start_from_is_right(tmp_path: Path) -> None:
    (tmp_path / "network.toml").write_text(GOOD)
    assert len(read_network(tmp_path / "network.toml").peers) == 2


@pytest.mark.parametrize("fault", FAULTS)
def test_a_wrong_network_file_is_refused(fault: str, tmp_path: Path) -> None:
    old, new, message = FAULTS[fault]
    path = tmp_path / "network.toml"
    assert GOOD.count(old) == 1
    path.write_text(GOOD.replace(old, new))
    with pytest.raises(RequestError) as caught:
        read_network(path)
    assert message in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_missing_network_file(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="there is no network file"):
        read_network(tmp_path / "network.toml")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    with pytest.raises(RequestError, match="not UTF-8"):
        read_network(tmp_path / "bytes")


@pytest.mark.parametrize(
    ("address", "good", "leaves"),
    [
        ("tcp://127.0.0.1:1", True, False),
        ("tcp://localhost:65535", True, False),
        ("tcp://[::1]:5570", True, False),
        ("tcp://10.1.2.3:5570", True, True),
        ("tcp://node-b.example:5570", True, True),
        ("tcp://[fe80::1]:5570", True, True),
        ("ipc:///run/user/x", True, False),
        ("ipc://", False, False),
        ("tcp://*:5570", False, False),
        ("tcp://[::]:5570", False, False),
        ("tcp://[zz]:5570", False, False),
        ("tcp://a b:5570", False, False),
        ("udp://a:5570", False, False),
        ("", False, False),
    ],
)
def test_addresses(address: str, good: bool, leaves: bool) -> None:
    if not good:
        with pytest.raises(RequestError, match=r"^here: "):
            check_address(address, "here")
        return
    assert check_address(address, "here") == address
    assert Peer(0, address).exposed is leaves


def test_an_address_to_bind_is_a_number() -> None:
    assert Peer(0, "tcp://10.1.2.3:5570").listens_at() == "tcp://10.1.2.3:5570"
    assert Peer(0, "tcp://[::1]:5570").listens_at() == "tcp://[::1]:5570"
    assert Peer(0, "ipc:///run/x").listens_at() == "ipc:///run/x"
    host = Peer(0, "tcp://localhost:5570").listens_at().removeprefix("tcp://").rpartition(":")[0]
    assert is_loopback(host)
    assert host != "localhost"
    with pytest.raises(RequestError, match=r"agent 3: .* cannot be resolved"):
        Peer(3, "tcp://no-such-host.invalid:5570").listens_at()


@given(st.binary(min_size=32, max_size=32))
def test_every_key_of_32_bytes_is_one(key: bytes) -> None:
    from zmq.utils import z85

    text = z85.encode(key).decode()
    assert check_key(text, "key") == text
    assert set(text) <= set(Z85)


@pytest.mark.parametrize("key", [None, 3, "", "a" * 39, "a" * 41, "a" * 39 + " ", "~" * 40, "#" * 40])
def test_what_is_no_key(key: Any) -> None:
    with pytest.raises(RequestError, match=r"^it is no key") as caught:
        check_key(key, "it")
    assert not isinstance(key, str) or len(key) < 10 or key not in str(caught.value)


# key files


def test_a_key_file_is_its_owners_alone(tmp_path: Path) -> None:
    path, keys = tmp_path / "a.toml", Keys.fresh()
    write_keys(path, 3, keys)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert read_keys(path, 3) == keys
    assert keys.secret not in repr(keys)
    assert zmq.curve_public(keys.secret.encode()).decode() == keys.public
    with pytest.raises(RequestError, match="cannot write the key file"):
        write_keys(path, 3, Keys.fresh())
    assert read_keys(path, 3) == keys


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644, 0o610])
def test_a_key_file_open_to_others_is_refused(mode: int, tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    write_keys(path, 3, Keys.fresh())
    path.chmod(mode)
    with pytest.raises(RequestError, match=rf"open to other users \(mode {mode:04o}\): chmod 600"):
        read_keys(path, 3)
    path.chmod(0o400)
    read_keys(path, 3)


def test_wrong_key_files(tmp_path: Path) -> None:
    keys, other = Keys.fresh(), Keys.fresh()
    write_keys(tmp_path / "good", 3, keys)
    with pytest.raises(RequestError, match="key file of agent 3, not of agent 4"):
        read_keys(tmp_path / "good", 4)
    write_keys(tmp_path / "mixed", 3, Keys(keys.public, other.secret))
    with pytest.raises(RequestError, match="does not belong to the secret") as caught:
        read_keys(tmp_path / "mixed", 3)
    assert other.secret not in str(caught.value)
    with pytest.raises(RequestError, match="cannot read the key file"):
        read_keys(tmp_path / "none", 3)
    write_keys(tmp_path / "cut", 3, keys)
    text = (tmp_path / "cut").read_text()
    for content in (text[:-10], text.replace("[key]", "[keys]"), text.replace(keys.secret, keys.secret[1:])):
        (tmp_path / "cut").write_text(content)
        with pytest.raises(RequestError) as caught:
            read_keys(tmp_path / "cut", 3)
        assert keys.secret[1:-10] not in str(caught.value)


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


def test_init_writes_a_network_and_a_key_pair_an_agent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_hosts(tmp_path, "alpha", "beta", "alpha")
    code, out = init(tmp_path, "path:3")
    assert code == 0
    network = read_network(out / "network.toml")
    assert (network.topology, network.curve) == ("path:3", True)
    addresses = ["tcp://alpha:5570", "tcp://beta:5570", "tcp://alpha:5571"]
    assert [peer.address for peer in network.peers] == addresses
    secrets = [read_keys(secret_path(out, i), i) for i in range(3)]
    assert [keys.public for keys in secrets] == [peer.public_key for peer in network.peers]
    assert {path.name for path in out.rglob("*") if path.is_file()} == {
        "network.toml",
        *(f"agent-00{i}.secret.toml" for i in range(3)),
    }
    assert stat.S_IMODE((out / "keys").stat().st_mode) == 0o700
    shown = capsys.readouterr()
    assert shown.err == ""
    assert all(peer.address in shown.out for peer in network.peers)
    assert not any(keys.secret in shown.out + (out / "network.toml").read_text() for keys in secrets)
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
    assert not (out / "keys").exists()


@pytest.mark.parametrize("words", [["path:9"], ["no-such:3"], ["path:1"], ["missing.edges"]])
def test_init_refuses_what_is_no_network(words: list[str], tmp_path: Path) -> None:
    write_hosts(tmp_path, "a", "b", "c")
    assert init(tmp_path, *words)[0] == 2
    assert not (tmp_path / "net").exists()


# admmnet agent, before anything is sent


def settings(tmp_path: Path, content: str | None = None, **flags: Any) -> RunConfig:
    path = None
    if content is not None:
        path = str(tmp_path / "config.toml")
        Path(path).write_text(content)
    return agent_settings(path, flags, plain())


def test_the_graph_comes_from_the_network_file(tmp_path: Path) -> None:
    config = settings(
        tmp_path, '[network]\ntopology = "path:3"\nagents = 3\n', rounds="4", on_loss="continue"
    )
    assert (config.topology, config.agents, config.topology_seed) == ("path:3", 3, 0)
    assert (config.transport, config.rounds, config.on_loss) == ("zmq", 4, "continue")
    assert settings(tmp_path, to_toml(config)) == config


@pytest.mark.parametrize(
    ("content", "flags", "message"),
    [
        (None, {"topology": "ring:3"}, "topology = 'ring:3', but the network file says 'path:3'"),
        (None, {"agents": "4"}, "agents = 4, but the network file says 3"),
        (None, {"topology_seed": "1"}, "leave --topology-seed out"),
        ("[network]\nagents = 5\n", {}, "agents = 5"),
        (None, {"transport": "zmq"}, "--transport does not go with"),
        ('[network]\ntransport = "mpi"\n', {}, "transport = 'mpi' does not go with"),
        (None, {"algorithm": "dp-sgd"}, "dp-sgd"),
        (None, {"rounds": "0"}, "rounds = 0"),
    ],
)
def test_settings_that_no_agent_can_have(
    content: str | None, flags: dict[str, str], message: str, tmp_path: Path
) -> None:
    with pytest.raises(RequestError, match=message.replace("(", r"\(")):
        settings(tmp_path, content, **flags)


def agent(*words: str) -> int:
    return run_command_line(["agent", *words])


def test_the_agent_command_refuses_before_it_opens_a_socket(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_hosts(tmp_path, "10.0.0.1", "10.0.0.2")
    _, out = init(tmp_path, "path:2")
    network = ("--network", str(out / "network.toml"))
    (tmp_path / "plain").mkdir()
    hosts = str(tmp_path / "hosts.txt")
    open_ = str(tmp_path / "plain" / "net")
    assert run_command_line(["network", "init", "path:2", "--hosts", hosts, "--plain", "-o", open_]) == 0
    capsys.readouterr()
    other = str(secret_path(out, 1))
    for words, message in [
        (("--id", "2", *network), "has the agents 0 to 1"),
        (("--id", "0", *network, "--secret", other), "key file of agent 1, not of agent 0"),
        (("--id", "0", *network, "--secret", str(tmp_path / "no")), "cannot read the key file"),
        (("--id", "0", "--network", open_ + "/network.toml"), "accept it with --plain"),
        (
            ("--id", "0", "--plain", "--network", open_ + "/network.toml", "--secret", other),
            "would not be used",
        ),
        (("--network", open_ + "/network.toml"), "--id"),
        (("--id", "0"), "--network"),
    ]:
        assert agent(*words, "-o", str(tmp_path / "run")) == 2, words
        error = capsys.readouterr().err
        assert message in error
        assert error.count("admmnet: ") == 1
    fresh = Keys.fresh()
    write_keys(tmp_path / "fresh.toml", 0, fresh)
    assert agent("--id", "0", *network, "--secret", str(tmp_path / "fresh.toml")) == 2
    assert "is not the key that the network file lists" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_what_agents_must_agree_on(tmp_path: Path) -> None:
    config = RunConfig(topology="path:3", seed=1)
    values = public_settings(config)
    assert not set(values) & set(OWN) - {"data", "test", "resume"}
    assert {"seed", "epsilon", "rounds", "budgets", "schema", "on_loss", "admmnet"} <= set(values)
    assert values["data"] == "census"
    resumed = [
        public_settings(replace(config, resume=folder))["resume"] for folder in (None, "here", "there")
    ]
    assert resumed == [False, True, True]  # one agent that begins anew would answer questions nobody asked
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
