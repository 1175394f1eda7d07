"""An aggregate that is defined in one place works wherever aggregates do: `earliest`, named once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import rheos as rh
from rheos.core.aggregates import KINDS, Agg
from rheos.core.aggregates.cells import At, Cell, Frozen, SlotArray
from rheos.core.aggregates.contract import Column, OneRowState, RunningForm, given
from rheos.core.aggregates.frames import FrameState, MergedFrame
from rheos.core.aggregates.segments import Ints, Segments
from rheos.core.errors import ProgramError, SchemaError
from rheos.core.graph.job_context import JobContext
from rheos.core.operators.shapes import state_shapes
from rheos.core.operators.window.operator import WindowAggregateOperator
from rheos.core.plan.physical import PlannedOperator
from rheos.core.protocol.elements import MAX_TIMESTAMP_MS, TS, WatermarkMark
from rheos.core.protocol.ids import JobId
from rheos.core.protocol.shapes import StateShape
from rheos.core.protocol.state_config import StateConfig
from rheos.ops.savepoints.layouts import layout_of
from rheos.runtimes.batch.combining import CombinedState, CombiningOutlet
from rheos.runtimes.batch.partition_host import context_of
from rheos.runtimes.batch.tasks import CombinedOutput, Task
from rheos.testing import OperatorExample, check_example
from tests.core.operators.rows import SCHEMA, row, values


@dataclass(frozen=True)
class Earliest(Agg):
    """Value of the earliest row of a window; as a running aggregate, of the row that arrived first."""

    kind: ClassVar[str] = "earliest"
    in_sql: ClassVar[bool] = True

    @property
    def columns(self) -> tuple[str, ...]:
        return (str(self.column), TS)

    def result_type(self, schema: pa.Schema) -> pa.DataType:
        return self._number(schema)

    def windowed(self, schema: pa.Schema) -> OneRowState:
        at, earliest = f"earliest_at.{self.column}", f"earliest.{self.column}"
        value, time = given(str(self.column)), given(TS)
        return OneRowState(
            [
                Column(at, time.min(), pl.col(at).min()),
                # The lesser one of equal times, so that no order of rows shows.
                Column(
                    earliest,
                    value.sort_by(time, value).first(),
                    pl.col(earliest).sort_by(at, earliest).first(),
                ),
            ],
            pl.col(earliest),
        )

    def running(self, schema: pa.Schema) -> RunningForm:
        return RunningForm(EarliestCell, self._type(schema))

    def frame(self, schema: pa.Schema) -> Callable[[], FrameState]:
        return EarliestFrame

    @staticmethod
    def running_value(parts: Mapping[str, pa.Array], kind: pa.DataType) -> pa.Array:
        return parts["value"]


class EarliestFrame(MergedFrame):
    def merge(self, older: Any, newer: Any) -> Any:
        return older


class EarliestCell(Cell):
    def __init__(self) -> None:
        self._value = SlotArray(np.int64, 0)
        self._there = SlotArray(np.bool_, False)

    def grow(self, slots: int) -> None:
        self._value.grow(slots)
        self._there.grow(slots)

    def run(self, rows: Segments, column: pa.Array | None) -> pa.Array:
        assert column is not None
        came = rows.gather(column.to_numpy())[rows.starts]
        there = self._there.values[rows.slots]
        earliest = np.where(there, self._value.values[rows.slots], came)
        self._value.values[rows.slots] = earliest
        self._there.values[rows.slots] = True
        return pa.array(rows.scatter(rows.spread(earliest)))

    def freeze(self, at: At) -> dict[str, Frozen]:
        return {"value": self._value.freeze(at)}

    def thaw(self, slots: Ints, parts: Mapping[str, pa.Array]) -> None:
        self._value.values[slots] = parts["value"].to_numpy()
        self._there.values[slots] = True


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KINDS, Earliest.kind, Earliest)


SCRIPT = [
    row("a", 1, 12),
    row("b", 2, 13),
    row("a", 3, 11),
    WatermarkMark(10),
    row("c", 4, 15),
    row("b", 5, 12),
    WatermarkMark(21),
    row("a", 6, 25),
    row("c", 7, 31),
    row("a", 8, 22),
]


def test_a_new_kind_works_in_windows() -> None:
    def windowed(rows: rh.DataStream) -> rh.DataStream:
        return (
            rows.key_by("k")
            .window(rh.Tumbling("10ms"))
            .aggregate(earliest=Earliest("v"), n=rh.agg.count())
        )

    came = check_example(OperatorExample(windowed, SCHEMA, SCRIPT, on="at"))["out"]
    assert values(came, "k", "earliest", "n") == [
        ("a", 3, 2),
        ("a", 8, 2),
        ("b", 5, 2),
        ("c", 4, 1),
        ("c", 7, 1),
    ]


def test_a_new_kind_works_as_a_running_aggregate() -> None:
    example = OperatorExample(
        lambda rows: rows.key_by("k").running(earliest=Earliest("v")), SCHEMA, SCRIPT
    )
    came = check_example(example)["out"]
    assert values(came, "k", "v", "earliest") == [
        ("a", 1, 1),
        ("a", 3, 1),
        ("a", 6, 1),
        ("a", 8, 1),
        ("b", 2, 2),
        ("b", 5, 2),
        ("c", 4, 4),
        ("c", 7, 4),
    ]


QUERIES = {
    "OVER": (
        "SELECT k, v, EARLIEST(v) OVER (PARTITION BY k ORDER BY at ROWS 1 PRECEDING) AS earliest "
        "FROM t",
        [("a", 1, 3), ("a", 3, 3), ("a", 6, 8), ("a", 8, 1), ("b", 2, 5), ("b", 5, 5)],
    ),
    "OVER from the first row": (
        "SELECT k, v, EARLIEST(v) FILTER (WHERE v <> 3) OVER (PARTITION BY k ORDER BY at) AS earliest "
        "FROM t",
        [("a", 1, 1), ("a", 3, None), ("a", 6, 1), ("a", 8, 1), ("b", 2, 5), ("b", 5, 5)],
    ),
    "MATCH_RECOGNIZE": (
        "SELECT k, v, earliest FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY at "
        "MEASURES LAST(B.v) AS v, EARLIEST(A.v) AS earliest "
        "PATTERN (A A B) DEFINE B AS B.v > EARLIEST(A.v))",
        [("a", 8, 3)],
    ),
    "GROUP BY": (
        "SELECT k, COUNT(*) AS v, EARLIEST(v) AS earliest FROM t GROUP BY k",
        [("a", 1, 1), ("a", 2, 1), ("a", 3, 1), ("a", 4, 1), ("b", 1, 2), ("b", 2, 2)],
    ),
    "GROUP BY of windows": (
        "SELECT k, COUNT(*) AS v, EARLIEST(v) AS earliest FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(at), "
        "INTERVAL '1' MINUTE)) GROUP BY k, window_start, window_end",
        [("a", 4, 3), ("b", 2, 5)],
    ),
}


@pytest.mark.parametrize("called", QUERIES)
def test_sql_calls_a_new_kind_by_name(called: str) -> None:
    query, expected = QUERIES[called]
    env = rh.Environment(1, runtime="simulated")
    given = [("a", 1, 12), ("b", 2, 13), ("a", 3, 11), ("b", 5, 12), ("a", 6, 25), ("a", 8, 22)]
    at = pa.array([s * 1_000_000 for *_, s in given]).cast(pa.timestamp("us", "UTC"))
    rows = pa.table({"k": [k for k, *_ in given], "v": [v for _, v, _ in given], "at": at})
    watermark = rh.Watermark.bounded_out_of_orderness("1m", on="at")
    env.register("t", env.from_source(rh.collection(rows), watermark=watermark))
    env.sql(query).collect("found")
    found = env.execute("earliest").collected["found"].to_pylist()
    assert sorted((row["k"], row["v"], row["earliest"]) for row in found) == expected


def test_sql_checks_the_arguments_of_a_new_kind() -> None:
    env = rh.Environment(1, runtime="simulated")
    env.register("t", env.from_source(rh.collection(pa.table({"k": ["a"], "v": [1]}))))
    with pytest.raises(ProgramError, match=r"EARLIEST\(\) takes 1 argument, but has 2"):
        env.sql("SELECT k, EARLIEST(v, v) AS x FROM t GROUP BY k")
    with pytest.raises(SchemaError, match=r"earliest\(\) needs a number"):
        env.sql("SELECT v, EARLIEST(k) AS x FROM t GROUP BY v")


def planned() -> dict[str, PlannedOperator]:
    env = rh.Environment(1, runtime="batch")
    rows = env.from_source(
        rh.collection([row("a", 1, 1)], schema=SCHEMA), watermark=rh.Watermark.monotonic(on="at")
    )
    keyed = rows.key_by("k")
    keyed.running(earliest=Earliest("v")).uid("running").collect("running")
    windows = keyed.window(rh.Tumbling("10ms")).aggregate(earliest=Earliest("v"))
    windows.uid("windows").collect("windows")
    return {op.id: op for chain in env.plan().chains for op in chain.operators}


def fields(shape: StateShape) -> dict[str, str]:
    return {field.name: f"{field.type.name} {field.type.label}".strip() for field in shape.value.fields}


def test_the_state_of_a_new_kind_is_described_and_shown() -> None:
    operators = planned()
    shapes = state_shapes(operators.values())
    running, windows = (shapes[operators[id].id] for id in ("running", "windows"))
    assert fields(running["running"]) == {"earliest": "int64 earliest(v)"}
    assert fields(windows["totals"]) == {
        "rows": "int64",
        "earliest.v": "int64",
        "earliest_at.v": "int64",
    }

    totals = pa.table(
        {"key.k": ["a"], "slice_start": [0], "first_window_end": [10]}
        | {"rows": [2], "earliest.v": [7], "earliest_at.v": [3]}
    )
    shown = layout_of("totals", windows).rows(totals).to_pylist()
    assert [(r["k"], r["rows"], r["earliest_v"], r["earliest_at_v"]) for r in shown] == [("a", 2, 7, 3)]
    cells = pa.table({"key.k": ["a", "b"], "agg.earliest.value": [7, 8]})
    assert layout_of("running", running).rows(cells).to_pylist() == [
        {"k": "a", "earliest": 7},
        {"k": "b", "earliest": 8},
    ]


def test_a_savepoint_of_an_unknown_kind_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    operators = planned()
    running = state_shapes(operators.values())[operators["running"].id]
    monkeypatch.delitem(KINDS, Earliest.kind)
    with pytest.raises(
        SchemaError, match=r"contains earliest\(v\), a running aggregate that this version"
    ):
        layout_of("running", running)


def test_batch_combines_a_new_kind_before_the_shuffle() -> None:
    head = planned()["windows"]
    task = Task(JobId("j"), 0, 1, 128, 512, JobContext(), StateConfig(), CombinedOutput(head))

    def windows(sender: int) -> WindowAggregateOperator:
        operator = head.spec.operator(context_of(task, head, sender, keyed=True, scratch=None))
        assert isinstance(operator, WindowAggregateOperator)
        return operator

    def sent(sender: int, rows: list[dict[str, Any]]) -> Iterator[pa.RecordBatch]:
        outlet = CombiningOutlet(lambda: windows(sender), windows(sender).ctx)
        hidden = [{TS: row["at"], "__wm": -1} for row in rows]
        schema = head.ports[0].schema
        columns = [{**row, **more} for row, more in zip(rows, hidden, strict=True)]
        yield from outlet.rows(0, pa.RecordBatch.from_pylist(columns, schema))
        yield from outlet.finish()

    combined = [
        *sent(0, [row("a", 5, 6), row("b", 1, 2)]),
        *sent(1, [row("a", 4, 3), row("a", 9, 7)]),
    ]
    combined.sort(key=lambda state: state["state"][0].as_py())
    receiver = windows(0)
    state = CombinedState(receiver, iter(combined))
    assert len(list(state.notes())) == 2
    receiver.open(state)
    state.check_read()
    came = [row for out in receiver.on_watermark(MAX_TIMESTAMP_MS) for row in out.batch.to_pylist()]
    assert values(came, "k", "earliest") == [("a", 4), ("b", 1)]


def test_an_unregistered_kind_is_refused_at_its_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(KINDS, Earliest.kind)
    with pytest.raises(ProgramError, match="is of an unregistered kind, whose state could not be"):
        planned()


def test_a_kind_that_defines_too_little_cannot_be_made() -> None:
    @dataclass(frozen=True)
    class Bare(Agg):
        kind: ClassVar[str] = "bare"

        def result_type(self, schema: pa.Schema) -> pa.DataType:
            return pa.int64()

    with pytest.raises(TypeError, match="abstract"):
        Bare("v")  # type: ignore[abstract]


def test_every_kind_is_registered_under_its_name() -> None:
    assert {name: kind.kind for name, kind in KINDS.items()} == {name: name for name in KINDS}
    for name in set(KINDS) - {Earliest.kind}:
        assert callable(getattr(rh.agg, name)), "a kind is made by the function of its name"
