"""One order of floats wherever SQL compares, ranks, groups or joins them.

NaN equals NaN and is greater than all numbers; -0.0 equals 0.0.
"""

from __future__ import annotations

import math
import struct
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

import rheos as rh
from tests.sql.compare import key_of

OTHER_NAN = struct.unpack("<d", struct.pack("<Q", 0xFFF8_0000_0000_0001))[0]
"""NaN with other bits."""
VALUES = (1.5, math.nan, -0.0, 0.0, math.inf, -math.inf, OTHER_NAN, 2.0, -1.0, 0.0, 5e-324, None)


def _table(kind: pa.DataType) -> pa.Table:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    rows = len(VALUES)
    return pa.table(
        {
            "id": range(rows),
            "k": [0] * rows,
            "x": pa.array(VALUES, pa.float64()).cast(kind),
            "y": pa.array(VALUES[::-1], pa.float64()).cast(kind),
            "at": [start + timedelta(seconds=place) for place in range(rows)],
        }
    )


def _rows(text: str, kind: pa.DataType) -> list[dict[str, Any]]:
    env = rh.Environment(runtime="simulated")
    times = rh.Watermark.bounded_out_of_orderness("0s", on="at")
    env.register("t", env.from_source(rh.collection(_table(kind)), watermark=times))
    stream = env.sql(text, state_ttl="forever")
    stream.collect("found")
    key = key_of(stream)
    left: Counter[tuple[Any, ...]] = Counter()
    known = {}
    for row in env.execute("floats").collected["found"].to_pylist():
        op = row.pop("op", "insert")
        values = tuple(_rank(row[name]) for name in key or row)
        known[values] = row
        gone = op in ("delete", "update_before")
        left[values] = int(not gone) if key else left[values] + (-1 if gone else 1)
    return [known[values] for values in left.elements()]


def _rank(value: float | None) -> tuple[int, float]:
    """Return a key for the order of floats; null is the least."""
    if value is None:
        return 0, 0.0
    return (2, 0.0) if math.isnan(value) else (1, value + 0.0)


def _sorted(values: Iterable[float | None]) -> list[tuple[int, float]]:
    return sorted(map(_rank, values))


WINDOW = "TABLE(TUMBLE(TABLE t, DESCRIPTOR(at), INTERVAL '1' HOUR))"
BOUNDS = "window_start, window_end"
FRAME = "OVER (PARTITION BY k ORDER BY at ROWS BETWEEN 100 PRECEDING AND CURRENT ROW)"
KINDS = pytest.mark.parametrize("kind", [pa.float64(), pa.float32()], ids=str)


def _values(kind: pa.DataType) -> list[float | None]:
    return _table(kind)["x"].to_pylist()


EXTREMES = {
    "all rows": "SELECT MAX(x) AS most, MIN(x) AS least FROM t",
    "groups": "SELECT MAX(x) AS most, MIN(x) AS least FROM t GROUP BY k",
    "windows": f"SELECT MAX(x) AS most, MIN(x) AS least FROM {WINDOW} GROUP BY {BOUNDS}",
    "changes": "SELECT MAX(x) AS most, MIN(x) AS least FROM "
    "(SELECT id, MAX(x) AS x FROM t GROUP BY id) AS s",
    "frames": "SELECT most, least FROM (SELECT id, MAX(x) {f} AS most, MIN(x) {f} AS least FROM t) "
    "AS s WHERE id = 10".replace("{f}", FRAME),
    "choices": "SELECT GREATEST(MAX(x), -1e0) AS most, LEAST(MIN(x), MAX(x), 1e0) AS least FROM t",
}


@KINDS
@pytest.mark.parametrize("place", EXTREMES)
def test_nan_is_the_greatest_number(place: str, kind: pa.DataType) -> None:
    [row] = _rows(EXTREMES[place], kind)
    assert math.isnan(row["most"])
    assert row["least"] == -math.inf


RANKS = {
    "rows": ("FROM t", "PARTITION BY k"),
    "windows": (f"FROM {WINDOW}", f"PARTITION BY {BOUNDS}"),
    "changes": ("FROM (SELECT id, k, MAX(x) AS x FROM t GROUP BY id, k) AS s", "PARTITION BY k"),
}


