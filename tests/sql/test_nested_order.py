"""Arrays and structs in the order of their elements, wherever SQL compares them."""

from __future__ import annotations

import math
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rheos as rh
from rheos.sql.expressions.order_keys import is_ordered, order_key
from tests.sql.compare import key_of, rows_of

KINDS: dict[str, tuple[pl.DataType, st.SearchStrategy[Any]]] = {
    "integers": (
        pl.List(pl.Int64()),
        st.lists(st.none() | st.integers(-(2**63), 2**63 - 1), max_size=3),
    ),
    "floats": (
        pl.List(pl.Float64()),
        st.lists(
            st.none() | st.sampled_from([-1.5, -0.0, 0.0, 2.0, math.inf, -math.inf, math.nan]),
            max_size=3,
        ),
    ),
    "strings": (
        pl.List(pl.String()),
        st.lists(st.none() | st.text("a!~ \x00ß", max_size=2), max_size=3),
    ),
    "lists": (
        pl.List(pl.List(pl.Int8())),
        st.lists(st.none() | st.lists(st.none() | st.integers(-2, 2), max_size=2), max_size=3),
    ),
    "structs": (
        pl.List(pl.Struct({"a": pl.Boolean(), "b": pl.String()})),
        st.lists(
            st.none()
            | st.fixed_dictionaries(
                {"a": st.none() | st.booleans(), "b": st.none() | st.text("ab", max_size=2)}
            ),
            max_size=2,
        ),
    ),
}


def order(one: Any, other: Any) -> int:
    """Return -1, 0 or 1 by the rules: a null is least, NaN greatest, and a shorter list less."""
    match one, other:
        case (None, None):
            return 0
        case (None, _) | (_, None):
            return -1 if one is None else 1
        case dict(), dict():
            return order([*one.values()], [*other.values()])
        case list(), list():
            found = next((each for each in map(order, one, other) if each), 0)
            return found or (len(one) > len(other)) - (len(one) < len(other))
        case float(), float() if math.isnan(one) or math.isnan(other):
            return math.isnan(one) - math.isnan(other)
        case str(), str():
            one, other = one.encode(), other.encode()
    return (one > other) - (one < other)


@pytest.mark.parametrize("name", KINDS)
@given(st.data())
def test_keys_have_the_order_of_the_values(name: str, data: st.DataObject) -> None:
    kind, drawn = KINDS[name]
    values = data.draw(st.lists(st.none() | drawn, max_size=8))
    frame = pl.DataFrame({"value": pl.Series(values, dtype=kind)})
    keys = frame.select(order_key(pl.col("value"), kind)).to_series().to_list()
    assert [key is None for key in keys] == [value is None for value in values]
    there = [pair for pair in zip(values, keys, strict=True) if pair[1] is not None]
    for one, key in there:
        for other, another in there:
            assert order(one, other) == (key > another) - (key < another), (one, other)


def test_maps_and_variants_have_no_order() -> None:
    assert not is_ordered(pl.List(pl.Object()))
    with pytest.raises(rh.SchemaError, match="VARIANT cannot be compared"):
        rh.Environment(runtime="simulated").sql("SELECT PARSE_JSON('1') = PARSE_JSON('1') AS v")


ROWS = pa.table(
    {
        "id": range(6),
        "l": pa.array([[1, 2], [2], None, [], [1, None], [1, 2]], pa.list_(pa.int64())),
        "r": pa.array([[1, 3], [2], [1], [None], [1, None], [0]], pa.list_(pa.int32())),
        "s": pa.array(
            [
                {"a": 1, "b": "x"},
                {"a": 1, "b": None},
                None,
                {"a": 0, "b": "z"},
                {"a": 2, "b": ""},
                None,
            ],
            pa.struct([("a", pa.int64()), ("b", pa.string())]),
        ),
    }
)
QUERIES: dict[str, list[tuple[Any, ...]]] = {
    "SELECT id FROM rows WHERE l = ARRAY(1, 2)": [(0,), (5,)],
    "SELECT id FROM rows WHERE l < r": [(0,), (3,)],
    "SELECT id FROM rows WHERE l <=> r": [(1,), (4,)],
    "SELECT id FROM rows WHERE s > (1, 'a')": [(0,), (4,)],
    "SELECT id FROM rows WHERE s IN (NAMED_STRUCT('a', 0, 'b', 'z'), NAMED_STRUCT('a', 2, 'b', ''))": [
        (3,),
        (4,),
    ],
    "SELECT id FROM rows ORDER BY l DESC, id LIMIT 2": [(0,), (1,)],
    "SELECT id FROM rows ORDER BY s DESC NULLS LAST, l LIMIT 3": [(0,), (1,), (4,)],
    "SELECT MAX(l) AS m, MIN(s) AS n FROM rows": [((2,), (0, "z"))],
    "SELECT id % 2 AS k, MAX(s) AS m FROM rows GROUP BY id % 2": [(0, (2, "")), (1, (1, None))],
    "SELECT a.id, b.id AS other FROM rows AS a JOIN rows AS b ON a.l = b.r": [(1, 1), (4, 4)],
    "SELECT id FROM rows WHERE l IN (SELECT r FROM rows)": [(1,), (4,)],
    "SELECT id FROM rows WHERE 2 > ALL(l)": [(3,)],
    "SELECT id FROM rows WHERE 2 <= ANY(l)": [(0,), (1,), (5,)],
}


def test_queries_compare_arrays_and_structs() -> None:
    env = rh.Environment(parallelism=2, runtime="simulated")
    env.register("rows", env.from_source(rh.collection(ROWS)))
    keys = {}
    for text in QUERIES:
        stream = env.sql(text, state_ttl="forever")
        keys[text] = key_of(stream)
        stream.collect(text)
    found = env.execute("order").collected
    rows = {text: sorted(rows_of(found[text], keys[text]).elements(), key=repr) for text in QUERIES}
    assert rows == QUERIES
