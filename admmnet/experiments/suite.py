"""The benchmark: fixed data, networks, budgets and seeds for all methods, and for those of other packages beside them.

One JSON file keeps what was measured; a comparison (`admmnet.experiments.driver`) makes what it lacks.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from admmnet.data.sets import find
from admmnet.data.settings import DataSettings
from admmnet.data.sources import validate
from admmnet.errors import MissingDataError, RequestError
from admmnet.experiments.driver import compare
from admmnet.experiments.figures import CompareResult, Failed, Line
from admmnet.experiments.folder import locked, read_about, write_whole
from admmnet.experiments.grid import Comparison
from admmnet.experiments.parsing import parse_entries
from admmnet.experiments.progress import Watch
from admmnet.experiments.suite_page import page_of
from admmnet.version import __version__

FILE, PAGE = "benchmark.json", "benchmark.md"

LOCAL = ("admm", "pp-admm", "ipp-admm", "noisy-gd", "dp-dsgd", "ssp", "dvp", "m-admm", "r-admm")
PAPERS = ("pp-admm:published:proven", "ipp-admm:published:proven")
SINGLE = ("dp-scd", "dp-sgd")
"""Private methods of one place, which holds all records."""


@dataclass(frozen=True)
class Place:
    """Records on a network, and the methods that learn from such labels."""

    name: str
    data: str
    topology: str
    methods: tuple[str, ...]
    epsilons: tuple[float, ...] | None = None  # those of the suite, or fewer where runs are long


@dataclass(frozen=True)
class Suite:
    """What is measured. Whoever changes it measures all of it anew: no row of another suite is taken over."""

    places: tuple[Place, ...]
    epsilons: tuple[float, ...]
    seeds: tuple[int, ...]
    delta: float = 1e-5


FIVE = "erdos-renyi:5:0.5"
BINARY = (*LOCAL, *PAPERS, *SINGLE)
MANY = ("admm", "pp-admm", "noisy-gd", "dp-dsgd", "ssp", "dvp", "m-admm", "r-admm")
"""Methods for more agents: those of one place do not see how many there are, ipp-admm is pp-admm by default."""
CENSUS = Place("census, 5 agents", "census", FIVE, BINARY)
FULL = Suite(
    places=(
        CENSUS,
        Place("adult, 5 agents", "adult", FIVE, BINARY),
        Place("adult, 20 agents", "adult", "regular:20:3", MANY),
        Place("phishing, 5 agents", "phishing", FIVE, BINARY),
        Place("adult:age, 5 agents", "adult:age", FIVE, ("noisy-gd", "ssp", *SINGLE)),
        Place("mnist, 5 agents", "mnist", FIVE, ("noisy-gd", "ssp"), (1.0,)),
    ),
    epsilons=(0.1, 1.0, 10.0),
    seeds=tuple(range(5)),
)
QUICK = Suite(places=(CENSUS,), epsilons=(1.0,), seeds=(0, 1))
"""Two minutes for one who tries a method of their own."""


@dataclass(frozen=True)
class SuiteResult:
    """What a call leaves: the content of ``benchmark.json``, what failed, and what was left out, with the reason."""

    folder: Path
    content: dict[str, Any]
    failed: tuple[Failed, ...]
    left_out: tuple[str, ...]


def run_suite(
    out: str,
    *,
    more: Sequence[str] = (),
    suite: Suite = FULL,
    data_dir: str | None = None,
    jobs: int | None = None,
    watch: Watch | None = None,
) -> SuiteResult:
    """Measure what DIR/benchmark.json lacks of a suite and of ``more`` methods; write the file and its page.

    A place whose records are not there is left out, and so is a method of ``more`` that a place has no use for.

    Raises
    ------
    RequestError
        If the folder was made by another suite or version, a method is unknown, or no place can have one of ``more``.
    """
    texts = [entry.text for entry in parse_entries(more)] if more else []
    folder, file = Path(out), Path(out) / FILE
    about = {"admmnet": __version__, "suite": json.loads(json.dumps(asdict(suite)))}

    def agree(content: dict[str, Any]) -> None:
        for key, now in about.items():
            if content[key] != now:
                raise RequestError(
                    f"{file} was made by another {key if key == 'suite' else f'version, {content[key]}'}: name another "
                    "folder with -o"
                )

    with locked(folder):
        content = read_about(file, agree) or {**about, "places": {}, "rows": []}
        call = _Call(suite, folder, content, texts, data_dir)
        for place in suite.places:
            call.measure(place, jobs, watch)
        call.check()
    return SuiteResult(folder, content, tuple(call.failed), tuple(call.left_out))


class _Call:
    """One call of ``run_suite``: what it has found so far."""

    def __init__(
        self, suite: Suite, folder: Path, content: dict[str, Any], more: Sequence[str], data_dir: str | None
    ) -> None:
        self.suite, self.folder, self.content, self.more, self.data_dir = (suite, folder, content, more, data_dir)
        self.failed: list[Failed] = []
        self.left_out: list[str] = []
        self.refused: dict[str, RequestError] = {}

    def measure(self, place: Place, jobs: int | None, watch: Watch | None) -> None:
        """Measure what is missing at a place."""
        # methods of other packages each by themselves: one that cannot learn these labels stops no other
        groups = (place.methods, *((text,) for text in self.more if text not in place.methods))
        missing = [methods for methods in groups if not self._complete(place, methods)]
        try:
            if missing:
                validate(DataSettings(data=place.data, data_dir=self.data_dir))
                if (known := find(place.data)) is not None:
                    known.located(self.data_dir)
        except MissingDataError as error:
            self.left_out.append(f"{place.name}: {error}")
            return
        for methods in missing:
            self._write()  # before any other file: the folder is known by it
            try:
                result = compare(self._comparison(place, methods), jobs=jobs, watch=watch)
            except RequestError as error:
                if methods == place.methods:
                    raise
                self.refused[methods[0]] = error
                self.left_out.append(f"{methods[0]} on {place.name}: {error}")
                continue
            self.failed += [replace(one, words=f"{place.name}: {one.words}") for one in result.failed]
            self._add(place, result)
            self._write()

    def check(self) -> None:
        """Refuse a call that measured nothing of what it was given."""
        measured = {row["method"] for row in self.content["rows"]}
        for text, error in self.refused.items():
            if text not in measured:
                raise error
        if not measured and not self.failed:
            raise MissingDataError("; ".join(self.left_out))

    def _comparison(self, place: Place, methods: tuple[str, ...]) -> Comparison:
        words = place.name.replace(", ", "-").replace(" ", "-").replace(":", "-")
        if methods != place.methods:
            words += "+" + methods[0].replace(":", "-")
        settings: dict[str, Any] = {"data": place.data, "delta": self.suite.delta, "measure_every": 1000}
        if self.data_dir is not None:
            settings["data_dir"] = self.data_dir
        return Comparison(
            algorithms=methods,
            epsilons=self._epsilons(place),
            seeds=self.suite.seeds,
            out=str(self.folder / words),
            settings={**settings, "topology": place.topology, "topology_seed": 0},
        )

    def _epsilons(self, place: Place) -> tuple[float, ...]:
        return self.suite.epsilons if place.epsilons is None else place.epsilons

    def _complete(self, place: Place, methods: tuple[str, ...]) -> bool:
        """Whether all runs of some methods at a place are among the rows."""
        found = Counter(
            row["method"]
            for row in self.content["rows"]
            if row["place"] == place.name and len(row["errors"]) == len(self.suite.seeds)
        )
        return all(
            found[entry.text] == (len(self._epsilons(place)) if entry.private else 1)
            for entry in parse_entries(methods)
        )

    def _add(self, place: Place, result: CompareResult) -> None:
        """Take the lines of a comparison in, in place of older ones of the same methods."""
        (survey,) = result.surveys
        known = self.content["places"].setdefault(place.name, asdict(survey))
        if known["digest"] != survey.digest:
            raise RequestError(
                f"the records of {place.data} are not those that {self.folder / FILE} was made with: name another "
                "folder with -o"
            )
        new = [_row(place, line) for line in result.lines]
        again = {(row["place"], row["method"]) for row in new}
        old = [row for row in self.content["rows"] if (row["place"], row["method"]) not in again]
        order = [each.name for each in self.suite.places]
        self.content["rows"] = sorted([*old, *new], key=lambda row: order.index(row["place"]))

    def _write(self) -> None:
        write_whole(self.folder / FILE, written(self.content))
        write_whole(self.folder / PAGE, page_of(self.content))


def _row(place: Place, line: Line) -> dict[str, Any]:
    return {
        "place": place.name,
        "method": line.entry.text,
        "epsilon": line.epsilon,
        "epsilon_proven": line.epsilon_proven,
        "adjacency": line.adjacency,
        "error": line.error,
        "spread": line.spread,
        "errors": list(line.errors),
        "messages": line.releases,
        "bytes": line.bytes_sent,
        "seconds": round(line.seconds, 2),
    }


def written(content: dict[str, Any]) -> str:
    """Text of ``benchmark.json``: a row a line."""
    head = json.dumps({key: value for key, value in content.items() if key != "rows"}, indent=1)
    rows = ",\n".join("  " + json.dumps(row) for row in content["rows"])
    return f'{head[:-2]},\n "rows": [\n{rows}\n ]\n}}\n'