@pytest.mark.thinned(3)
@KINDS
@pytest.mark.parametrize("order", ["ASC", "DESC"])
@pytest.mark.parametrize("place", RANKS)
def test_the_first_rows_follow_the_order(place: str, order: str, kind: pa.DataType) -> None:
    of, by = RANKS[place]
    for n in (3, 7, len(VALUES)):
        found = _rows(
            f"SELECT x FROM (SELECT x, ROW_NUMBER() OVER ({by} ORDER BY x {order}) AS n {of}) AS r "
            f"WHERE n <= {n}",
            kind,
        )
        expected = _sorted(_values(kind))
        expected = expected[:n] if order == "ASC" else expected[-n:]
        assert _sorted(row["x"] for row in found) == expected


GROUPS = {
    "GROUP BY": "SELECT x FROM t GROUP BY x",
    "windows": f"SELECT x FROM {WINDOW} GROUP BY x, {BOUNDS}",
    "DISTINCT": "SELECT DISTINCT x FROM t",
    "UNION": "SELECT x FROM t UNION SELECT y FROM t",
    "INTERSECT": "SELECT x FROM t INTERSECT SELECT y FROM t",
}


@KINDS
@pytest.mark.parametrize("place", GROUPS)
def test_equal_floats_form_one_group(place: str, kind: pa.DataType) -> None:
    found = [row["x"] for row in _rows(GROUPS[place], kind)]
    assert _sorted(found) == sorted({*map(_rank, _values(kind))})


@KINDS
@pytest.mark.parametrize("of", [f"FROM {WINDOW} GROUP BY {BOUNDS}", "FROM t", "FROM t GROUP BY k"])
def test_equal_floats_count_once(of: str, kind: pa.DataType) -> None:
    [row] = _rows(f"SELECT COUNT(DISTINCT x) AS n {of}", kind)
    assert row["n"] == len({_rank(value) for value in _values(kind) if value is not None})


PAIRS = {
    "JOIN": "SELECT a.id AS i, b.id AS j FROM t AS a JOIN t AS b ON a.x = b.y",
    "WHERE": "SELECT a.id AS i, b.id AS j FROM t AS a JOIN t AS b ON a.k = b.k WHERE a.x = b.y",
}


@KINDS
@pytest.mark.parametrize("place", PAIRS)
def test_equal_floats_are_joined(place: str, kind: pa.DataType) -> None:
    rows = _table(kind).to_pylist()
    expected = [
        (one["id"], other["id"])
        for one in rows
        for other in rows
        if one["x"] is not None and _rank(one["x"]) == _rank(other["y"])
    ]
    assert sorted((row["i"], row["j"]) for row in _rows(PAIRS[place], kind)) == expected


@KINDS
def test_comparisons_follow_the_order(kind: pa.DataType) -> None:
    found = _rows(
        "SELECT a.x AS x, b.y AS y, a.x < b.y AS lt, a.x <= b.y AS le, a.x = b.y AS eq, "
        "a.x <=> b.y AS same, a.x IN (b.y) AS found, a.x BETWEEN b.y AND b.y AS between, "
        "GREATEST(a.x, b.y) AS most, LEAST(a.x, b.y) AS least "
        "FROM t AS a JOIN t AS b ON a.k = b.k WHERE a.x IS NOT NULL AND b.y IS NOT NULL",
        kind,
    )
    assert found
    for row in found:
        x, y = _rank(row["x"]), _rank(row["y"])
        assert (row["lt"], row["le"], row["eq"]) == (x < y, x <= y, x == y), row
        assert row["same"] == row["found"] == row["between"] == (x == y), row
        assert (_rank(row["most"]), _rank(row["least"])) == (max(x, y), min(x, y)), row


def test_several_columns_of_floats_are_collected() -> None:
    [row] = _rows(
        f"SELECT SIZE(COLLECT_LIST(x)) AS xs, SIZE(COLLECT_LIST(y)) AS ys FROM {WINDOW} "
        f"GROUP BY {BOUNDS}",
        pa.float64(),
    )
    assert row == {"xs": len(VALUES) - 1, "ys": len(VALUES) - 1}
