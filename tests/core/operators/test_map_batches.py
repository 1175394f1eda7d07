"""map_batches: forms, checks of results, hidden columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from rheos.core.errors import UserFunctionError
from rheos.core.operators.map_batches import MapBatchesOperator, MapBatchesSpec
from rheos.core.protocol.elements import TS
from tests.core.operators.contexts import context

PLAIN = pa.schema([("k", pa.string()), ("n", pa.int64())])
DECLARED = pa.schema([("k", pa.string()), ("twice", pa.float64())])
TIMED, TIMED_OUT = PLAIN.append(pa.field(TS, pa.int64())), DECLARED.append(pa.field(TS, pa.int64()))

Form = Literal["polars", "arrow", "pandas"]


def run(fn: Callable[[Any], Any], form: Form, *, timed: bool = False, batch_rows: int = 100) -> Any:
    schema, output = (TIMED, TIMED_OUT) if timed else (PLAIN, DECLARED)
    op = MapBatchesOperator(context(schema, output, batch_rows=batch_rows), MapBatchesSpec(fn, form))
    columns = [pa.array(["a", "b", "c"]), pa.array([1, 2, 3]), pa.array([7, 8, 9])]
    outs = list(op.on_batch(0, pa.record_batch(columns[: len(schema)], schema=schema)))
    assert all(out.batch.schema == output for out in outs)
    return [row for out in outs for row in out.batch.to_pylist()]


def in_polars(frame: pl.DataFrame) -> pl.DataFrame:
    assert frame.columns == ["k", "n"]
    return frame.select(twice=pl.col("n") * 2, k="k")


def in_arrow(batch: pa.RecordBatch) -> pa.RecordBatch:
    assert isinstance(batch, pa.RecordBatch)
    return pa.record_batch({"k": batch.column("k"), "twice": pa.array([2, 4, 6], pa.int32())})


def in_table(batch: pa.RecordBatch) -> pa.Table:
    return pa.concat_tables([pa.Table.from_batches([in_arrow(batch)])])


def in_pandas(frame: pd.DataFrame) -> pd.DataFrame:
    frame["twice"] = frame.pop("n") * 2
    return frame


FORMS: list[tuple[Callable[[Any], Any], Form]] = [
    (in_polars, "polars"),
    (in_arrow, "arrow"),
    (in_table, "arrow"),
    (in_pandas, "pandas"),
]


@pytest.mark.parametrize(("fn", "form"), FORMS)
def test_every_form_returns_the_declared_columns(fn: Callable[[Any], Any], form: Form) -> None:
    expected = [{"k": "a", "twice": 2.0}, {"k": "b", "twice": 4.0}, {"k": "c", "twice": 6.0}]
    assert run(fn, form) == expected
    timed = run(fn, form, timed=True)
    assert timed == [row | {TS: 7 + i} for i, row in enumerate(expected)]


def test_without_event_time_rows_may_be_dropped_and_added() -> None:
    assert run(lambda frame: in_polars(frame).head(1), "polars") == [{"k": "a", "twice": 2.0}]
    assert run(lambda frame: in_polars(frame).head(0), "polars") == []
    assert len(run(lambda frame: pl.concat([in_polars(frame)] * 3), "polars", batch_rows=2)) == 9


@pytest.mark.parametrize(
    ("fn", "form", "what"),
    [
        (
            lambda f: f,
            "polars",
            r"returned the columns k: .*, n: int64, but declares k: string, twice: double",
        ),
        (lambda f: in_polars(f).with_columns(x=1), "polars", "() returned the columns"),
        (lambda f: in_polars(f).lazy(), "polars", "() returned LazyFrame, but must return a"),
        (lambda f: None, "arrow", "returned NoneType"),
        (lambda f: in_polars(pl.from_arrow(f)), "arrow", "returned DataFrame"),  # type: ignore[arg-type]
        (
            lambda f: in_polars(f).cast(pl.String),
            "polars",
            "() returned column 'twice' as large_string, but declares",
        ),
    ],
)
def test_results_that_do_not_fit_are_refused(fn: Callable[[Any], Any], form: Form, what: str) -> None:
    with pytest.raises(UserFunctionError, match=what) as caught:
        run(fn, form)
    assert str(caught.value).startswith("program.py:7: operator 'the operator'")
    assert caught.value.hint


def test_values_that_do_not_fit_are_refused() -> None:
    declared = pa.schema([pa.field("n", pa.int8(), nullable=False)])

    def run_one(values: list[Any]) -> None:
        spec = MapBatchesSpec(lambda batch: pa.record_batch({"n": pa.array(values)}), "arrow")
        op = MapBatchesOperator(context(PLAIN, declared), spec)
        list(op.on_batch(0, pa.record_batch([["a"], [1]], schema=PLAIN)))

    run_one([1, 2])
    with pytest.raises(UserFunctionError, match="\\(\\) returned values in column"):
        run_one([1000])
    with pytest.raises(UserFunctionError, match="\\(\\) returned nulls in column 'n', which is"):
        run_one([1, None])


def test_with_event_time_the_number_of_rows_is_fixed() -> None:
    with pytest.raises(UserFunctionError, match="\\(\\) returned 2 rows for 3, so the event time of"):
        run(lambda frame: in_polars(frame).head(2), "polars", timed=True)


def test_an_error_of_the_function_has_its_location() -> None:
    def broken(frame: pl.DataFrame) -> pl.DataFrame:
        raise KeyError("oops")

    with pytest.raises(UserFunctionError, match="KeyError") as caught:
        run(broken, "polars")
    assert caught.value.site is not None
    assert caught.value.site.file == __file__
    assert caught.value.record is not None
    assert "3" in caught.value.record


@pytest.mark.parametrize("nullable", [True, False])
def test_the_pandas_dtype_depends_only_on_the_column(nullable: bool) -> None:
    """Check that integers next to a null do not become floats, and keep their digits beyond 2**53."""
    kinds = {"i": pa.int64(), "u": pa.uint64(), "f": pa.float64(), "b": pa.bool_()}
    schema = pa.schema([pa.field(name, kind, nullable) for name, kind in kinds.items()])
    whole = {"i": 2**60 + 1, "u": 2**64 - 1, "f": float("nan"), "b": True}
    rows = [whole, dict.fromkeys(whole) if nullable else whole]
    seen = set()

    def look(frame: pd.DataFrame) -> pd.DataFrame:
        seen.add(tuple(map(str, frame.dtypes)))
        return frame

    op = MapBatchesOperator(context(schema, schema), MapBatchesSpec(look, "pandas"))
    batch = pa.RecordBatch.from_pylist(rows, schema)
    for part in (batch, batch.slice(0, 1), batch.slice(1, 1)):
        (out,) = op.on_batch(0, part)
        assert repr(out.batch.to_pylist()) == repr(part.to_pylist())
    names = ("Int64", "UInt64", "Float64", "boolean")
    assert seen == {names if nullable else ("int64", "uint64", "float64", "bool")}


def test_nan_of_numpy_is_null_in_nullable_columns() -> None:
    def gave(*, nullable: bool) -> Any:
        schema = pa.schema([pa.field("f", pa.float64(), nullable)])
        op = MapBatchesOperator(
            context(schema, schema),
            MapBatchesSpec(lambda frame: pd.DataFrame({"f": [float("nan")]}), "pandas"),
        )
        (out,) = op.on_batch(0, pa.record_batch([[1.0]], schema=schema))
        return out.batch.column("f")[0].as_py()

    assert gave(nullable=True) is None
    assert str(gave(nullable=False)) == "nan"
