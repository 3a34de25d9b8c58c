"""admmnet topology make | show."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from admmnet.cli.facts import show as show_facts
from admmnet.cli.flags import json_flag, out_flag

_SEED = click.option("--seed", type=click.IntRange(min=0), default=0, metavar="N", help="seed of a random graph")


@click.group(no_args_is_help=False)
def topology() -> None:
    """Make and inspect graphs of agents: files, or specs such as ring:5 (docs/simulate.md)."""


@topology.command()
@click.argument("spec")
@_SEED
@out_flag("FILE", "graph file to write")
def make(spec: str, seed: int, out: Path) -> None:
    """Write the graph of SPEC to a file; its ending chooses the format."""
    from admmnet.graph import network_of, write_topology
    from admmnet.graph.specs import check_seed

    check_seed("--seed", spec, seed)
    graph = network_of(spec, seed=seed)
    write_topology(graph, out)
    print(f"{out}: {len(graph)} agents, {len(graph.edges)} edges")


@topology.command()
@click.argument("source", metavar="FILE|SPEC")
@_SEED
@click.option("--plot", metavar="FILE", help="also draw it: .png, .svg or .pdf")
@json_flag
def show(source: str, seed: int, plot: str | None, as_json: bool) -> None:
    """Show a graph's size, degrees and spectral facts."""
    from admmnet.graph import describe, network_of
    from admmnet.graph.specs import check_seed

    check_seed("--seed", source, seed)
    graph = network_of(source, seed=seed)
    if plot is not None:
        from admmnet.report.run_plot import plot_graph

        plot_graph(graph.networkx, Path(plot), title=source)
    facts = describe(graph)
    said = ["diameter and spectra are found for at most 1,000 agents"] if facts.diameter is None else []
    said += [] if plot is None else [f"picture: {plot}"]
    show_facts(asdict(facts), *said, as_json=as_json, title=source)
