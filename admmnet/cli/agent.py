"""admmnet agent: one agent by itself."""

from __future__ import annotations

from typing import Any

import click

from admmnet.cli.flags import event_flags, explain_flag, output_flags
from admmnet.cli.settings import SettingsCommand


@click.command(cls=SettingsCommand)
@click.argument("config", required=False, metavar="[CONFIG.toml]")
@click.option("--id", "number", required=True, metavar="I|NAME", help="number or name of the agent")
@click.option("--network", "network_file", required=True, metavar="FILE", help="the network file")
@click.option("--secret", metavar="FILE", help="its key file (default: keys/agent-00I.secret.toml beside it)")
@output_flags
@event_flags
@explain_flag
@click.option(
    "--parent", type=int, hidden=True, help="starter's pipe: its end ends the agent; all write one run folder"
)
@click.option("--report", type=int, hidden=True, help="line for progress")
@click.option("--answered", is_flag=True, hidden=True, help="the starter answers every round")
def agent(**given: Any) -> None:
    """Run agent I of a network by itself; the others run in processes of their own, here or elsewhere.

    The graph comes from the network file (`admmnet network init` makes one), all other settings are those of
    `run` and must be the same at every agent. This agent's ledger and the network's figures go to a run folder
    of its own.
    """
    from admmnet.cli.again import run_agent

    run_agent(**given)
