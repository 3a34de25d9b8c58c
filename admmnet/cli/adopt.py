"""admmnet adopt."""

from __future__ import annotations

from pathlib import Path

import click

from admmnet.errors import RequestError


@click.command()
@click.argument("folder", metavar="DIR")
@click.option("--from", "source", required=True, metavar="FOLDER", help="run folder of an agent that has finished")
def adopt(folder: str, source: str) -> None:
    """Finish an agent's run folder with the model of another agent, where the run has finished without it.

    Model, figures and summary are taken over once the signatures of most agents hold. The agent's ledger and receipts
    stay its own.
    """
    from admmnet.record.finish import adopt as take
    from admmnet.record.finish import public_files

    files = public_files(Path(source))
    if not files:
        raise RequestError(f"{source} has no finish.json: it is no folder of an agent that has finished on its host")
    take(Path(folder), files, source)
    print(f"{folder} has finished, with the model of {source}")
