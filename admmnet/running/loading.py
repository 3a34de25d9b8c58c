"""What a run reads before it plans: its graph, its records, the holders that keep them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace

from msgspec.structs import asdict

from admmnet.config.modes import check_loaded
from admmnet.data import DataSettings, Records, load
from admmnet.data.check import swallowed
from admmnet.data.loading import SPARSE
from admmnet.data.records import LEFT_OUT, in_words
from admmnet.data.settings import GIVEN, OwnFile, form_of
from admmnet.data.sources import declared
from admmnet.errors import RequestError, UnfitRecords
from admmnet.holder.holder import Holder, SimulatedHolder
from admmnet.methods.settings import MethodSettings
from admmnet.methods.tasks import require_task
from admmnet.running.sharing import shared
from admmnet.transport import World
from admmnet.transport.settings import NetworkSettings

Loader = Callable[[DataSettings, int, Sequence[int]], Records]
"""What ``admmnet.data.load`` is: settings, number of agents, and those wanted, to their records."""
Holders = Mapping[int, tuple[Holder, int]]
"""Of every agent of this process the holder of its records, and its place there."""


_OPEN = (
    "the encoding (columns, categories, bounds or labels) would be discovered from the private records and shown by "
    "the model. Declare it in [data.schema], measure it with --encode private, or accept it with --data-dependent"
)


def block_of(network: NetworkSettings) -> int:
    """Agents whose local problems are solved together."""
    return 1 if network.block == "auto" else network.block


def load_whole(settings: DataSettings, agents: int, mine: Sequence[int]) -> Records:
    """As ``admmnet.data.load`` for one holder; the rows of a libsvm file with few entries stay sparse (CSR)."""
    wide = not settings.named and form_of(settings.data) in (".libsvm", ".svm") and settings.project is None
    return load(settings, 1, [0], sparse=SPARSE if wide else 0.0)


def read_by(data: DataSettings, world: World, *, simulation: bool) -> DataSettings:
    """Settings by which this process reads records: over hosts the file of a private run is the agent's own."""
    return data if simulation or world.shared_folder or data.named or data.data in GIVEN else OwnFile(**asdict(data))


def read_records(
    data: DataSettings,
    method: MethodSettings,
    loader: Loader | None,
    world: World,
    owners: Sequence[Sequence[int]],
    opened: ExitStack,
    *,
    simulation: bool,
    by_name: bool,
) -> Records:
    """Records of this process's agents; an encoding that is made from them may show where ``data`` says so.

    ``opened`` is closed once all have them. ``by_name`` says that it is a simulation because of the data's name.
    RequestError if they do not go with the
    settings.
    """
    count = sum(map(len, owners))
    private = not data.data_dependent and not data.named and data.encode == "declared"
    if private and data.schema and any(rule.open for rule in declared(data).rules):  # before anything is read
        raise RequestError(f"{data.data}: {_OPEN}")
    if loader is None and not method.baseline and simulation and not data.per_agent:
        records = shared(data, count, world, owners, opened)
    else:
        records = (loader or (load_whole if method.baseline else load))(data, count, owners[world.rank])
    if not isinstance(records, Records):
        raise RequestError(f"the loader returned a {type(records).__name__}: it must return admmnet.data.Records")
    if by_name:
        check_loaded(data.data, records.name)
    if simulation and not data.named and records.raw is None and (said := swallowed(records)) is not None:
        records = replace(records, notes=(*records.notes, said))
    if records.left_out and not data.data_dependent:
        raise RequestError(f"{records.name}: {LEFT_OUT}")
    if records.preprocessing != "public-bounds" and not data.data_dependent:
        raise RequestError(f"{records.name}: {_OPEN}")
    method.chosen_method.require_covered(accepted=data.data_dependent)
    require_task(method, records.task, in_words(records.task, records.labels), records.name)
    return records


def held(
    blocks: Sequence[Sequence[int]],
    records: Records,
    method: MethodSettings,
    *,
    given: bool,
    simulation: bool,
    dependent: bool,
) -> Holders:
    """Put the records of this process's agents behind holders, those of a block into one.

    What is ``given`` by a loader stays with it, for its next run; of private records the holder has a copy.
    RequestError if records are not what the theorems cover; it names the agent.
    """
    kind = SimulatedHolder if simulation else Holder
    shards = dict(records.shards) if given else records.shards
    found: dict[int, tuple[Holder, int]] = {}
    for block in blocks:
        try:
            holder = kind.of(
                [shards.pop(i) for i in block],
                task=records.task,
                classes=records.classes if records.task == "classes" else 2,
                bounded=records.task == "real",
                unit=method.chosen_method.unit_rows(method),
                dependent=dependent,
                copy=given and not simulation,
            )
        except RequestError as error:
            who = f"agent {block[0]}" if len(block) == 1 else f"agents {block[0]} to {block[-1]}"
            raise UnfitRecords(who, str(error)) from None
        found |= {i: (holder, place) for place, i in enumerate(block)}
    return found
