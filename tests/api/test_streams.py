"""Columns and types of a program's streams, operator by operator."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl
import pyarrow as pa

import rheos as rh
from rheos import col
from rheos.core.graph.nodes import Node
from rheos.core.operators.expressions import ExpressionSpec
from rheos.core.operators.map import MapSpec
from rheos.core.operators.process import ProcessSpec
from rheos.core.operators.window.spec import WindowSpec
from tests.api.programs import Alert, Event, Validate, environment, events

TIME = pa.timestamp("ms", tz="UTC")


def node_of(stream: rh.DataStream) -> Node:
    return stream._node


def columns(stream: rh.DataStream) -> dict[str, pa.DataType]:
    return {field.name: field.type for field in stream.schema}


def test_filter_keeps_the_columns() -> None:
    rows = events()
    assert rows.filter(col("value") > 1, "kind = 'click'").schema == rows.schema


def test_select_returns_exactly_its_expressions() -> None:
    rows = events().select("user", col("value").cast(pl.Float64), twice=col("value") * 2)
    assert columns(rows) == {"user": pa.string(), "value": pa.float64(), "twice": pa.int64()}


def test_select_accepts_lists_and_selectors() -> None:
    rows = events().select([col("user"), pl.selectors.integer()])
    assert columns(rows) == {"user": pa.string(), "value": pa.int64()}


def test_with_columns_adds_and_replaces() -> None:
    rows = events().with_columns(
        col("at").dt.truncate("1h"),
        loud=col("user").str.to_uppercase(),
        one=1,
        none=pl.lit(None, pl.Int8),
    )
    assert list(columns(rows)) == ["user", "kind", "value", "at", "loud", "one", "none"]
    assert columns(rows)["loud"] == pa.string()
    assert columns(rows)["none"] == pa.int8()


def test_a_plain_column_keeps_its_declared_type() -> None:
    rows = events().select("user", other=col("user"))
    assert not rows.schema.field("user").nullable
    assert rows.schema.field("other").nullable


def test_sql_text_is_an_expression() -> None:
    rows = events().with_columns("value * 2 AS twice").filter("twice IN (2, 4)")
    assert columns(rows)["twice"] == pa.int64()


def test_map_takes_its_types_from_the_annotations() -> None:
    def alarm(event: Event) -> Alert:
        return Alert(event.user, event.value)

    rows = events().map(alarm)
    assert columns(rows) == {"user": pa.string(), "value": pa.int64()}
    spec = node_of(rows).spec
    assert isinstance(spec, MapSpec)
    assert spec.record is Event
    assert node_of(rows).name.startswith("map(")


def test_a_lambda_receives_named_rows_and_declares_its_result() -> None:
    rows = events().map(lambda row: Alert(row.user, row.value), returns=Alert)
    spec = node_of(rows).spec
    assert isinstance(spec, MapSpec)
    assert spec.record is None
    assert node_of(rows).outputs[""].record is Alert


def test_flat_map_takes_the_type_of_the_elements() -> None:
    def alarms(event: Event) -> Iterator[Alert]:
        yield Alert(event.user, event.value)

    assert columns(events().flat_map(alarms)) == {"user": pa.string(), "value": pa.int64()}


def test_returns_may_be_an_arrow_schema_or_a_dict() -> None:
    schema = pa.schema([("n", pa.int32())])
    assert events().map_batches(lambda batch: batch, returns=schema).schema == schema
    rows = events().map(lambda row: {"n": 1}, returns={"n": int, "s": pa.large_string()})
    assert columns(rows) == {"n": pa.int64(), "s": pa.string()}


def test_union_keeps_the_columns_and_the_event_time() -> None:
    env = environment()
    both = events(env, name="a").union(events(env, name="b"))
    assert both.schema == events(env).schema
    assert both._type.event_time


def test_a_column_of_a_union_is_nullable_if_it_is_in_any_input() -> None:
    env = environment()
    one, other = events(env).select("user"), events(env).select(user=col("kind"))
    both = one.union(other)
    assert both.schema.field("user").nullable
    relaxed = env._program.node(node_of(both).inputs[0].node)
    assert isinstance(relaxed.spec, ExpressionSpec)
    assert relaxed.outputs[""].schema == both.schema


def test_process_declares_side_outputs_and_late_rows() -> None:
    @dataclass
    class Odd:
        user: str

    class WithSides(Validate):
        side_outputs = {"odd": Odd}

    keyed = events().key_by("user")
    alerts = keyed.process(WithSides(), order="event_time")
    assert columns(alerts) == {"user": pa.string(), "value": pa.int64()}
    assert columns(alerts.side_output("odd")) == {"user": pa.string()}
    assert alerts.side_output("late").schema == keyed.schema
    spec = node_of(alerts).spec
    assert isinstance(spec, ProcessSpec)
    assert spec.side_outputs == {"odd": pa.schema([pa.field("user", pa.string(), nullable=False)])}


def test_on_timer_alone_may_declare_the_result() -> None:
    class Quiet(rh.KeyedProcessFunction):
        def process_element(self, event: Event, ctx: rh.KeyedContext) -> None: ...

        def on_timer(self, timestamp: int, ctx: rh.KeyedContext) -> list[Alert]:
            return [Alert("x", 1)]

    assert columns(events().key_by("user").process(Quiet())) == {
        "user": pa.string(),
        "value": pa.int64(),
    }


def test_reduce_keeps_the_schema() -> None:
    def larger(a: Event, b: Event) -> Event:
        return max(a, b, key=lambda event: event.value)

    rows = events()
    assert rows.key_by("user").reduce(larger).schema == rows.schema


def test_running_aggregates_follow_the_columns() -> None:
    rows = events().key_by("user").running(n=rh.agg.count(), mean=rh.agg.mean("value"))
    assert list(columns(rows)) == ["user", "kind", "value", "at", "n", "mean"]
    assert columns(rows)["mean"] == pa.float64()


def test_windows_return_keys_times_and_aggregates() -> None:
    rows = (
        events()
        .key_by("user", "kind")
        .window(rh.Sliding("5m", every="1m"))
        .allowed_lateness("1m")
        .aggregate(hits=rh.agg.count(), most=rh.agg.max("value"))
    )
    assert columns(rows) == {
        "user": pa.string(),
        "kind": pa.string(),
        "window_start": TIME,
        "window_end": TIME,
        "hits": pa.int64(),
        "most": pa.int64(),
    }
    spec = node_of(rows).spec
    assert isinstance(spec, WindowSpec)
    assert spec.lateness_ms == 60_000
    assert spec.late_tag is None


def test_the_late_rows_of_a_window_have_its_inputs_columns() -> None:
    rows = events()
    counts = rows.key_by("user").window(rh.Tumbling("1m")).aggregate(n=rh.agg.count())
    assert counts.side_output("late").schema == rows.schema
    spec = node_of(counts).spec
    assert isinstance(spec, WindowSpec)
    assert spec.late_tag == "late"


def test_unkeyed_window_results_keep_their_windows_when_rebalanced() -> None:
    windows = events().window_all(rh.Tumbling("1m"))
    counts = windows.aggregate(n=rh.agg.count()).rebalance().uid("counts").name("count all")
    late = counts.side_output("late")
    assert (node_of(counts).uid, node_of(late).name) == (None, "window_all")
    assert late.schema == events().schema
    operator = counts._program.node(node_of(counts).inputs[0].node)
    assert (operator.uid, operator.name) == ("counts", "count all")


def test_a_window_function_receives_records_of_its_annotation() -> None:
    class Top(rh.WindowFunction):
        def process(self, records: list[Event], ctx: rh.WindowContext) -> Iterator[Alert]:
            yield Alert(records[0].user, records[0].value)

    rows = events().key_by("user").window(rh.Tumbling("1m")).process(Top())
    spec = node_of(rows).spec
    assert isinstance(spec, WindowSpec)
    assert spec.record is Event
    assert columns(rows) == {"user": pa.string(), "value": pa.int64()}


def test_name_and_uid_apply_to_the_operator_that_produced_the_stream() -> None:
    rows = events()
    late = rows.filter("value > 1").name("large").uid("large-1")
    assert node_of(late).name == "large"
    assert node_of(late).uid == "large-1"
    assert node_of(rows).name == "events"


def test_an_operator_knows_its_own_line_of_a_chain_of_calls() -> None:
    first = events()
    last = (first
        .filter("value > 0")
        .select(
            "user",
        )
    )  # fmt: skip
    before = node_of(first).site.line
    place = node_of(last).site
    assert place.file == __file__
    selected = node_of(last)
    filtered = first._program.node(selected.inputs[0].node)
    assert selected.site.line == filtered.site.line + 1
    assert before < filtered.site.line


def test_a_source_emits_skipped_rows_to_a_side_output(tmp_path: object) -> None:
    source = rh.files.source(f"{tmp_path}/*.jsonl", schema=Event, on_error="skip")
    rejected = environment().from_source(source, name="files").side_output("rejected")
    assert rejected.schema.names == ["file", "line", "record", "error", "payload"]


def test_the_repr_of_a_stream_describes_it() -> None:
    assert repr(events().select("user")) == "<stream of 'select': user: string>"
