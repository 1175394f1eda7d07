"""Helpers with which the tests of the API write programs."""

from __future__ import annotations

import linecache
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa
import pytest

import rheos as rh


@dataclass
class Event:
    user: str
    kind: str
    value: int
    at: datetime


@dataclass
class Alert:
    user: str
    value: int


class Validate(rh.KeyedProcessFunction):
    """Converts events to alerts."""

    def process_element(self, event: Event, ctx: rh.KeyedContext) -> Iterator[Alert]:
        yield Alert(event.user, event.value)


EVENTS = [Event("ann", "click", value, datetime(2024, 1, 1, 0, value)) for value in range(3)]
TIMED = rh.Watermark.bounded_out_of_orderness("5s", on="at")


def environment() -> rh.Environment:
    return rh.Environment(2, runtime="simulated")


def events(
    env: rh.Environment | None = None, *, timed: bool = True, name: str = "events"
) -> rh.DataStream:
    """Return a stream of events, by default with event time."""
    return (env or environment()).from_source(
        rh.collection(EVENTS), watermark=TIMED if timed else None, name=name
    )


def stream(schema: dict[str, pa.DataType]) -> rh.DataStream:
    """Return a stream without rows."""
    return environment().from_source(rh.collection(pa.schema(schema).empty_table()), name="rows")


def refused(
    program: Callable[[], object],
    error: type[rh.RheosError],
    what: str,
    hint: str,
    at: str | None = None,
) -> None:
    """Check that a program is refused with an error whose message and hint contain these strings, at
    the line of the test that contains `at`."""
    with pytest.raises(error) as caught:
        program()
    raised = caught.value
    assert what in raised.what
    assert hint in (raised.hint or "")
    assert raised.site is not None
    line = linecache.getline(raised.site.file, raised.site.line)
    assert "tests" in raised.site.file
    assert at is None or at in line
