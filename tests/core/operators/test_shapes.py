"""Description of a plan's state, and that it matches the state which operators write."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pytest

import rheos as rh
from rheos.core.errors import SchemaError
from rheos.core.operators.shapes import state_shapes
from rheos.core.plan.physical import PhysicalPlan, PlannedOperator
from rheos.core.plan.planner import make_plan
from rheos.core.protocol.ids import CheckpointId, OperatorId
from rheos.core.protocol.shapes import FieldShape, StatePurpose, StateShape, TypeShape
from rheos.core.protocol.snapshots import StateKind
from rheos.core.state.describe import type_shape
from tests.api.programs import Event, environment, events, stream
from tests.core.operators.contexts import context


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Point(NamedTuple):
    x: int
    y: int = 0


@dataclass
class Tree:
    value: int
    below: list[Tree] = field(default_factory=list)


@dataclass
class Inner:
    colour: Colour
    note: str | None = None


@dataclass
class Seen:
    count: int
    inner: Inner
    tags: set[str] = field(default_factory=set)
    at: datetime = datetime(2024, 1, 1, tzinfo=UTC)


INT, STR = TypeShape(name="int"), TypeShape(name="str")
COLOUR = TypeShape(name="enum", label="Colour", members=["'blue'", "'red'"])


@pytest.mark.parametrize(
    ("declared", "shape"),
    [
        (int, INT),
        (bytes, TypeShape(name="bytes")),
        (Colour, COLOUR),
        (Literal[2, "a"], TypeShape(name="literal", members=["'a'", "2"])),
        (str | None, TypeShape(name="union", args=[TypeShape(name="none"), STR])),
        (list[int], TypeShape(name="list", args=[INT])),
        (tuple[int, ...], TypeShape(name="tuple", args=[INT])),
        (tuple[int, str], TypeShape(name="fixed tuple", args=[INT, STR])),
        (frozenset[str], TypeShape(name="frozenset", args=[STR])),
        (dict[str, list[int]], TypeShape(name="dict", args=[STR, TypeShape(name="list", args=[INT])])),
        (
            Point,
            TypeShape(
                name="named tuple",
                label="Point",
                fields=[FieldShape(name="x", type=INT), FieldShape(name="y", type=INT, required=False)],
            ),
        ),
        (object, TypeShape(name="pickle", label="object")),
        (list, TypeShape(name="pickle", label="list")),
        (dict[str, Any], TypeShape(name="pickle", label="dict[str, Any]")),
    ],
)
def test_a_declared_type_is_described(declared: Any, shape: TypeShape) -> None:
    assert type_shape("s", declared) == shape


def test_a_dataclass_is_described_with_its_fields_and_their_types() -> None:
    note = TypeShape(name="union", args=[TypeShape(name="none"), STR])
    inner = TypeShape(
        name="dataclass",
        label="Inner",
        fields=[
            FieldShape(name="colour", type=COLOUR),
            FieldShape(name="note", type=note, required=False),
        ],
    )
    assert type_shape("s", Seen) == TypeShape(
        name="dataclass",
        label="Seen",
        fields=[
            FieldShape(name="count", type=INT),
            FieldShape(name="inner", type=inner),
            FieldShape(name="tags", type=TypeShape(name="set", args=[STR]), required=False),
            FieldShape(name="at", type=TypeShape(name="datetime"), required=False),
        ],
    )


def test_a_recursive_type_is_described_once() -> None:
    shape = type_shape("s", Tree)
    assert shape.fields[1].type.args == [TypeShape(name="recursive", label="Tree")]


def test_members_of_unions_have_no_order() -> None:
    assert type_shape("s", int | str | None) == type_shape("s", None | str | int)


def test_types_that_cannot_be_stored_are_refused() -> None:
    with pytest.raises(SchemaError, match="ndarray"):
        type_shape("s", np.ndarray)


# --- plans ------------------------------------------------------------------------------------------


class Validate(rh.KeyedProcessFunction):
    last = rh.ValueState(Seen)
    values = rh.ListState(int)
    kinds = rh.MapState(str, Colour)

    def process_element(self, event: Event, ctx: rh.KeyedContext) -> Iterator[Event]:
        self.last.value = Seen(1, Inner(Colour.RED))
        self.values.append(event.value)
        self.kinds[event.kind] = Colour.BLUE
        ctx.timers.register(ctx.timestamp + 10_000_000)
        yield event

    def on_timer(self, timestamp: int, ctx: rh.KeyedContext) -> Iterator[Event]:
        return iter(())


class Whole(rh.WindowFunction):
    def process(self, records: list[Event], ctx: rh.WindowContext) -> Iterator[Event]:
        yield records[0]


AGGREGATES = {
    "n": rh.agg.count(),
    "total": rh.agg.sum("value"),
    "mean": rh.agg.mean("half"),
    "first": rh.agg.min("at"),
    "median": rh.agg.quantile("half", 0.5),
    "kinds": rh.agg.count_distinct("kind"),
}


def first(a: Any, b: Any) -> Any:
    return a


def first_event(a: Event, b: Event) -> Event:
    return a


def every_operator() -> PhysicalPlan:
    env = environment()
    stream = events(env).uid("events")
    keyed = stream.key_by("user")
    halves = stream.with_columns(half=rh.col("value") * 0.5).uid("halves")
    by_two = halves.key_by("user", "kind")
    sliding = halves.key_by("user").window(rh.Sliding("1h", every="10m")).allowed_lateness("1m")
    streams = {
        "process": keyed.process(Validate()),
        "ordered": keyed.process(Validate(), order="event_time"),
        "reduce": keyed.reduce(first_event),
        "reduced rows": halves.key_by("user").reduce(first),
        "running": by_two.running(n=rh.agg.count(), top=rh.agg.max("half"), sum=rh.agg.sum("value")),
        "windows": sliding.aggregate(**AGGREGATES),
        "contents": keyed.window(rh.Tumbling("1h", offset="5m")).process(Whole()),
    }
    for name, made in streams.items():
        made.uid(name).sink_to(rh.print_sink(), uid=f"sink of {name}")
    return make_plan(env._program.graph(), name="job", parallelism=1, max_parallelism=16)


def planned(plan: PhysicalPlan) -> dict[OperatorId, dict[str, StateShape]]:
    return state_shapes(plan.operators())


def fields(shape: StateShape) -> dict[str, str]:
    return {one.name: f"{one.type.name} {one.type.label}".strip() for one in shape.value.fields}


USER = FieldShape(name="user", type=TypeShape(name="string"))
KIND = FieldShape(name="kind", type=TypeShape(name="string"))
EVENT = {"user": "string", "kind": "string", "value": "int64", "at": "timestamp[us, tz=UTC]"}


def test_every_state_of_a_plan_is_described() -> None:
    shapes = planned(every_operator())
    assert {operator: set(states) for operator, states in shapes.items()} == {
        "events": {"splits"},
        "process": {"last", "values", "kinds", "timers"},
        "ordered": {"last", "values", "kinds", "timers", "held", "held behind"},
        "reduce": {"reduced"},
        "reduced rows": {"reduced"},
        "running": {"running"},
        "windows": {"fired", "totals", "sums", "values.half", "distinct.kind"},
        "contents": {"fired", "rows"},
    }


def test_declared_state_is_described_by_kind_key_and_type() -> None:
    states = planned(every_operator())[OperatorId("ordered")]
    assert {name: shape.holds for name, shape in states.items()} == {
        "last": StatePurpose.VALUE,
        "values": StatePurpose.LIST,
        "kinds": StatePurpose.MAP,
        "timers": StatePurpose.TIMERS,
        "held": StatePurpose.ROWS,
        "held behind": StatePurpose.PROGRESS,
    }
    assert all(shape.kind is StateKind.KEYED and shape.key == [USER] for shape in states.values())
    assert states["last"].value == type_shape("last", Seen)
    assert states["values"].value == INT
    assert states["kinds"].value == TypeShape(name="dict", args=[STR, COLOUR])
    assert fields(states["held"]) == EVENT


def test_a_reduced_record_is_a_dataclass_or_a_row() -> None:
    shapes = planned(every_operator())
    assert shapes[OperatorId("reduce")]["reduced"].value == type_shape("reduced", Event)
    row = shapes[OperatorId("reduced rows")]["reduced"]
    assert (row.value.name, fields(row)) == ("row", EVENT | {"half": "double"})


def test_aggregates_are_described_by_column_and_type() -> None:
    running = planned(every_operator())[OperatorId("running")]["running"]
    assert running.key == [USER, KIND]
    assert fields(running) == {
        "n": "int64 count()",
        "top": "double max(half)",
        "sum": "int64 sum(value)",
    }
    assert not any(one.required for one in running.value.fields)


def test_windows_are_described_by_bounds_and_content() -> None:
    shapes = planned(every_operator())
    windows = shapes[OperatorId("windows")]
    assert fields(windows["fired"]) == {
        "size": "ms 3600000",
        "slide": "ms 600000",
        "offset": "ms 0",
        "lateness": "ms 60000",
    }
    assert fields(windows["totals"]) == {
        "rows": "int64",
        "summed.value": "int64",
        "sum.value": "int64",
        "exactly.half": "int64",
        "min.at": "timestamp[us, tz=UTC]",
    }
    assert fields(windows["values.half"]) == {"value": "double"}
    assert fields(windows["distinct.kind"]) == {"value": "string"}
    assert windows["sums"].exact
    contents = shapes[OperatorId("contents")]
    assert fields(contents["fired"])["offset"] == "ms 300000"
    assert fields(contents["rows"]) == EVENT


def test_keys_are_described_by_value_not_by_width() -> None:
    def key(kind: pa.DataType) -> str:
        keyed = stream({"k": kind, "v": pa.int64()}).key_by("k")
        keyed.running(n=rh.agg.count()).uid("running").sink_to(rh.print_sink())
        graph = keyed._program.graph()
        plan = make_plan(graph, name="job", parallelism=1, max_parallelism=16)
        return planned(plan)[OperatorId("running")]["running"].key[0].type.name

    assert key(pa.int32()) == key(pa.int64()) == key(pa.uint8()) == "int64"
    assert key(pa.uint64()) == "uint64"
    assert key(pa.float32()) == key(pa.float64()) == "double"
    assert key(pa.large_string()) == key(pa.dictionary(pa.int32(), pa.string())) == "string"


def test_operators_write_exactly_the_described_states() -> None:
    plan = every_operator()
    shapes = planned(plan)
    for operator in plan.operators():
        assert snapshot_of(operator) == set(shapes.get(operator.id, {}))


def snapshot_of(operator: PlannedOperator) -> set[str]:
    """Return the states in a snapshot of the operator, after it has processed a row."""
    ports = [port.schema for port in operator.ports]
    outputs = {tag: output.schema for tag, output in operator.outputs.items()}
    ctx = context(ports[0] if ports else pa.schema([]), outputs)
    ctx.ports, ctx.outputs = operator.ports, operator.outputs
    running = operator.spec.operator(ctx)
    running.open({})
    if ports:
        row = {"user": "ann", "kind": "click", "value": 1, "at": datetime(2024, 1, 1, tzinfo=UTC)}
        row |= {"half": 0.5, "__ts": 1_704_067_200_000, "__wm": 0, "__swm": 0}
        for _ in running.on_batch(0, pa.RecordBatch.from_pylist([row], ports[0])):
            pass
    parts = running.snapshot(CheckpointId(1)).parts
    running.close()
    return {part.state for part in parts}


def test_wrong_declarations_are_refused_at_their_line() -> None:
    class Wrong(rh.KeyedProcessFunction):
        arrays = rh.ValueState(np.ndarray)

        def process_element(self, event: Event, ctx: rh.KeyedContext) -> Iterator[Event]:
            yield event

    env = environment()
    events(env).key_by("user").process(Wrong()).name("wrong").sink_to(rh.print_sink())
    plan = make_plan(env._program.graph(), name="job", parallelism=1, max_parallelism=16)
    with pytest.raises(SchemaError, match="ndarray") as caught:
        planned(plan)
    assert caught.value.operator == "wrong"
    assert caught.value.site is not None


def test_shapes_are_converted_to_json_and_back() -> None:
    shapes = planned(every_operator())
    kind = dict[OperatorId, dict[str, StateShape]]
    assert msgspec.json.decode(msgspec.json.encode(shapes), type=kind) == shapes
