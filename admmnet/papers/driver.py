"""From a paper's name to its folder: measure what is missing, write CSV, pictures and the report."""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from admmnet.config.modes import SIMULATE
from admmnet.errors import RequestError
from admmnet.experiments.folder import locked, read_about
from admmnet.experiments.pool import Pool
from admmnet.experiments.progress import Watch
from admmnet.files import write_whole
from admmnet.papers import PAPERS
from admmnet.papers.report import Claim, Figure
from admmnet.papers.store import RESULTS, Lab
from admmnet.papers.tables import read_table, write_table
from admmnet.version import __version__

FILE, CLAIMS, REPORT = "reproduce.json", "claims.csv", "report.md"


@dataclass(frozen=True)
class Request:
    """What is to be made: which of ``PAPERS``, into which folder (the same again goes on with it), all or ``quick``.

    ``data_dir`` is the folder of the data sets; ``seeds`` are the runs of each point, None for the scale's own number;
    ``ipums_*`` are the user's own extracts, and ``simulate`` says that these may show.
    """

    paper: str
    out: str
    quick: bool = False
    data_dir: str | None = None
    seeds: int | None = None
    ipums_brazil: str | None = None
    ipums_us: str | None = None
    simulate: bool = False


@dataclass(frozen=True)
class Reproduced:
    """What was made: folder, report and pictures in it, and the claims of each figure by its title.

    ``measured`` counts measurements made by this call; ``undrawn`` says why there are no pictures, and the remedy.
    """

    folder: Path
    report: Path
    pictures: tuple[Path, ...]
    claims: dict[str, tuple[Claim, ...]]
    measured: int
    undrawn: str | None


def reproduce(
    request: Request, *, jobs: int | None = None, watch: Watch | None = None, executor: Executor | None = None
) -> Reproduced:
    """Make the figures of a paper.

    With more than one process (``jobs``, by default as many as there are processors), a script must call this under
    ``if __name__ == "__main__"``. ``watch`` is told of progress.

    Raises
    ------
    RequestError
        If a word is wrong, the folder holds something else, a library is missing, or a paper's data are missing
        and nothing can stand in.
    RunError
        If a run failed, or a process was ended from outside; what has finished is kept.
    """
    _check(request)
    folder = Path(request.out)
    module = import_module(f"admmnet.papers.{request.paper}")
    needs = [name for name in getattr(module, "NEEDS", ()) if find_spec(name) is None]
    if needs:  # refused before anything is measured: what lacks a library would be kept as a refused setting
        raise RequestError(
            f"{request.paper} needs {' and '.join(needs)}, not installed here; run: pip install 'admmnet[baselines]'"
        )
    size = "quick" if request.quick else "full"
    scale = SimpleNamespace(**module.SCALES[size])
    for name in vars(scale):
        if name.startswith("seeds") and request.seeds is not None:
            setattr(scale, name, request.seeds)

    def agree(about: dict[str, Any]) -> None:
        # scales and seeds may differ between calls: every result is kept under all that it depends on
        if about["paper"] != request.paper:
            raise RequestError(
                f"{folder} holds the figures of {about['paper']}, not of {request.paper}: name another one with -o"
            )

    read_about(folder / FILE, agree)
    with Pool(jobs, watch, executor) as pool, locked(folder):
        read_about(folder / FILE, agree)  # again: now nobody else can write it
        about: dict[str, Any] = {"admmnet": __version__, "paper": request.paper, "scale": size}
        about |= {"data_dir": request.data_dir is not None, "seeds": request.seeds}
        # without places: results depend on records, whose sha256 is in every key
        about |= {name: getattr(request, name) is not None for name in ("ipums_brazil", "ipums_us")}
        write_whole({folder / FILE: (json.dumps(about, indent=2) + "\n").encode()})
        lab = Lab(folder, pool)
        figures: Sequence[Figure] = module.figures(lab, request, scale)
        if request.quick:
            figures = [replace(figure, title=f"{figure.title} (QUICK: few seeds, few points)") for figure in figures]
        return _write(request, module, figures, lab.made)


def _check(request: Request) -> None:
    if request.paper not in PAPERS:
        raise RequestError(f"{request.paper!r} is no paper known here: choose one of {', '.join(PAPERS)}")
    if request.seeds is not None and request.seeds < 1:
        raise RequestError(f"--seeds {request.seeds} is not allowed: it must be a whole number, at least 1")
    if request.data_dir is not None and not Path(request.data_dir).is_dir():
        raise RequestError(
            f"--data-dir {request.data_dir}: there is no such folder; name the one that holds the sets, or leave "
            "the flag out"
        )
    for flag, file in (("--ipums-brazil", request.ipums_brazil), ("--ipums-us", request.ipums_us)):
        if file is None:
            continue
        if request.paper != "ding2020":
            raise RequestError(f"{flag} goes with ding2020 alone, whose figure 7 it is for: leave it out")
        if not Path(file).is_file():
            raise RequestError(f"{flag} {file}: there is no such file; name an extract in csv form")
        if not request.simulate:
            raise RequestError(
                f"{flag} {file} is not declared public, and the figures depend on the records: {SIMULATE}"
            )


def _write(request: Request, module: Any, figures: Sequence[Figure], measured: int) -> Reproduced:
    folder, able = Path(request.out), find_spec("matplotlib") is not None
    pictures, claims, lines = [], dict[str, tuple[Claim, ...]](), []
    words = f" {' '.join(['--quick'] * request.quick + [f'--seeds {request.seeds}'] * bool(request.seeds))}".rstrip()
    parts = [
        f"# {module.TITLE}",
        f"Made by `admmnet reproduce {request.paper}{words}`, admmnet {__version__}, from the CSV files "
        "beside it. All runs are seeded simulations. ± is one standard deviation over seeds. What is claimed, and how "
        "it is judged: docs/reproduction.md.",
    ]
    for figure in figures:
        write_table(folder / f"{figure.name}.csv", figure.rows)
        rows = read_table(folder / f"{figure.name}.csv")
        picture = figure.picture(rows) if able else None
        if picture is not None:
            from admmnet.report.figure import save

            pictures.append(folder / f"{figure.name}.png")
            save(pictures[-1], picture, dpi=110, colours=128)
        claims[figure.title] = own = tuple(figure.claims(rows))
        lines += [claim.row(figure.name) for claim in own]
        parts.append(figure.section(rows, own, drawn=able))
    write_table(folder / CLAIMS, lines)
    write_whole({folder / REPORT: ("\n\n".join(parts) + "\n").encode()})
    undrawn = (
        "no picture was drawn: matplotlib is not installed; run: pip install 'admmnet[plot]', and make the "
        f"same call again: finished results in {RESULTS} are not repeated"
    )
    return Reproduced(folder, folder / REPORT, tuple(pictures), claims, measured, None if able else undrawn)
