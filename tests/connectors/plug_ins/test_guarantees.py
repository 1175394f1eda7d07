"""Connectors keep the promises of their registrations, and the page has them all. To write the page:
python -m tests.connectors.plug_ins.test_guarantees"""

from __future__ import annotations

import re
from dataclasses import astuple, fields
from pathlib import Path

import pytest

from rheos.connectors.guarantees import Guarantees, guarantees_of, is_able, made_classes
from rheos.connectors.registration import CONNECTORS, ConnectorRegistration, SinkGuarantee
from rheos.core.connectors.contract import Sink
from rheos.core.connectors.sink_capabilities import CollectsRows, PreparesTarget, WritesChanges

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parents[1] / "docs" / "guarantees.md"
TABLE = re.compile(
    r"(?<=<!-- guarantees: made by tests/connectors/plug_ins/test_guarantees.py -->\n).*?(?=<!-- end)",
    re.S,
)
WITHOUT_KIT = {
    **dict.fromkeys(("datagen", "blackhole", "print", "collect"), "no outside system holds their rows"),
    **dict.fromkeys(
        ("mqtt", "rabbitmq", "sqs"), "a message is sent until it is acknowledged, not from a position"
    ),
    "http": "requests are sent once, and browsers only look on",
    "tables": "it needs Spark: test_tables.py kills workers and the driver",
}
"""Connectors whose tests do not use the kit, and why."""


def built_in(name: str) -> ConnectorRegistration:
    found = CONNECTORS.find(name)
    assert found is not None
    return found


def table() -> str:
    headings = [each.name.replace("_", " ") for each in fields(Guarantees)]
    lines = [f"| connector | {' | '.join(headings)} |", "|---" * (len(headings) + 1) + "|"]
    for name in CONNECTORS.built_in:
        cells = (re.sub(r"(\w+=\S+)", r"`\1`", cell) for cell in astuple(guarantees_of(built_in(name))))
        lines.append(f"| `{name}` | {' | '.join(cells)} |".replace("|  ", "| "))
    return "\n".join(lines) + "\n"


def test_the_page_has_the_guarantees_of_all_connectors() -> None:
    assert TABLE.findall(PAGE.read_text()) == [table()], (
        "write it: python -m tests.connectors.plug_ins.test_guarantees"
    )


@pytest.mark.parametrize("name", CONNECTORS.built_in)
def test_a_promise_fits_how_the_sink_publishes(name: str) -> None:
    found = built_in(name)
    assert bool(found.deliveries) == (found.sink is not None), "a sink promises something"
    if found.sink is None:
        return
    made = made_classes(found, "sink")
    assert made
    assert all(issubclass(each, Sink) for each in made)
    by_checkpoint = any(each.committer is not Sink.committer for each in made if issubclass(each, Sink))
    by_checkpoint |= is_able(made, CollectsRows) or is_able(made, PreparesTarget)
    default = next(promise for promise, arguments in found.deliveries.items() if not arguments)
    if default is SinkGuarantee.EXACTLY_ONCE:
        assert by_checkpoint, "rows become visible with their checkpoint"
    if default is SinkGuarantee.ONCE_BY_KEY:
        assert is_able(made, WritesChanges), "rows have keys"


@pytest.mark.parametrize("name", sorted({*CONNECTORS.built_in} - {*WITHOUT_KIT}))
def test_the_contract_is_tested_for_each_system(name: str) -> None:
    """Find a call of the kit that tests the contract (`check_source`, `check_sink`), by module."""
    found = built_in(name)
    system = found.module.removeprefix("rheos.connectors.").partition(".")[0]
    of_kit = TESTS.parent / "testing" / "connector_kit"
    tests = [
        *TESTS.glob(f"{system}/test_*.py"),
        *TESTS.glob(f"test_{system}*.py"),
        *of_kit.glob("*.py"),
    ]
    texts = (path.read_text() for path in tests)
    text = "".join(text for text in texts if f"rh.{system}." in text or f"connectors.{system}" in text)
    for what, call in (("source", "check_source"), ("sink", "check_sink")):
        if what in found.functions:
            assert f"{call}(" in text, f"no test of {system} calls {call}"


if __name__ == "__main__":
    PAGE.write_text(TABLE.sub(lambda _: table(), PAGE.read_text()))
