"""From a paper's name to its folder: measure what is missing, write CSV, pictures and the report."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from admmnet.config.modes import SIMULATE
from admmnet.errors import RequestError
from admmnet.experiments.driver import processors
from admmnet.experiments.folder import locked, write_whole
from admmnet.experiments.pool import Pool
from admmnet.experiments.progress import Watch
from admmnet.papers import PAPERS
from admmnet.papers.report import Figure, section
from admmnet.papers.significance import WORDS
from admmnet.papers.store import RESULTS, Lab
from admmnet.papers.tables import read_table, write_table
from admmnet.version import __version__

FILE, REPORT = "reproduce.json", "report.md"
SCALES = ("full", "quick", "tiny")
"""``quick``: under three minutes on two idle cores. ``tiny`` is for tests: it runs everything and shows nothing."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """What the paper modules are told.

    Attributes
    ----------
    scale : str
        One of ``SCALES``.
    data_dir : str or None
        Folder of the data sets.
    seeds : int or None
        Runs of each point; None for the scale's own number.
    ipums_brazil, ipums_us : str or None
        The user's own extracts.
    """

    scale: str = "full"
    data_dir: str | None = None
    seeds: int | None = None
    ipums_brazil: str | None = None
    ipums_us: str | None = None

    @property
    def quick(self) -> str:
        """What pictures of a reduced scale say, with a space in front; empty for the full one."""
        return "" if self.scale == "full" else f" ({self.scale.upper()}: few seeds, few points)"


@dataclass(frozen=True)
class Request:
    """What is to be made.

    Attributes
    ----------
    paper : str
        One of ``PAPERS``.
    out : str
        Folder; the same again goes on with it.
    scale, data_dir, seeds, ipums_brazil, ipums_us
        As in ``Options``.
    simulate : bool
        Says that the user's own extracts may show: a figure shows what depends on records.
    """

    paper: str
    out: str
    scale: str = "full"
    data_dir: str | None = None
    seeds: int | None = None
    ipums_brazil: str | None = None
    ipums_us: str | None = None
    simulate: bool = False


@dataclass(frozen=True)
class Reproduced:
    """What was made.

    Attributes
    ----------
    folder, report : Path
        The folder, and the text in it.
    pictures : tuple of Path
        Drawn; empty without matplotlib.
    figures : tuple of (str, str, str)
        Title of a figure, a claim and its verdict.
    measured : int
        Measurements made by this call; the others were there.
    undrawn : str or None
        Why there are no pictures, and the remedy.
    """

    folder: Path
    report: Path
    pictures: tuple[Path, ...]
    figures: tuple[tuple[str, str, str], ...]
    measured: int
    undrawn: str | None


def reproduce(request: Request, *, jobs: int | None = None, watch: Watch | None = None) -> Reproduced:
    """Make the figures of a paper.

    Parameters
    ----------
    request : Request
        Which paper, at which scale, where.
    jobs : int, optional
        Processes; by default as many as this process may use processors. With more than one, a script must
        call this under ``if __name__ == "__main__"``.
    watch : Watch, optional
        Is told of progress.

    Returns
    -------
    Reproduced
        What was made.

    Raises
    ------
    RequestError
        If a word is wrong, the folder holds something else, a library is missing, or a paper's data are missing
        and nothing can stand in.
    RunError
        If a run failed, or a process was ended from outside; what has finished is kept.
    """
    _check(request, jobs)
    words = {
        name: value for name, value in asdict(request).items() if name not in ("paper", "out", "simulate")
    }
    options, folder = Options(**words), Path(request.out)
    _agree(folder, request.paper)
    module = import_module(f"admmnet.papers.{request.paper}")
    _check_installed(request.paper, getattr(module, "NEEDS", ()))
    build: Callable[[Lab, Options], Sequence[Figure]] = module.figures
    with locked(folder), Pool(jobs or processors()) as pool:
        _agree(folder, request.paper)
        about = {"admmnet": __version__, "paper": request.paper, **_portable(words)}
        write_whole(folder / FILE, json.dumps(about, indent=2) + "\n")
        lab = Lab(folder, pool, watch or Watch())
        figures = build(lab, options)
        return _write(folder, request, options, figures, lab.made)


def _portable(words: dict[str, Any]) -> dict[str, Any]:
    """Words without places: results depend on records, whose sha256 is in every key."""
    return {
        name: (value if name in ("scale", "seeds") else value is not None) for name, value in words.items()
    }


def _check_installed(paper: str, needs: Sequence[str]) -> None:
    """Refuse before anything is measured: what lacks a library would be kept as a refused setting."""
    missing = [name for name in needs if find_spec(name) is None]
    if missing:
        raise RequestError(
            f"{paper} needs {' and '.join(missing)}, not installed here; run: pip install 'admmnet[baselines]'"
        )


def _check(request: Request, jobs: int | None) -> None:
    if request.paper not in PAPERS:
        raise RequestError(f"{request.paper!r} is no paper known here: choose one of {', '.join(PAPERS)}")
    if request.scale not in SCALES:
        raise RequestError(f"scale = {request.scale!r} is not known: choose one of {', '.join(SCALES)}")
    for name, value in (("--jobs", jobs), ("--seeds", request.seeds)):
        if value is not None and value < 1:
            raise RequestError(f"{name} {value} is not allowed: it must be a whole number, at least 1")
    if request.data_dir is not None and not Path(request.data_dir).is_dir():
        raise RequestError(
            f"--data-dir {request.data_dir}: there is no such folder; name the one that holds the sets, or leave "
            "the flag out"
        )
    for name in ("ipums_brazil", "ipums_us"):
        file = getattr(request, name)
        if file is None:
            continue
        flag = "--" + name.replace("_", "-")
        if request.paper != "ding2020":
            raise RequestError(f"{flag} goes with ding2020 alone, whose figure 7 it is for: leave it out")
        if not Path(file).is_file():
            raise RequestError(f"{flag} {file}: there is no such file; name an extract in csv form")
        if not request.simulate:
            raise RequestError(
                f"{flag} {file} is not declared public, and figures show what depends on records: {SIMULATE}"
            )


def _agree(folder: Path, paper: str) -> None:
    """Refuse a folder that holds something else.

    Scales and seeds may differ between calls: every result is kept under all that it depends on.
    """
    try:
        about = json.loads((folder / FILE).read_text(encoding="utf-8"))
        earlier = about["paper"]
    except FileNotFoundError:
        if folder.is_dir() and any(path.name != f"{FILE}.new" for path in folder.iterdir()):
            raise RequestError(
                f"the folder {folder} is not empty and holds no {FILE}: name another one with -o"
            ) from None
        return
    except NotADirectoryError:
        raise RequestError(f"{folder} is no folder: name another one with -o") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RequestError(f"cannot read {folder / FILE}: {error}; name another folder with -o") from None
    if earlier != paper:
        raise RequestError(
            f"{folder} holds the figures of {earlier}, not of {paper}: name another one with -o"
        )


def _write(
    folder: Path, request: Request, options: Options, figures: Sequence[Figure], measured: int
) -> Reproduced:
    able = find_spec("matplotlib") is not None
    pictures, sections, verdicts = [], [], []
    for figure in figures:
        write_table(folder / f"{figure.name}.csv", figure.rows)
        rows = read_table(folder / f"{figure.name}.csv")
        if able and figure.picture is not None:
            from admmnet.report.figure import save

            pictures.append(folder / f"{figure.name}.png")
            save(pictures[-1], figure.picture(rows), dpi=110, colours=128)
        sections.append(section(figure, rows, drawn=able))
        verdicts += [(figure.title, one.claim, one.verdict) for one in figure.findings(rows)]
    module = import_module(f"admmnet.papers.{request.paper}")
    head = [f"# {module.TITLE}", _made_by(request, options), module.ABOUT]
    write_whole(folder / REPORT, "\n\n".join((*head, *sections)) + "\n")
    undrawn = None
    if not able:
        undrawn = (
            "no picture was drawn: matplotlib is not installed; run: pip install 'admmnet[plot]', and "
            "make the same "
            f"call again: what is in {RESULTS} is not repeated"
        )
    return Reproduced(folder, folder / REPORT, tuple(pictures), tuple(verdicts), measured, undrawn)


def _made_by(request: Request, options: Options) -> str:
    flag = " --quick" if options.scale == "quick" else ""
    seeds = "" if options.seeds is None else f" --seeds {options.seeds}"
    text = f"Made by `admmnet reproduce {request.paper}{flag}{seeds}`, admmnet {__version__}."
    if options.scale != "full":
        text += (
            f" **This is the {options.scale} scale: few seeds, few points. It shows that it runs, not who is "
            "right.**"
        )
    text += (
        " Every figure below is computed from the CSV files beside this text. All runs are seeded simulations. "
        f"± is one standard deviation over seeds. {WORDS}"
    )
    return text
