"""The operators of a chain, driven by hand: routes of rows, and lines of errors."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from rheos.core.errors import InternalError, RheosError, Site, UserFunctionError
from rheos.core.graph.nodes import MAIN
from rheos.core.operators.contract import (
    AsyncOperator,
    Operator,
    Out,
    OutputType,
    PortType,
    Restored,
    StartedWork,
)
from rheos.core.operators.union import UnionSpec
from rheos.core.plan.physical import Chain, PlannedOperator, Route, ToEdge, ToOperator
from rheos.core.protocol.elements import Batch
from rheos.core.protocol.ids import ChainId, OperatorId
from rheos.core.task.in_flight_rows import InFlight
from rheos.core.task.tree import OperatorTree
from tests.core.operators.contexts import context, stream_type

SCHEMA = pa.schema([("x", pa.int64())])
ROWS = pa.record_batch([pa.array([1, 2, 3])], schema=SCHEMA)


class Written:
    """Outputs that keep their rows; each batch waits once."""

    def __init__(self) -> None:
        self.batches: list[tuple[int, list[int]]] = []

    def rows(self, edge: int, batch: Batch) -> Iterator[str]:
        yield f"edge {edge} has no room"
        self.batches.append((edge, batch.column("x").to_pylist()))


class Passing(Operator):
    def on_batch(self, port: int, batch: Batch) -> Iterator[Out]:
        yield Out(batch)
        yield Out(batch.slice(0, 0))

    def on_watermark(self, timestamp_ms: int) -> Iterator[Out]:
        yield Out(pa.record_batch([pa.array([timestamp_ms])], schema=SCHEMA))


class Calling(AsyncOperator):
    """Operator whose calls complete only if the host waits."""

    def begin(self, port: int, batch: Batch) -> StartedWork:
        return Called()


class Called(StartedWork):
    waited = False

    def ready(self) -> bool:
        return self.waited

    def finish(self, batch: Batch) -> Iterator[Out]:
        assert self.waited
        yield Out(batch)


class Failing(Operator):
    """Operator that raises the error at the place `at`."""

    at = ""
    error: type[Exception] = ValueError

    def open(self, restored: Restored) -> None:
        self._maybe("open")

    def on_batch(self, port: int, batch: Batch) -> Iterator[Out]:
        self._maybe("on_batch")
        yield Out(batch)

    def on_end(self) -> Iterator[Out]:
        self._maybe("on_end")
        return iter(())

    def _maybe(self, at: str) -> None:
        if at == self.at:
            raise self.error("out of paper")


def planned(name: str, line: int, *routes: Route) -> PlannedOperator:
    port = PortType(stream_type(SCHEMA), (), SCHEMA)
    outputs = {MAIN: OutputType(stream_type(SCHEMA), SCHEMA)}
    site = Site("job.py", line)
    return PlannedOperator(OperatorId(name), name, site, UnionSpec(), (port,), outputs, {MAIN: routes})


CHAIN = Chain(
    ChainId(0), (planned("first", 3, ToOperator(1), ToEdge(7)), planned("second", 4, ToEdge(8))), (0,)
)


def tree(
    first: type[Operator] = Passing, second: type[Operator] = Passing
) -> tuple[OperatorTree[str], Written]:
    written = Written()
    kinds = {"first": first, "second": second}
    return OperatorTree(CHAIN, lambda p: kinds[p.name](context(SCHEMA, SCHEMA)), written), written


def test_outputs_of_a_tree_of_operators_can_block() -> None:
    made, written = tree()
    made.open({})
    waits = list(made.batch(0, ROWS))
    assert written.batches == [(8, [1, 2, 3]), (7, [1, 2, 3])]
    assert waits == ["edge 8 has no room", "edge 7 has no room"]
    totals = made.totals()
    assert totals.records_in == {"first": 3, "second": 3}
    assert totals.records_out == {"first": 3, "second": 3}


@pytest.mark.parametrize("at", [0, 1])
def test_calls_for_rows_in_flight_are_awaited(at: int) -> None:
    written = Written()

    def wait_for(begun: StartedWork) -> None:
        assert isinstance(begun, Called)
        begun.waited = True

    made = OperatorTree(CHAIN, lambda _: Calling(context(SCHEMA, SCHEMA)), written, wait_for=wait_for)
    made.open({})
    assert not made.works_ahead
    list(made.in_flight(InFlight.to(CHAIN.operators[at], 0, [ROWS], sent=True)))
    list(made.batch(0, ROWS))
    assert written.batches.count((8, [1, 2, 3])) == 2


@pytest.mark.parametrize(
    ("raising", "rows"),
    [
        ("watermark", [(8, [5]), (7, [5]), (8, [5])]),
        ("watermark_of_head", [(8, [5]), (7, [5])]),
        ("watermark_behind_head", [(8, [5])]),
    ],
)
def test_a_watermark_advances_for_all_for_the_head_or_downstream_of_it(
    raising: str, rows: list[tuple[int, list[int]]]
) -> None:
    made, written = tree()
    made.open({})
    list(getattr(made, raising)(5))
    assert written.batches == rows


@pytest.mark.parametrize("at", ["open", "on_batch", "on_end"])
@pytest.mark.parametrize(("failing", "line"), [("first", 3), ("second", 4)])
@pytest.mark.parametrize(
    ("error", "kind", "what"),
    [
        (ValueError, InternalError, "ValueError: out of paper"),
        (UserFunctionError, UserFunctionError, "out of paper"),
    ],
)
def test_an_error_gets_the_line_of_its_operator_wherever_it_is_raised(
    at: str, failing: str, line: int, error: type[Exception], kind: type[RheosError], what: str
) -> None:
    raising = type("Raising", (Failing,), {"at": at, "error": error})
    made, _ = tree(**{failing: raising})
    with pytest.raises(kind, match=rf"^job.py:{line}: operator '{failing}': {what}"):  # noqa: PT012
        try:
            made.open({})
            list(made.batch(0, ROWS))
            list(made.end())
        except Exception as raised:
            raise made.located(raised) from raised


def test_an_operator_that_cannot_be_created_is_named() -> None:
    def make(planned: PlannedOperator) -> Operator:
        if planned.name == "second":
            raise OSError("no room on the disk")
        return Passing(context(SCHEMA, SCHEMA))

    with pytest.raises(InternalError, match=r"^job.py:4: operator 'second': OSError: no room"):
        OperatorTree(CHAIN, make, Written())
