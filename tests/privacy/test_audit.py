"""What verification finds, what it cannot find, and that it ends in ``CheckFailed`` and nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from admmnet.errors import CheckFailed
from admmnet.privacy import audit
from admmnet.privacy.budget import Budget, Totals
from admmnet.privacy.calibrate import AgentFacts, Noise, Setting, calibrate
from admmnet.privacy.events import Event, Gaussian, Laplace, ObjectivePerturbation, Unprotected
from admmnet.privacy.ledger import Header, Ledger, digest, encode, event_line, total_line

FACTS = AgentFacts(7000, 2, 1.0, 1e-4)
PP = Setting(5, 3, 0.5, 10.0**-3.5, 1.0, 0.25, "published")
IPP = replace(PP, accountant="proven", gated=True, max_releases=2, gate_share=0.1, loss_clip=2.0)
HEADER = Header(
    0, (1, 4), 7000, 1.0, 1e-4, "published", "published", "pp-admm", "seeded", "public-bounds", "0.1.0"
)
MASKS = (0x01, 0x02, 0x04, 0x08, 0x10, 0x20, 0x40, 0x80)

Lines = list[dict[str, Any]]


def noise_of(setting: Setting) -> Noise:
    return calibrate([FACTS], setting).noise[0]


def write(path: Path, setting: Setting = PP, rounds: int = 1, *, finished: bool = True) -> bytes:
    """Ledger of an honest run."""
    noise = noise_of(setting)
    header = replace(
        HEADER, accountant=setting.accountant, algorithm="ipp-admm" if setting.gated else "pp-admm"
    )
    path.unlink(missing_ok=True)
    ledger = Ledger(path, header, noise.budget, durable=False)
    for round_ in range(rounds):
        if noise.gate is None:
            ledger.charge(round_, noise.objective, noise.release)
        else:
            ledger.charge(round_, noise.objective, noise.gate.later if round_ else noise.gate.first)
            if round_ != 1:
                ledger.charge(round_, noise.release)
    if finished:
        ledger.finish()
    else:
        ledger.commit()
        ledger._file.close()
    return path.read_bytes()


def fault(path: Path, data: bytes) -> str:
    path.write_bytes(data)
    with pytest.raises(CheckFailed) as caught:
        audit.read(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert "\n" not in message
    assert len(message) < len(str(path)) + 600
    return message


def fails(path: Path, data: bytes) -> bool:
    """Whether verification refuses; any other exception passes through."""
    path.write_bytes(data)
    try:
        audit.read(path)
    except CheckFailed:
        return True
    return False


def chained(lines: Lines) -> bytes:
    """Hash every line again, as an attacker would who may write the whole file."""
    out: list[bytes] = []
    for line in lines:
        out.append(encode({**line, "previous": digest(out[-1])} if out else line))
    return b"\n".join([*out, b""])


def parsed(data: bytes) -> Lines:
    return [json.loads(line) for line in data.splitlines()]


def forged(header: Header, events: list[tuple[int, Event]]) -> bytes:
    """Write a ledger with every cost, total and hash right, whatever the budget says."""
    totals, lines = Totals(header.method), [header.line()]
    for round_, event in events:
        totals.add(event)
        lines.append(event_line(round_, event, totals, header.delta, ""))
    lines.append(
        {"kind": "end", "events": len(events), "total": total_line(totals, header.delta), "previous": ""}
    )
    return chained(lines)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "agent-000.jsonl"


@pytest.mark.parametrize("setting", [PP, IPP], ids=["pp-admm", "ipp-admm"])
@pytest.mark.parametrize("finished", [True, False])
@pytest.mark.parametrize("rounds", [0, 1, 3])
def test_honest_ledgers_hold(path: Path, setting: Setting, rounds: int, finished: bool) -> None:
    data = write(path, setting, rounds, finished=finished)
    account, noise = audit.read(path), noise_of(setting)
    assert account.finished is finished
    assert account.delta == 1e-4
    assert account.header == parsed(data)[0]
    events: list[tuple[int, Event]] = []
    for r in range(rounds):
        events.append((r, noise.objective))
        if noise.gate is not None:
            events.append((r, noise.gate.later if r else noise.gate.first))
        if noise.gate is None or r != 1:
            events.append((r, noise.release))
    assert [(round_, event) for round_, event, _ in account.events] == events
    assert [line for _, _, line in account.events] == parsed(data)[1 : 1 + len(events)]
    total = total_line(account.totals, 1e-4)
    assert parsed(data)[-1].get("total", total) == total


def test_honest_ledgers_without_privacy_hold(path: Path) -> None:
    header = replace(HEADER, epsilon=None, delta=None, algorithm="admm")
    path.write_bytes(forged(header, [(0, Unprotected()), (1, Unprotected())]))
    account = audit.read(path)
    assert account.delta is None
    assert account.totals.rho == float("inf")


def test_every_flipped_bit_of_a_finished_ledger_is_found(path: Path) -> None:
    data = write(path)
    for position in range(len(data)):
        for mask in MASKS:
            flipped = bytearray(data)
            flipped[position] ^= mask
            assert fails(path, bytes(flipped)), (position, mask, data[max(0, position - 20) : position + 20])
    assert not fails(path, data)


def numbers(line: dict[str, Any]) -> Iterator[tuple[str, float | None]]:
    for key, value in line.items():
        if isinstance(value, dict):
            yield from numbers(value)
        elif value is None or isinstance(value, int | float):
            yield key, value


def test_flips_in_the_last_line_of_an_unfinished_ledger(path: Path) -> None:
    """Nothing behind the last line holds it to the bit: its costs hold to 1e-9, its round only to its order.

    The digest in summary.json would hold it, but an unfinished run has none.
    """
    data = write(path, finished=False)
    last = data[:-1].rindex(b"\n") + 1
    honest, unseen = parsed(data)[-1], 0
    for position in range(len(data)):
        for mask in MASKS:
            flipped = bytearray(data)
            flipped[position] ^= mask
            if fails(path, bytes(flipped)):
                continue
            assert position >= last, "the lines before are held by the chain"
            unseen += 1
            line = parsed(bytes(flipped))[-1]
            assert {key: line[key] for key in ("kind", "mechanism", "previous")} == {
                key: honest[key] for key in ("kind", "mechanism", "previous")
            }
            for (key, mine), (theirs_key, theirs) in zip(numbers(line), numbers(honest), strict=True):
                assert key == theirs_key
                assert key == "round" or mine == pytest.approx(theirs, rel=2.1e-9, abs=0.0)
    assert 0 < unseen < 0.1 * len(MASKS) * (len(data) - last)


def test_flips_in_a_header_that_nothing_follows(path: Path) -> None:
    """A header alone is only checked for sense: its numbers and names may be any others."""
    data = write(path, rounds=0, finished=False)
    honest = parsed(data)[0]
    free = {"agent", "neighbours", "records", "budget", "method", "algorithm", "preprocessing", "admmnet"}
    for position in range(len(data)):
        for mask in MASKS:
            flipped = bytearray(data)
            flipped[position] ^= mask
            if not fails(path, bytes(flipped)):
                line = parsed(bytes(flipped))[0]
                assert {key for key in honest if line[key] != honest[key]} <= free


def test_every_removed_doubled_and_swapped_line_is_found(path: Path) -> None:
    lines = write(path, IPP, 3).splitlines(keepends=True)
    assert len(lines) == 10
    for i in range(len(lines)):
        removed = lines[:i] + lines[i + 1 :]
        # without its end line a ledger is unfinished, not wrong: summary.json knows that it was finished
        assert fails(path, b"".join(removed)) is (i != len(lines) - 1)
        assert fails(path, b"".join(lines[: i + 1] + lines[i:]))
        for blank in (b"\n", b" \n", b"\r\n", b"{}\n", b"null\n", b"\x00\n"):
            assert fails(path, b"".join([*lines[:i], blank, *lines[i:]]))
        for j in range(i):
            swapped = lines[:]
            swapped[i], swapped[j] = swapped[j], swapped[i]
            assert fails(path, b"".join(swapped))
    for extra in (b"\n", b"{}\n", lines[-1], lines[0], lines[1], b"x", b"\xef\xbb\xbf\n"):
        assert fails(path, b"".join([*lines, extra]))


def test_a_cut_tail_is_found_unless_whole_lines_are_gone(path: Path) -> None:
    data = write(path)
    for size in range(len(data)):
        assert fails(path, data[:size]) is not (size > 0 and data[size - 1 : size] == b"\n"), size
    path.write_bytes(data[: data[:-1].rindex(b"\n") + 1])
    assert not audit.read(path).finished


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data.replace(b",", b", ", 1),
        lambda data: data.replace(b":", b": ", 1),
        lambda data: data.replace(b"\n", b"\r\n"),
        lambda data: data.replace(b"\n", b" \n", 1),
        lambda data: b"\xef\xbb\xbf" + data,
        lambda data: data[:-1].decode().encode("utf-16") + b"\n",
        lambda data: data.replace(b'"header"', b'"\\u0068eader"', 1),
        lambda data: data.replace(b'"schema":1', b'"schema":1.0', 1),
        lambda data: data.replace(b'"schema":1', b'"schema":true', 1),
        lambda data: data.replace(b'"schema":1', b'"schema":2', 1),
        lambda data: data.replace(b'"epsilon":1.0', b'"epsilon":1e0', 1),
        lambda data: data.replace(b'"epsilon":1.0', b'"epsilon":1.00', 1),
        lambda data: data.replace(b'"agent":0', b'"agent":0,"agent":0', 1),
        lambda data: data.replace(b'"agent":0', b'"agent":-0', 1),
    ],
)
def test_other_forms_of_the_same_content_are_refused(path: Path, change: Callable[[bytes], bytes]) -> None:
    data = change(write(path, rounds=0, finished=False))  # a header alone: no hash helps
    assert "line 1: " in fault(path, data)


Change = Callable[[Lines], Any]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda lines: lines[1].update(rho=0.5 * lines[1]["rho"]), "line 2: rho is "),
        (lambda lines: lines[1].update(rho=lines[1]["rho"] * (1 + 1e-8)), "line 2: rho is "),
        (lambda lines: lines[1].update(rho=None), "line 2: rho is None"),
        (lambda lines: lines[1].update(xi=0), "line 2: xi is 0"),
        (lambda lines: lines[1].update(xi=False), "line 2: xi is False"),
        (lambda lines: lines[1].update(rho_published=0.0), "line 2: rho_published is 0.0"),
        (lambda lines: lines[2]["total"].update(rho=0.0), "line 3: total.rho is 0.0"),
        (lambda lines: lines[2]["total"].update(epsilon_spent=0.1), "line 3: total.epsilon_spent is 0.1"),
        (lambda lines: lines[2]["total"].update(more=1.0), "line 3: total. has the keys"),
        (lambda lines: lines[2]["total"].pop("xi"), "line 3: total. has the keys"),
        (lambda lines: lines[1].update(more=1), "line 2: line has the keys"),
        (lambda lines: lines[1].update(round=lines[1].pop("round")), "line 2: line has the keys"),
        (lambda lines: lines[1]["parameters"].update(sigma=1.0), "line 2: rho is "),
        (
            lambda lines: lines[1]["parameters"].update(sigma=0),
            "sigma must be a positive finite number, got 0",
        ),
        (
            lambda lines: lines[1]["parameters"].update(sigma=-1.0),
            "sigma must be a positive finite number, got -1.0",
        ),
        (
            lambda lines: lines[1]["parameters"].update(lipschitz=1),
            "line 2: parameters are not in the canonical",
        ),
        (
            lambda lines: lines[1]["parameters"].update(gated=False),
            "line 2: parameters are not in the canonical",
        ),
        (
            lambda lines: lines[1]["parameters"].update(sigma=lines[1]["parameters"].pop("sigma")),
            "line 2: parameters are not in the canonical",
        ),
        (
            lambda lines: lines[1]["parameters"].update(records=7001),
            "line 2: records is 7001, the header's is 7000",
        ),
        (lambda lines: lines[1]["parameters"].update(sensitivity=1.0 / 7000), "under replace-one"),
        (lambda lines: lines[1]["parameters"].update(logistic=True, curvature=0.2), "for a logistic loss"),
        (lambda lines: lines[1]["parameters"].pop("sigma"), "missing: sigma"),
        (lambda lines: lines[1].update(mechanism="laplace"), "line 2: laplace has the parameters"),
        (lambda lines: lines[1].update(mechanism="magic"), "line 2: unknown mechanism 'magic'"),
        (lambda lines: lines[1].update(mechanism=["gaussian"]), "line 2: is neither an event nor the end"),
        (lambda lines: lines[1].update(round=True), "line 2: is neither an event nor the end"),
        (lambda lines: lines[1].update(round=0.0), "line 2: is neither an event nor the end"),
        (lambda lines: lines[1].update(round=-1), "line 2: is neither an event nor the end"),
        (lambda lines: lines[1].update(round=7), "line 3: round 0 stands behind round 7"),
        (lambda lines: lines[1].update(kind="header"), "line 2: is neither an event nor the end"),
        (lambda lines: lines[1].update(kind="end"), "line 2: is not the end of the 0 events"),
        (lambda lines: lines[3].update(events=1), "line 4: is not the end of the 2 events"),
        (lambda lines: lines[3].update(events=2.0), "line 4: is not the end of the 2 events"),
        (
            lambda lines: lines[3]["total"].update(rho=lines[3]["total"]["rho"] * (1 + 3e-16)),
            "line 4: is not the end",
        ),
        (lambda lines: lines.insert(2, dict(lines[3])), "line 3: is not the end of the 1 events"),
        (lambda lines: lines.append(dict(lines[3])), "line 5: stands behind the end line"),
        (lambda lines: lines.append(dict(lines[1])), "line 5: stands behind the end line"),
        (lambda lines: lines.insert(1, dict(lines[1])), "line 3: total.rho is "),
        (lambda lines: lines.pop(1), "line 2: total.rho is "),
        (lambda lines: lines[0].update(budget={"epsilon": 0.1, "delta": 1e-4}), "above the budget's"),
        (lambda lines: lines[0].update(budget={"epsilon": True, "delta": 1e-4}), "line 1: budget = "),
        (lambda lines: lines[0].update(budget={"epsilon": None, "delta": 1e-4}), "line 1: budget = "),
        (lambda lines: lines[0].update(budget={"epsilon": 1.0, "delta": None}), "line 1: budget = "),
        (lambda lines: lines[0].update(budget={"epsilon": 1.0, "delta": 1}), "line 1: budget = "),
        (lambda lines: lines[0].update(budget={"epsilon": 10**400, "delta": 0.1}), "line 1: budget = "),
        (
            lambda lines: lines[0].update(budget={"delta": 1e-4, "epsilon": 1.0}),
            "line 1: is not a replace-one header",
        ),
        (lambda lines: lines[0].update(budget=[1.0, 1e-4]), "line 1: budget = "),
        (lambda lines: lines[0].update(adjacency="zero-out"), "line 1: is not a replace-one header"),
        (lambda lines: lines[0].update(unit="person"), "line 1: is not a replace-one header"),
        (lambda lines: lines[0].update(schema=2), "line 1: schema 2 is not one this version reads"),
        (lambda lines: lines[0].update(records=0), "line 1: records = 0 is out of range"),
        (lambda lines: lines[0].update(records=8000), "line 2: records is 7000, the header's is 8000"),
        (lambda lines: lines[0].update(agent=-1), "line 1: agent = -1 is out of range"),
        (lambda lines: lines[0].update(agent="0"), "line 1: agent = '0' is out of range"),
        (lambda lines: lines[0].update(neighbours="14"), "line 1: neighbours = '14' is out of range"),
        (lambda lines: lines[0].update(accountant="mine"), "line 1: accountant = 'mine' is out of range"),
        (lambda lines: lines[0].update(noise="none"), "line 1: noise = 'none' is out of range"),
        (lambda lines: lines[0].update(admmnet=1), "line 1: admmnet = 1 is out of range"),
        (lambda lines: lines[0].update(more=1), "line 1: is not a replace-one header"),
        (lambda lines: lines[0].pop("shards"), "line 1: is not a replace-one header"),
        (lambda lines: lines[0].update(kind="event"), "line 1: is not a header"),
    ],
)
def test_what_does_not_fit_is_found_though_all_hashes_are_right(
    path: Path, change: Change, words: str
) -> None:
    lines = parsed(write(path))
    assert chained(lines) == path.read_bytes()
    change(lines)
    assert words in fault(path, chained(lines))


def test_what_an_attacker_can_write_who_recomputes_everything(path: Path) -> None:
    """A ledger holds itself together; it cannot prove that it is the one that was written.

    Who may rewrite the whole file can claim other noise, other rounds, a larger budget, as long as every cost
    follows from its parameters and the sum stays within the header's budget. Only the digest in summary.json,
    kept or published elsewhere, shows that.
    """
    honest = write(path)
    noise = noise_of(PP)
    less = replace(noise.objective, sigma=2.0 * noise.objective.sigma)
    lies: list[list[tuple[int, Event]]] = [[(0, less), (0, noise.release)], [(0, noise.release)], []]
    for events in lies:
        lie = forged(HEADER, events)
        assert lie != honest
        assert not fails(path, lie)
    more: list[tuple[int, Event]] = [(r, noise.objective) for r in range(8)]
    assert "the published rho comes to" in fault(path, forged(HEADER, more))
    assert not fails(path, forged(replace(HEADER, epsilon=3.0), more))


@pytest.mark.parametrize("accountant", ["proven", "published"])
def test_a_ledger_beyond_its_budget_is_found(path: Path, accountant: str) -> None:
    header = replace(HEADER, accountant=accountant)
    event: Event = Laplace(1e-6, 1.0, gate_epsilon=0.2) if accountant == "published" else Gaussian(0.2, 1.0)
    budget, totals, count = Budget.for_plan(1.0, 1e-4, accountant, Totals()), Totals(), 0
    while count < 2 or not fails(path, forged(header, [(0, event)] * count)):
        count += 1
        assert count < 100
    assert "above the budget's" in fault(path, forged(header, [(0, event)] * count))
    for _ in range(count - 1):
        totals.add(event)
    assert not budget.affords(totals, (event,)), "the filter would not have let it through"
    assert "above the budget's" in fault(path, forged(header, [(0, Unprotected())]))


NASTY = [
    *("NaN", "Infinity", "-Infinity", "1e999", "-1e999", "1e308", "-0.0", "1E5", "01", "1.", "+1"),
    *(
        "null",
        "true",
        "false",
        '"x"',
        '""',
        "[]",
        "{}",
        '"\\ud800"',
        '"\\u0000\\u001b[2J"',
        "-1",
        "-5e-324",
        "5e-324",
    ),
    *(
        "9" * 400,
        "9" * 5000,
        "-" + "9" * 400,
        "[" * 500 + "]" * 500,
        "[" * 100_000 + "]" * 100_000,
        "[" * 100_000,
    ),
    *('{"a":' * 900 + "1" + "}" * 900, '"' + "x" * 100_000 + '"', "1" + "0" * 308, "1e-400", "2e308"),
]


def places(line: dict[str, Any], prefix: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for key, value in line.items():
        yield (*prefix, key)
        if isinstance(value, dict):
            yield from places(value, (*prefix, key))


def with_literal(line: dict[str, Any], place: tuple[str, ...], literal: str) -> bytes:
    copy = json.loads(json.dumps(line))
    inner = copy
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = "@literal@"
    return encode(copy).replace(b'"@literal@"', literal.encode())


@pytest.mark.parametrize("index", range(5))
def test_nothing_in_a_line_escapes_as_another_exception(path: Path, index: int) -> None:
    noise = noise_of(IPP)
    assert noise.gate is not None
    events: list[tuple[int, Event]] = [(1, noise.objective), (1, noise.gate.first), (1, noise.release)]
    header = replace(HEADER, accountant="proven", algorithm="ipp-admm")
    lines = parsed(forged(header, events))
    assert not fails(path, forged(header, events))
    passed = set()
    for place in places(lines[index]):
        for literal in NASTY:
            out: list[bytes] = []
            for number, line in enumerate(lines[: index + 1]):
                line = {**line, "previous": digest(out[-1])} if out else line
                out.append(with_literal(line, place, literal) if number == index else encode(line))
            if not fails(path, b"\n".join([*out, b""])):
                passed.add((place, literal))
    # texts and the numbers of an agent, of records, of a budget can be any; no event and no end line passes
    if index:
        assert passed <= {(("parameters", "gated"), "true")}, "which is what stood there"
    else:
        assert {place[0] for place, _ in passed} <= {
            *("agent", "neighbours", "budget", "order", "method", "algorithm", "preprocessing", "admmnet")
        }


@pytest.mark.parametrize("tiny", [1e-300, 5e-324, 1e-160])
def test_costs_beyond_all_numbers_are_found(path: Path, tiny: float) -> None:
    line = event_line(0, Gaussian(1.0, 1.0), Totals(), 1e-4, "")
    for mechanism, parameters in (
        ("gaussian", {"sensitivity": 1.0, "sigma": tiny}),
        ("gaussian", {"sensitivity": 1e300, "sigma": tiny}),
        (
            "gaussian",
            {"sensitivity": 1.0, "sigma": 1.0, "objective_sensitivity": 1e300, "objective_sigma": tiny},
        ),
        ("laplace", {"sensitivity": 1e300, "scale": tiny, "gate_epsilon": 1e300}),
        ("above-threshold", {"sensitivity": 1.0, "epsilon_threshold": 1.5e308, "epsilon_query": 1.5e308}),
        *(
            (
                "objective-perturbation",
                {
                    "sensitivity": 2.0 * lipschitz / 7000,
                    "sigma": sigma,
                    "lipschitz": lipschitz,
                    "curvature": curvature,
                    "convexity": convexity,
                    "records": 7000,
                },
            )
            for sigma in (1.0, tiny)
            for lipschitz in (1.0, 1e300)
            for curvature in (0.25, 1e300)
            for convexity in (1.0, tiny)
            if (sigma, lipschitz, curvature, convexity) != (1.0, 1.0, 0.25, 1.0)
        ),
    ):
        for accountant in ("proven", "published"):
            header = replace(HEADER, accountant=accountant).line()
            null = {"rho": None, "xi": 0.0, "epsilon_spent": None, "epsilon_published": None}
            for total in (line["total"], null):
                event = {
                    **line,
                    "mechanism": mechanism,
                    "parameters": parameters,
                    "rho": None,
                    "total": total,
                }
                assert fails(path, chained([header, event])), (mechanism, parameters)
                assert fails(path, chained([header, {**event, "rho_published": None}])), (
                    mechanism,
                    parameters,
                )


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "is empty; a ledger starts with its header"),
        (b"\n", "line 1: is not JSON"),
        (b"{}\n", "line 1: is not a header"),
        (b"[]\n", "line 1: is not in the canonical form"),
        (b"\xff\xfe\n", "line 1: is not JSON"),
        (b"\x00" * 1000, "line 1: is cut off"),
        (b"{" * 100_000 + b"\n", "line 1: is not JSON"),
    ],
)
def test_files_that_are_no_ledgers(path: Path, data: bytes, words: str) -> None:
    assert words in fault(path, data)


def test_what_cannot_be_read_is_a_failed_check(tmp_path: Path) -> None:
    with pytest.raises(CheckFailed, match="cannot be read: No such file"):
        audit.read(tmp_path / "agent-000.jsonl")
    with pytest.raises(CheckFailed, match="cannot be read: Is a directory"):
        audit.read(tmp_path)


def test_recomputation_on_another_machine_may_differ_in_the_last_bits(path: Path) -> None:
    lines = parsed(write(path))
    for line in lines[1:3]:
        line["rho"] *= 1.0 + 1e-12
        line["total"]["rho"] *= 1.0 - 1e-12
    lines[3]["total"] = lines[2]["total"]
    path.write_bytes(chained(lines))
    assert audit.read(path).finished


def test_an_objective_event_of_another_size_is_not_this_agents(path: Path) -> None:
    event = ObjectivePerturbation(2.0 / 50, 1.0, 1.0, 0.25, 1.0, 50)
    assert "records is 50, the header's is 7000" in fault(path, forged(HEADER, [(0, event)]))
