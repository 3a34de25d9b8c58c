"""`ledger verify` names the commands of ssh-keygen that sign a private run, and that check a signature."""

from __future__ import annotations

from pathlib import Path

from tests.command_runs import Admmnet
from tests.people_runs import write_people


def test_the_commands_that_sign_and_check(tmp_path: Path, admmnet: Admmnet) -> None:
    words = ("--data", write_people(tmp_path / "people.npz"), "--agents", "3", "--rounds", "2", "--no-test", "--quiet")
    admmnet.ok("run", *words, "--no-account", "-o", tmp_path / "private")
    admmnet.ok("run", *words, "--simulate", "-o", tmp_path / "simulated")
    manifest = tmp_path / "private/manifest.json"
    assert f"ssh-keygen -Y sign -n admmnet -f KEY {manifest}\n" in admmnet.ok("ledger", "verify", manifest.parent).out
    assert "ssh-keygen" not in admmnet.ok("ledger", "verify", tmp_path / "simulated").out
    Path(f"{manifest}.sig").write_text("whatever it is")
    told = admmnet.ok("ledger", "verify", manifest.parent).out
    assert f"{manifest}.sig lies beside it, unchecked: ssh-keygen -Y verify" in told
    assert "-Y sign" not in told
