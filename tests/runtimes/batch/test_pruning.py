"""A program has the same result whether unneeded columns exist or not."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rheos as rh
from rheos import col
from rheos.core.operators.source import SourceSpec
from rheos.core.plan.physical import PhysicalPlan

ROWS = pa.table(
    {
        "at": [1_000, 2_000, 1_500, 9_000, 3_000, 30_000],
        "k": ["a", "b", "a", None, "b", "a"],
        "v": [1, 2, None, 4, 5, 6],
        "w": [0.5, None, 1.5, 2.5, -1.0, 3.0],
        "s": ["x", "y", "z", None, "x", "y"],
    }
)
Step = Callable[[rh.DataStream], rh.DataStream]

STEPS: dict[str, Step] = {
    "filter": lambda s: s.filter(col("v") > 1),
    "filter by two": lambda s: s.filter((col("w") > 0) | (col("s") == "x")),
    "with": lambda s: s.with_columns(v=col("v") * 2),
    "with new": lambda s: s.with_columns(d=col("v") + col("w")),
    "with all": lambda s: s.with_columns(pl.col(pl.Int64).exclude("at") * 1),
    "select": lambda s: s.select("at", "k", "v", "w", "s"),
    "select computed": lambda s: s.select("at", "k", "s", v=col("v") * 2, w=col("w")),
    "running": lambda s: s.filter(col("k").is_not_null()).key_by("k").running(n=rh.agg.sum("v")),
}


def windowed(stream: rh.DataStream) -> rh.DataStream:
    kept = stream.filter(col("k").is_not_null()).key_by("k").window(rh.Tumbling("2s"))
    return kept.aggregate(n=rh.agg.count(), w=rh.agg.max("w"))


ENDS: dict[str, Step] = {
    "window": windowed,
    "select": lambda s: s.select("k", x=col("w") + 1),
    "one": lambda s: s.select("s"),
    "whole": lambda s: s,
    "function": lambda s: s.map(lambda row: {"v": row.v}, returns=pa.schema({"v": pa.int64()})),
}


def program(table: pa.Table, paths: list[tuple[list[str], str]]) -> rh.Environment:
    env = rh.Environment(1, runtime="simulated")
    source = rh.collection(table)
    watermark = rh.Watermark.bounded_out_of_orderness("0s", on="at")
    rows = env.from_source(source, watermark=watermark, name="rows")
    for number, (steps, end) in enumerate(paths):
        stream = rows
        for step in steps:
            stream = STEPS[step](stream)
        ENDS[end](stream).collect(str(number))
    return env


def needed(plan: PhysicalPlan) -> frozenset[str]:
    spec = plan.chains[0].operators[0].spec
    assert isinstance(spec, SourceSpec)
    return spec.columns_to_read


@settings(max_examples=25)
@given(
    st.lists(
        st.tuples(st.lists(st.sampled_from(sorted(STEPS)), max_size=3), st.sampled_from(sorted(ENDS))),
        min_size=1,
        max_size=3,
    )
)
def test_dropping_unneeded_columns_changes_no_result(paths: list[tuple[list[str], str]]) -> None:
    paths = [(list(dict.fromkeys(steps)), end) for steps, end in paths]
    there = needed(program(ROWS, paths).plan())
    pruned = pa.table(
        [
            ROWS.column(field.name) if field.name in there else pa.nulls(ROWS.num_rows, field.type)
            for field in ROWS.schema
        ],
        schema=ROWS.schema,
    )
    whole = program(ROWS, paths).execute().collected
    rest = program(pruned, paths).execute().collected
    for name, table in whole.items():
        assert sorted(map(str, table.to_pylist())) == sorted(map(str, rest[name].to_pylist()))


@pytest.mark.parametrize(
    ("paths", "columns"),
    [
        ([(["filter"], "window")], "at k v w"),
        ([(["select"], "one")], "at s"),
        ([(["with"], "one")], "at s v"),
        ([(["with new"], "window")], "at k v w"),
        ([(["running"], "one")], "at k s v"),
        ([(["filter by two"], "one"), ([], "select")], "at k s w"),
        ([(["with all"], "one")], "at k s v w"),
        ([([], "function")], "at k s v w"),
        ([([], "whole")], "at k s v w"),
    ],
)
def test_the_needed_columns_of_a_program(paths: list[tuple[list[str], str]], columns: str) -> None:
    assert needed(program(ROWS, paths).plan()) == set(columns.split())


def test_a_late_output_needs_all_columns() -> None:
    env = rh.Environment(1, runtime="simulated")
    rows = env.from_source(rh.collection(ROWS), watermark=rh.Watermark.monotonic(on="at"))
    windows = rows.key_by("k").window(rh.Tumbling("2s")).aggregate(n=rh.agg.count())
    windows.collect("windows")
    assert needed(env.plan()) == {"at", "k"}
    windows.side_output("late").collect("late")
    assert needed(env.plan()) == set(ROWS.schema.names)


def test_polars_reports_the_columns_of_an_expression() -> None:
    """The planner derives the needed columns from these methods."""
    computed = (col("v") + col("w")).alias("z")
    assert sorted(computed.meta.root_names()) == ["v", "w"]
    assert computed.meta.output_name() == "z"
    assert not computed.meta.is_column()
    assert col("v").meta.is_column()
    assert not computed.meta.has_multiple_outputs()
    for several in (pl.all(), pl.col(pl.Int64), pl.col("^v.*$"), pl.col("v", "w") * 2):
        assert several.meta.has_multiple_outputs()
