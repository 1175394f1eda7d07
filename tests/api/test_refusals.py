"""Errors of a program are raised at the line that caused them, with a hint."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import reduce
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import rheos as rh
from rheos import col
from rheos.connectors.print import PrintSink
from tests.api.programs import EVENTS, Alert, Event, Validate, environment, events, refused, stream


def nothing_said(event: Event):  # type: ignore[no-untyped-def]
    return event


def gives_many(event: Event) -> Iterator[Alert]:
    yield Alert(event.user, 1)


def gives_one(event: Event) -> Alert:
    return Alert(event.user, 1)


def gives_a_number(event: Event) -> int:
    return event.value


def takes_a_dict(event: dict[str, int]) -> Alert:
    return Alert("x", event["value"])


@dataclass
class Misspelt:
    user: str
    valeu: int


@dataclass
class Mistyped:
    user: int


def takes_misspelt(event: Misspelt) -> Alert:
    return Alert(event.user, event.valeu)


def takes_mistyped(event: Mistyped) -> Alert:
    return Alert("x", event.user)


def larger(a: Event, b: Event) -> Alert:
    return Alert(a.user, b.value)


class Untyped(rh.KeyedProcessFunction):
    def process_element(self, record: Any, ctx: Any):  # type: ignore[no-untyped-def]
        yield record


class Silent(rh.KeyedProcessFunction):
    def process_element(self, record: Event, ctx: rh.KeyedContext) -> None: ...


class TwoTypes(Validate):
    def on_timer(self, timestamp: int, ctx: rh.KeyedContext) -> Iterator[Event]:
        yield from ()


class Empty(rh.KeyedProcessFunction):
    pass


class Reminders(Validate):
    timers = rh.ValueState(int)


class Late(Validate):
    side_outputs = {"late": Alert}


def minutes(rows: rh.DataStream) -> rh.WindowedStream:
    return rows.key_by("user").window(rh.Tumbling("1m"))


Program = Callable[[], object]


def united() -> rh.DataStream:
    env = environment()
    return events(env).union(events(env, name="others"))


PROGRAMS: dict[str, tuple[Program, type[rh.RheosError], str, str]] = {
    # --- expressions
    "unknown column": (
        lambda: events().filter(col("valu") > 1),
        rh.SchemaError,
        "unknown column 'valu'",
        "did you mean 'value'?",
    ),
    "unknown column by name": (
        lambda: events().select("usr"),
        rh.SchemaError,
        "unknown column 'usr'",
        "did you mean 'user'?",
    ),
    "condition that is none": (
        lambda: events().filter(col("value")),
        rh.SchemaError,
        "filter() needs a condition",
        "compare it",
    ),
    "types that do not go together": (
        lambda: events().with_columns(x=col("user") - 1),
        rh.SchemaError,
        "does not fit the columns",
        "user: string",
    ),
    "aggregate in an expression": (
        lambda: events().with_columns(x=col("value") - col("value").mean()),
        rh.ProgramError,
        "depends on other rows, so its result would differ per batch",
        ".window(",
    ),
    "cumulative sum": (
        lambda: events().select(col("value").cum_sum()),
        rh.ProgramError,
        "depends on other rows, so its result would differ per batch",
        ".running(",
    ),
    "rows that become fewer": (
        lambda: events().select(col("value").drop_nulls()),
        rh.ProgramError,
        "does not return one value per row",
        ".filter(",
    ),
    "python in an expression": (
        lambda: events().select(col("value").map_batches(lambda values: values)),
        rh.ProgramError,
        "calls a Python function",
        ".map(fn)",
    ),
    "dates of a guessed format": (
        lambda: events().select(col("user").str.to_datetime()),
        rh.ProgramError,
        "would infer the format anew for each batch",
        "%Y-%m-%d",
    ),
    "a column without a type": (
        lambda: events().with_columns(x=None),
        rh.SchemaError,
        "the type of column 'x' is unknown",
        "cast",
    ),
    "two columns of one name": (
        lambda: events().select("user", col("kind").alias("user")),
        rh.SchemaError,
        "() returns two columns named 'user'",
        "name one",
    ),
    "a hidden name": (
        lambda: events().with_columns(__ts=col("value")),
        rh.SchemaError,
        "cannot have the name '__ts'",
        "rename",
    ),
    "no expression": (lambda: events().filter(), rh.ProgramError, "needs an expression", ".filter("),
    "no expression but a number": (
        lambda: events().filter(1),  # type: ignore[arg-type]
        rh.ProgramError,
        "takes expressions, not 1",
        ".filter(",
    ),
    "a mapping by columns": (
        lambda: events().select(col("value").replace(col("value"), col("value") + 1)),
        rh.ProgramError,
        "derives its replacements from all rows of a batch",
        "replace({1: 10, 2: 20})",
    ),
    "codes of a category": (
        lambda: events().select(col("user").cast(pl.Categorical).to_physical()),
        rh.ProgramError,
        "reads the codes of a Categorical",
        "pl.Enum",
    ),
    "chance within a list": (
        lambda: events().select(pl.concat_list("value", 1).list.sample(n=1)),
        rh.ProgramError,
        "is random",
        "seed=",
    ),
    "a sum that others round": (
        lambda: events().select(pl.concat_list("value", 0.5).list.sum()),
        rh.ProgramError,
        "rounds the result of a row differently if other rows are null",
        ".list.agg(pl.element().sum())",
    ),
    "an aggregate within a struct": (
        lambda: events().select(pl.struct("value").struct.with_fields(pl.field("value").mean())),
        rh.ProgramError,
        "depends on other rows, so its result would differ per batch",
        ".window(",
    ),
    "a function that Polars says nothing of": (
        lambda: events().select(col("value").approx_quantile(0.5)),
        rh.ProgramError,
        "may depend on other rows: Polars does not guarantee that it works row by row",
        ".map(fn)",
    ),
    "a Series among the rows": (
        lambda: events().select(col("value") + pl.Series([1])),
        rh.ProgramError,
        "contains a Series, which is not aligned with the rows",
        "pl.lit(",
    ),
    "in double quotes, as it is a keyword of SQL": (
        lambda: events().filter("USER = 1"),
        rh.ProgramError,
        "unsupported function 'user'",
        'write "user" in double quotes',
    ),
    "a condition of no column": (
        lambda: events().filter(col("^none.*$").is_null()),
        rh.SchemaError,
        "selects no column",
        "user",
    ),
    "a type that Arrow has not": (
        lambda: events().select(col("value").cast(pl.Int128)),
        rh.SchemaError,
        "column 'value' cannot be converted to Int128",
        "cast",
    ),
    "an expression without end": (
        lambda: events().select(x=reduce(operator.add, [col("value")] * 3000)),
        rh.ProgramError,
        "nested too deeply",
        ".with_columns(",
    ),
    "broken SQL": (
        lambda: events().filter("value >"),
        rh.ProgramError,
        "neither a column nor SQL",
        ".filter(",
    ),
    # --- functions
    "not a function": (
        lambda: events().map(3),  # type: ignore[arg-type]
        rh.ProgramError,
        "map() takes a function",
        ".map(parse)",
    ),
    "lambda without returns": (
        lambda: events().map(lambda row: row),
        rh.SchemaError,
        "a lambda has no return type, so its output columns are unknown",
        "returns=Alert",
    ),
    "function without annotation": (
        lambda: events().map(nothing_said),
        rh.SchemaError,
        "nothing_said has no return annotation",
        "-> Alert",
    ),
    "a number is no record": (
        lambda: events().map(gives_a_number),
        rh.SchemaError,
        "returns int",
        "dataclass",
    ),
    "map of many": (
        lambda: events().map(gives_many),
        rh.ProgramError,
        "returns one value",
        "flat_map",
    ),
    "flat_map of one": (
        lambda: events().flat_map(gives_one),
        rh.SchemaError,
        "needs an iterable",
        "Iterator[Alert]",
    ),
    "records do not come as dicts": (
        lambda: events().map(takes_a_dict),
        rh.SchemaError,
        "which is not a type of record",
        "dataclass",
    ),
    "a field that is no column": (
        lambda: events().map(takes_misspelt),
        rh.SchemaError,
        "unknown column 'valeu'",
        "did you mean 'value'?",
    ),
    "a field of another type": (
        lambda: events().map(takes_mistyped),
        rh.SchemaError,
        "whose field 'user' is int64, but the column is string",
        "cast",
    ),
    "batches without returns": (
        lambda: events().map_batches(lambda batch: batch),
        rh.SchemaError,
        "map_batches() cannot infer the columns that its function returns",
        "returns=",
    ),
    "an unknown form": (
        lambda: events().map_batches(lambda b: b, form="numpy", returns=Alert),  # type: ignore[arg-type]
        rh.ProgramError,
        "form='numpy' is not known",
        "arrow",
    ),
    "returns that say nothing": (
        lambda: events().map(lambda row: row, returns=int),
        rh.SchemaError,
        "int does not declare the columns of a record",
        "pyarrow.Schema",
    ),
    # --- keys
    "unknown key": (
        lambda: events().key_by("usr"),
        rh.SchemaError,
        "unknown column 'usr' in key_by()",
        "did you mean 'user'?",
    ),
    "no key": (lambda: events().key_by(), rh.ProgramError, "needs a column", "key_by("),
    "the same key twice": (
        lambda: events().key_by("user", "user"),
        rh.ProgramError,
        "a key column is repeated",
        "",
    ),
    "an expression as a key": (
        lambda: events().key_by(col("user").str.to_lowercase()),  # type: ignore[arg-type]
        rh.ProgramError,
        "takes column names",
        "with_columns",
    ),
    "a list as a key": (
        lambda: stream({"tags": pa.list_(pa.string())}).key_by("tags"),
        rh.SchemaError,
        "cannot be a key",
        "list.first()",
    ),
    # --- keyed functions
    "a class and not an instance": (
        lambda: events().key_by("user").process(Validate),  # type: ignore[arg-type]
        rh.ProgramError,
        "an instance, not the class",
        "Validate()",
    ),
    "a plain function in process": (
        lambda: events().key_by("user").process(gives_many),  # type: ignore[arg-type]
        rh.ProgramError,
        "takes a KeyedProcessFunction",
        "rh.KeyedProcessFunction",
    ),
    "process_element is missing": (
        lambda: events().key_by("user").process(Empty()),
        rh.ProgramError,
        "does not define process_element",
        "",
    ),
    "a state of the operator's own name": (
        lambda: events().key_by("user").process(Reminders()),
        rh.ProgramError,
        "cannot have a state named 'timers'",
        "rename the attribute",
    ),
    "process without a type": (
        lambda: events().key_by("user").process(Untyped()),
        rh.SchemaError,
        "has no return annotation",
        "Iterator[Alert]",
    ),
    "process that emits nothing": (
        lambda: events().key_by("user").process(Silent()),
        rh.SchemaError,
        "emits nothing",
        "side_outputs",
    ),
    "process of two types": (
        lambda: events().key_by("user").process(TwoTypes()),
        rh.SchemaError,
        "different types",
        "side outputs",
    ),
    "order without event time": (
        lambda: events(timed=False).key_by("user").process(Validate(), order="event_time"),
        rh.ProgramError,
        "needs event time",
        "watermark=",
    ),
    "an unknown order": (
        lambda: events().key_by("user").process(Validate(), order="time"),  # type: ignore[arg-type]
        rh.ProgramError,
        "order='time' is not known",
        "arrival",
    ),
    "a side output that is taken": (
        lambda: events().key_by("user").process(Late(), order="event_time"),
        rh.ProgramError,
        "'late' is reserved",
        "another name",
    ),
    "reduce to another type": (
        lambda: events().key_by("user").reduce(larger),
        rh.SchemaError,
        "another type of record",
        ".process(",
    ),
    "running quantile": (
        lambda: events().key_by("user").running(q=rh.agg.quantile("value", 0.5)),
        rh.ProgramError,
        "() cannot be computed as a running aggregate, because its state has no bound",
        ".window(",
    ),
    "running without aggregates": (
        lambda: events().key_by("user").running(),
        rh.ProgramError,
        "no aggregate was passed",
        "running(",
    ),
    # --- methods of another kind of stream
    "a window without keys": (
        lambda: events().window(rh.Tumbling("1m")),  # type: ignore[attr-defined]
        rh.ProgramError,
        "a stream without keys has no window()",
        'key_by("user").window(',
    ),
    "a map of a keyed stream": (
        lambda: events().key_by("user").map(gives_one),  # type: ignore[attr-defined]
        rh.ProgramError,
        "a keyed stream has no map()",
        "before key_by()",
    ),
    "a parallelism of a keyed stream": (
        lambda: events().key_by("user").set_parallelism(2),  # type: ignore[attr-defined]
        rh.ProgramError,
        "a keyed stream has no set_parallelism()",
        "it configures an operator: call it after one, as in",
    ),
    "an aggregate without windows": (
        lambda: events().key_by("user").aggregate(n=rh.agg.count()),  # type: ignore[attr-defined]
        rh.ProgramError,
        "a keyed stream has no aggregate()",
        ".running(",
    ),
    "a sink of windows": (
        lambda: minutes(events()).print(),  # type: ignore[attr-defined]
        rh.ProgramError,
        "a windowed stream has no print()",
        ".aggregate(",
    ),
    # --- windows
    "window without event time": (
        lambda: events(timed=False).key_by("user").window(rh.Tumbling("1m")),
        rh.ProgramError,
        "needs event time",
        "watermark=",
    ),
    "an empty window": (
        lambda: events().key_by("user").window(rh.Tumbling("0s")),
        rh.ProgramError,
        "a window must be longer than 0",
        "5m",
    ),
    "a window that never moves": (
        lambda: events().key_by("user").window(rh.Sliding("5m", every="0s")),
        rh.ProgramError,
        "the interval between windows must be positive, not",
        "every=",
    ),
    "windows that leave gaps": (
        lambda: events().key_by("user").window(rh.Sliding("1m", every="10m")),
        rh.ProgramError,
        "windows of 1m that start every 10m leave gaps",
        "if they are swapped, write rh.Sliding('10m', every='1m'); if you want gaps, add gaps=True",
    ),
    "more windows of a row than can be had": (
        lambda: events().key_by("user").window(rh.Sliding("3650d", every="1ms")),
        rh.ProgramError,
        "each row would be in 315,360,000,000 windows, but the maximum is 100,000",
        "make every= longer",
    ),
    "more steps than can be had": (
        lambda: events().key_by("user").window(rh.Cumulating("7d", step="1s")),
        rh.ProgramError,
        "each row would be in 604,800 windows",
        "make step= longer",
    ),
    "a session without a gap": (
        lambda: events().key_by("user").window(rh.Session(gap="0 minutes")),
        rh.ProgramError,
        "the gap of a session must be longer than 0: Session(gap='0 minutes')",
        'rh.Session(gap="10m")',
    ),
    "a gap that is no duration": (
        lambda: events().key_by("user").window(rh.Session(gap="soon")),
        rh.ProgramError,
        "'soon' is not a duration",
        "5 minutes",
    ),
    "a size that is no duration": (
        lambda: events().key_by("user").window(rh.Tumbling("5 parsecs")),
        rh.ProgramError,
        "is not a duration",
        "1h30m",
    ),
    "no window": (
        lambda: events().key_by("user").window("5m"),  # type: ignore[arg-type]
        rh.ProgramError,
        "takes a window",
        "rh.Tumbling",
    ),
    "an unknown column in an aggregate": (
        lambda: minutes(events()).aggregate(x=rh.agg.sum("valu")),
        rh.SchemaError,
        "unknown column 'valu' in sum()",
        "did you mean 'value'?",
    ),
    "the sum of texts": (
        lambda: minutes(events()).aggregate(x=rh.agg.sum("kind")),
        rh.SchemaError,
        "needs a number",
        "cast",
    ),
    "an aggregate that is none": (
        lambda: minutes(events()).aggregate(x="value"),  # type: ignore[arg-type]
        rh.ProgramError,
        "is not an aggregate",
        "rh.agg",
    ),
    "an aggregate function with a name": (
        lambda: minutes(events()).aggregate(x=rh.AggregateFunction()),  # type: ignore[arg-type]
        rh.ProgramError,
        "is not an aggregate",
        ".aggregate(AggregateFunction())",
    ),
    "an aggregate named as a key": (
        lambda: minutes(events()).aggregate(user=rh.agg.count()),
        rh.SchemaError,
        "two columns are named 'user'",
        "rename one of them",
    ),
    "no window function": (
        lambda: minutes(events()).process(Validate()),  # type: ignore[arg-type]
        rh.ProgramError,
        "takes a WindowFunction",
        "rh.WindowFunction",
    ),
    # --- unions
    "union with a missing column": (
        lambda: union_of(lambda rows: rows.select("user", "value")),
        rh.SchemaError,
        "only 'events' has 'kind', 'at'",
        "events: user: string",
    ),
    "union of other types": (
        lambda: union_of(lambda rows: rows.with_columns(col("value").cast(pl.Int32))),
        rh.SchemaError,
        "column 'value' is int64 in 'events' and int32 in 'with_columns'",
        ".select(",
    ),
    "union of another order": (
        lambda: union_of(lambda rows: rows.select("kind", "user", "value", "at")),
        rh.SchemaError,
        "different orders",
        ".select(",
    ),
    "union with and without event time": (
        lambda: timed_and_not(environment()),
        rh.ProgramError,
        "'timed' has event time, but 'plain' does not",
        "'plain'",
    ),
    "union with a keyed stream": (
        lambda: events().union(events().key_by("user")),  # type: ignore[arg-type]
        rh.ProgramError,
        "union() takes streams",
        "key_by()",
    ),
    "union over environments": (
        lambda: events().union(events()),
        rh.ProgramError,
        "one environment",
        "",
    ),
    "union of one": (lambda: events().union(), rh.ProgramError, "another stream", ""),
    # --- side outputs
    "an undeclared side output": (
        lambda: events().key_by("user").process(Validate()).side_output("odd"),
        rh.ProgramError,
        "unknown side output 'odd'",
        "side_outputs = ",
    ),
    "late rows of an unordered process": (
        lambda: events().key_by("user").process(Validate()).side_output("late"),
        rh.ProgramError,
        "unknown side output 'late'",
        "its side outputs are none",
    ),
    "a misspelt side output of a window": (
        lambda: minutes(events()).aggregate(n=rh.agg.count()).side_output("lates"),
        rh.ProgramError,
        "unknown side output 'lates'",
        "did you mean 'late'? its side outputs are late",
    ),
    "rejected rows of a source that rejects none": (
        lambda: events().side_output("rejected"),
        rh.ProgramError,
        "unknown side output 'rejected'",
        "on_error=",
    ),
    # --- sources, sinks, names
    "a watermark on an unknown column": (
        lambda: environment().from_source(rh.collection(EVENTS), rh.Watermark.monotonic(on="att")),
        rh.SchemaError,
        "unknown column 'att' for the watermark",
        "did you mean 'at'?",
    ),
    "a watermark on a text": (
        lambda: environment().from_source(rh.collection(EVENTS), rh.Watermark.monotonic(on="user")),
        rh.SchemaError,
        "'user' is string",
        'pass its format, such as format="%Y-%m-%d %H:%M:%S"',
    ),
    "a watermark on a float without a unit": (
        lambda: environment().from_source(
            rh.collection([{"at": 1.7e9}]), rh.Watermark.monotonic(on="at")
        ),
        rh.SchemaError,
        "'at' is double",
        'unit="s"',
    ),
    "a unit of a timestamp": (
        lambda: environment().from_source(
            rh.collection(EVENTS), rh.Watermark.monotonic(on="at", unit="s")
        ),
        rh.SchemaError,
        "does not fit unit='s'",
        "leave it out",
    ),
    "a format of a timestamp": (
        lambda: environment().from_source(
            rh.collection(EVENTS), rh.Watermark.monotonic(on="at", format="%Y")
        ),
        rh.SchemaError,
        "does not fit format='%Y'",
        "leave it out",
    ),
    "a window by an event time that was changed": (
        lambda: (
            events()
            .with_columns(at=col("at").dt.offset_by("1d"))
            .filter("value > 0")
            .key_by("user")
            .window(rh.Tumbling("1m"))
        ),
        rh.ProgramError,
        "changes the values of 'at'",
        ".with_event_time(",
    ),
    "an order by an event time that was changed": (
        lambda: (
            events()
            .select("user", "kind", "value", at=col("at").dt.truncate("1h"))
            .key_by("user")
            .process(Validate(), order="event_time")
        ),
        rh.ProgramError,
        "select() at",
        "rename the computed column",
    ),
    "a new event time of results without event time": (
        lambda: (
            environment()
            .from_source(rh.collection([{"user": "a", "at": 1}]))
            .key_by("user")
            .running(n=rh.agg.count(), at=rh.agg.max("at"))
            .with_event_time(rh.Watermark.monotonic(on="at"))
        ),
        rh.ProgramError,
        "are no longer in the order of their source, and have no event time",
        "before key_by(), union()",
    ),
    "a punctuated event time of united streams": (
        lambda: (
            united()
            .filter("value > 0")
            .with_event_time(rh.Watermark.punctuated(on="at", when=col("value") > 1))
        ),
        rh.ProgramError,
        "punctuated needs the rows of a source in their order, but these are the rows of 'filter'",
        "bounded_out_of_orderness",
    ),
    "an idle event time of results": (
        lambda: (
            events()
            .key_by("user")
            .running(n=rh.agg.count())
            .with_event_time(rh.Watermark.monotonic(on="at", idle_after="1m"))
        ),
        rh.ProgramError,
        "idle_after needs the rows of a source in their order",
        "at most that long before the event time",
    ),
    "an event time of keyed rows": (
        lambda: events().key_by("user").with_event_time(rh.Watermark.monotonic(on="at")),  # type: ignore[attr-defined]
        rh.ProgramError,
        "has no with_event_time()",
        "before key_by()",
    ),
    "an event time that is no watermark": (
        lambda: events().with_event_time("at"),  # type: ignore[arg-type]
        rh.ProgramError,
        "'at' is not a watermark strategy",
        ".with_event_time(rh.Watermark",
    ),
    "datetimes with a zone and without one": (
        lambda: rh.collection([{"at": datetime(2026, 1, 1, tzinfo=UTC)}, {"at": datetime(2026, 1, 2)}]),
        rh.SchemaError,
        "column 'at' of the collection has datetimes with a zone and without one",
        "give all of them a time zone: datetime(..., tzinfo=UTC). A datetime without one is UTC",
    ),
    "a source that is none": (
        lambda: environment().from_source("logs/"),  # type: ignore[arg-type]
        rh.ProgramError,
        "takes a source",
        "rh.files.source",
    ),
    "a sink that is none": (
        lambda: events().sink_to("out/"),  # type: ignore[func-returns-value,arg-type]
        rh.ProgramError,
        "takes a sink",
        "rh.files.sink",
    ),
    "a hidden column in a source": (
        lambda: stream({"__ts": pa.int64()}),
        rh.SchemaError,
        "cannot have the name '__ts'",
        "rename",
    ),
    "an empty name": (lambda: events().name(" "), rh.ProgramError, "non-empty", ""),
    "no sinks": (
        lambda: events()._program and environment().execute(),
        rh.ProgramError,
        "no sinks",
        ".sink_to(",
    ),
}


def union_of(change: Callable[[rh.DataStream], rh.DataStream]) -> object:
    rows = events()
    return rows.union(change(rows))


def timed_and_not(env: rh.Environment) -> object:
    return events(env, name="timed").union(events(env, timed=False, name="plain"))


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_wrong_program_is_refused(name: str) -> None:
    program, error, what, hint = PROGRAMS[name]
    refused(program, error, what, hint)


def test_the_error_names_the_line_of_the_call() -> None:
    def program() -> None:
        rows = (
            events()
            .filter("value > 0")
            .select(col("valu"))
            .filter("value > 0")
        )  # fmt: skip
        rows.print()

    refused(program, rh.SchemaError, "unknown column", "", at=".select(")


def test_two_operators_with_one_uid_are_refused_with_both_lines() -> None:
    rows = events()
    first = rows.filter("value > 0").name("first").uid("same")

    def program() -> None:
        rows.filter("value > 1").uid("same")

    refused(
        program, rh.ProgramError, "'first' at " + str(first._node.site), "its own", at='.uid("same")'
    )


def test_two_collects_with_one_name_are_refused() -> None:
    rows = events()
    rows.collect("rows")
    refused(
        lambda: rows.collect("rows"), rh.ProgramError, "two streams are collected as 'rows'", "own name"
    )


class Picky(PrintSink):
    def validate(self, schema: pa.Schema) -> None:
        raise rh.SchemaError("these columns cannot be written")


def test_a_sink_may_refuse_the_columns() -> None:
    refused(lambda: events().sink_to(Picky()), rh.SchemaError, "cannot be written", "", at="sink_to")


def test_an_unknown_annotation_is_named() -> None:
    def lost(event: Event) -> Nowhere:  # type: ignore[name-defined]  # noqa: F821
        return event

    refused(lambda: events().map(lost), rh.SchemaError, "Nowhere", "returns=")


def test_sources_and_sinks_are_refused_at_their_line() -> None:
    files, tables = rh.files, rh.tables
    wrong: Any = "orc"
    refused(lambda: files.source("a", schema=Event, format=wrong), rh.ProgramError, "orc", "", at='a"')
    refused(lambda: files.sink("b", format=wrong), rh.ProgramError, "orc", "", at='sink("b"')
    refused(lambda: tables.sink("c", format=wrong), rh.ProgramError, "orc", "", at='sink("c"')
    refused(lambda: rh.hybrid(rh.collection([])), rh.RheosError, "", "", at="hybrid(")
    refused(lambda: rh.generator(lambda block: {}, count=0), rh.ProgramError, "count", "", at="count=0")


class OnTheInstance(rh.KeyedProcessFunction):
    def __init__(self) -> None:
        self.seen = rh.ValueState(int, default=0)  # here

    def process_element(self, event: Event, ctx: rh.KeyedContext) -> Iterator[Alert]:
        self.seen.value += 1
        yield Alert(event.user, self.seen.value)


def line_of(mark: str) -> int:
    lines = Path(__file__).read_text().splitlines()
    return next(i for i, line in enumerate(lines, 1) if line.endswith(mark))


def test_state_declared_on_the_instance_is_refused_at_its_own_line() -> None:
    with pytest.raises(rh.ProgramError, match="state 'seen' of OnTheInstance is declared") as caught:
        events(environment()).key_by("user").process(OnTheInstance())
    assert caught.value.site is not None
    assert caught.value.site.line == line_of("# " + "here")
    assert "seen = rh.ValueState(...)" in str(caught.value.hint)


def test_state_without_an_owner_is_an_error_at_its_line() -> None:
    loose = rh.ListState(int)
    with pytest.raises(
        rh.StateAccessError, match="the state is used without being an attribute of a class"
    ) as caught:
        loose.append(1)
    assert caught.value.site is not None
    assert caught.value.site.file == __file__


def test_a_method_in_place_of_an_instance_is_named() -> None:
    keyed = events().key_by("user")
    for given in (Validate.process_element, Validate().process_element):
        refused(
            lambda given=given: keyed.process(given),  # type: ignore[misc]
            rh.ProgramError,
            "takes an instance of Validate, not its method",
            "write .process(Validate())",
        )


def test_a_map_of_numbers_in_json_lines_is_refused_at_its_line() -> None:
    schema = pa.schema([("m", pa.map_(pa.int64(), pa.string()))])
    for path in ("logs/*.jsonl", ["a.parquet", "b.jsonl.gz"]):
        refused(
            lambda path=path: rh.files.source(path, schema=schema),  # type: ignore[misc]
            rh.SchemaError,
            "cannot be written as JSON",
            "use Parquet",
            at="rh.files.source",
        )


def test_a_pandas_series_is_refused_and_a_frame_accepted() -> None:
    frame = pd.DataFrame({"n": [1, 2], "k": ["a", None]}, index=[7, 8])
    assert rh.collection(frame).table.to_pylist() == [{"n": 1, "k": "a"}, {"n": 2, "k": None}]
    refused(lambda: rh.collection(frame["n"]), rh.SchemaError, "has no columns", "to_frame")
