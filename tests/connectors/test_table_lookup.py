"""Tables in memory that are looked up: those that the program passes, and those that it loads."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

import rheos as rh
from rheos.connectors.keyed_rows import LookupRows
from rheos.core.connectors.lookup import LookupClient, LookupContext
from rheos.core.errors import RheosError, SchemaError
from rheos.testing import simulate
from tests.connectors.ports import ManualClock

TOWNS = pl.DataFrame(
    {
        "zip": [89073, 89075, 28195, 28195],
        "town": ["ulm", "ulm", "bremen", "osterholz"],
        "people": pl.Series([10, None, 30, 4], dtype=pl.Int32),
    }
)


def client(lookup: Any, clock: ManualClock | None = None) -> LookupClient:
    keys = pa.schema([pa.field("zip", pa.int64(), nullable=False)])
    made: LookupClient = lookup.open(LookupContext("towns", 0, keys, clock))
    return made


def found(of: LookupClient, *zips: int) -> list[tuple[int, Any]]:
    answer = of.fetch(pa.record_batch({"zip": pa.array(zips, pa.int64())}))
    return list(zip(answer.of.to_pylist(), answer.rows.column("town").to_pylist(), strict=True))


def pandas_towns() -> Any:
    return TOWNS.to_pandas()


@pytest.mark.parametrize(
    "table",
    [TOWNS, TOWNS.to_arrow(), pytest.param(TOWNS.to_dicts(), id="dicts"), pandas_towns()],
    ids=["polars", "arrow", None, "pandas"],
)
def test_rows_are_found_by_key_in_any_form_of_table(table: Any) -> None:
    lookup = pickle.loads(pickle.dumps(rh.lookup_table(table, key="zip")))
    assert lookup.schema.names == ["town", "people"]
    of = client(lookup)
    assert found(of, 28195, 1, 89073) == [(0, "bremen"), (0, "osterholz"), (2, "ulm")]
    assert found(of, 1) == []


def test_a_number_that_is_too_large_for_the_tables_type_has_no_row() -> None:
    narrow = TOWNS.with_columns(pl.col("zip").cast(pl.UInt32))
    assert found(client(rh.lookup_table(narrow, key="zip")), -1, 2**40, 89075) == [(2, "ulm")]


def test_a_table_is_reloaded_at_intervals() -> None:
    loads: Iterator[Any] = iter([[("ulm", 1)], OSError("away"), [("bonn", 1), ("ulm", 2)]])

    def load() -> list[dict[str, Any]]:
        of = next(loads)
        if isinstance(of, Exception):
            raise of
        return [{"town": town, "zip": zip} for town, zip in of]

    schema = pa.schema([("zip", pa.int64()), ("town", pa.string())])
    clock = ManualClock()
    of = client(rh.lookup_table(load, key="zip", schema=schema, reload_every="1m"), clock)
    assert found(of, 1, 2) == [(0, "ulm")]
    clock.us += 59_000_000
    assert found(of, 1, 2) == [(0, "ulm")]
    clock.us += 1_000_000
    # A system that is away is asked again by who looks up.
    with pytest.raises(OSError, match="away"):
        found(of, 1)
    assert found(of, 1, 2) == [(0, "bonn"), (1, "ulm")]


def test_a_loaded_table_must_have_the_declared_schema() -> None:
    schema = pa.schema([("zip", pa.int64()), ("town", pa.string())])
    with pytest.raises(SchemaError, match="town"):
        found(client(rh.lookup_table(lambda: [{"zip": 1, "town": 7}], key="zip", schema=schema)), 1)


@dataclass
class Sale:
    n: int
    zip: int | None


def test_a_stream_is_joined_with_a_table() -> None:
    def build(env: rh.Environment) -> rh.DataStream:
        sales = env.from_source(rh.collection([Sale(n, 89073 + n) for n in range(4)] + [Sale(9, None)]))
        return sales.lookup(rh.lookup_table(TOWNS, key="zip"), on="zip")

    rows = simulate(build, seed=3).out.sort_by("n").to_pylist()
    assert [(row["n"], row["town"], row["people"]) for row in rows] == [
        (0, "ulm", 10),
        (1, None, None),
        (2, "ulm", None),
        (3, None, None),
        (9, None, None),
    ]


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (lambda: rh.lookup_table(TOWNS, key="zap"), "did you mean 'zip'"),
        (lambda: rh.lookup_table(TOWNS, key=()), "must name at least one column"),
        (lambda: rh.lookup_table(TOWNS.select("zip"), key="zip"), "no columns but its key"),
        (lambda: rh.lookup_table(lambda: TOWNS, key="zip"), "schema=Price"),
        (
            lambda: rh.lookup_table(TOWNS, key="zip", reload_every="1m"),
            "reload_every= needs a function that loads the table; this one is already in memory",
        ),
    ],
)
def test_invalid_arguments_are_refused_at_their_line(given: Callable[[], Any], text: str) -> None:
    with pytest.raises(RheosError) as raised:
        given()
    assert text in str(raised.value)
    assert raised.value.site is not None
    assert Path(raised.value.site.file) == Path(__file__)


def test_keys_of_another_type_are_refused() -> None:
    env = rh.Environment(1)
    sales = env.from_source(rh.collection([{"n": 1, "zip": "89073"}]))
    with pytest.raises(SchemaError, match="of the table is int64, but the stream's column is string"):
        sales.lookup(rh.lookup_table(TOWNS, key="zip"), on="zip")


@pytest.mark.spark
def test_a_spark_table_is_accepted(spark: Any) -> None:
    table = spark.createDataFrame(TOWNS.to_pandas()[["zip", "town"]])
    assert found(client(rh.lookup_table(table, key="zip")), 89075) == [(0, "ulm")]


def test_keys_of_several_columns_and_of_lists_are_compared_by_value() -> None:
    keys = pa.table({"a": [[1.0], [1.0], [2.0, 3.0], [1.0]], "b": ["x", None, "x", "x"]})
    rows = LookupRows(keys, pa.table({"n": [1, 2, 3, 4]}))
    answer = rows.find(pa.record_batch({"a": [[2.0, 3.0], [3.0], [1.0]], "b": ["x"] * 3}))
    assert (answer.of.to_pylist(), answer.rows.column("n").to_pylist()) == ([0, 2, 2], [3, 1, 4])
