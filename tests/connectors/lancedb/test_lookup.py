"""Rows of a stream are joined with those of a table of LanceDB, by key and by the nearest vectors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import rheos as rh
from rheos.core.errors import ConfigurationError, InputError, ProgramError, SchemaError

pytestmark = pytest.mark.slow  # The library takes seconds to import.
lancedb = pytest.importorskip("lancedb")

VECTORS = pa.list_(pa.float32(), 2)
NOTES = pa.table(
    {
        "id": ["rain", "sun", "it's", "snow"],
        "lang": ["en", "en", "en", "de"],
        "vector": pa.array([[0, 1], [1, 0], [1, 1], [0, 0.9]], VECTORS),
    }
)


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    lancedb.connect(str(tmp_path)).create_table("notes", NOTES)
    return tmp_path


def joined(rows: pa.Table, lookup: Any, on: str, **how: Any) -> list[dict[str, Any]]:
    env = rh.Environment(1, runtime="simulated")
    env.from_source(rh.collection(rows)).lookup(lookup, on=on, **how).collect("rows")
    found: list[dict[str, Any]] = env.execute("lookup").collected["rows"].to_pylist()
    return found


def test_rows_are_found_by_key(lake: Path) -> None:
    asked = pa.table({"n": [1, 2, 3, 4], "note": ["it's", "none", None, "sun"]})
    notes = rh.lancedb.lookup("notes", uri=lake, key="id")
    found = joined(asked, notes, "note")
    assert [(row["n"], row["lang"], row["vector"]) for row in found] == [
        (1, "en", [1, 1]),
        (2, None, None),
        (3, None, None),
        (4, "en", [1, 0]),
    ]


@pytest.mark.parametrize("kind", [VECTORS, pa.list_(pa.float64())])
def test_the_nearest_rows_are_found_in_their_order(lake: Path, kind: pa.DataType) -> None:
    vectors = pa.array([[0, 1], None, [1, 0.1], [0, 1]], kind)
    asked = pa.table({"n": [1, 2, 3, 4], "v": vectors})
    notes = rh.lancedb.nearest(
        "notes", uri=lake, vector="vector", limit=2, columns=["id"], where="lang = 'en'"
    )
    found = joined(asked, notes, "v", cache_for="10m")
    assert [(row["n"], row["id"]) for row in found] == [
        (1, "rain"),
        (1, "it's"),
        (2, None),
        (3, "sun"),
        (3, "it's"),
        (4, "rain"),
        (4, "it's"),
    ]
    assert [round(row["distance"], 3) for row in found if row["n"] == 3] == [0.01, 0.81]


def test_more_vectors_than_a_query_has(lake: Path) -> None:
    vectors = [[1, n / 1000] for n in range(200)]
    asked = pa.table({"n": range(200), "v": pa.array(vectors, VECTORS)})
    notes = rh.lancedb.nearest("notes", uri=lake, vector="vector", metric="cosine")
    found = joined(asked, notes, "v", columns=["id"], how="inner")
    assert [(row["n"], row["id"]) for row in found] == [(n, "sun") for n in range(200)]


@pytest.mark.parametrize("vector", [[float("nan"), 0], [1.0], [1.0, None], [1e39, 0.0]])
def test_a_vector_without_nearest_ones_is_an_error(lake: Path, vector: Any) -> None:
    asked = pa.table({"v": pa.array([[0, 1], vector], pa.list_(pa.float64()))})
    notes = rh.lancedb.nearest("notes", uri=lake, vector="vector", columns=["id"])
    with pytest.raises(InputError, match="needs 2 finite numbers"):
        joined(asked, notes, "v")


def test_wrong_arguments_are_errors(lake: Path) -> None:
    near: dict[str, Any] = {"uri": lake, "vector": "vector"}
    wrong: list[tuple[Any, type[Exception], str]] = [
        (lambda: rh.lancedb.lookup("no", uri=lake, key="id"), ConfigurationError, "'no' was not found"),
        (lambda: rh.lancedb.lookup("notes", uri=lake, key="x"), SchemaError, "no column 'x'"),
        (lambda: rh.lancedb.lookup("notes", uri=lake, key="vector"), SchemaError, "which is no key"),
        (lambda: rh.lancedb.nearest("notes", **near, limit=0), ProgramError, "limit=0"),
        (
            lambda: rh.lancedb.nearest("notes", **{**near, "metric": "l1"}),
            ProgramError,
            "'l1' is not known",
        ),
        (lambda: rh.lancedb.nearest("notes", **near, distance="id"), ProgramError, "another column"),
        (lambda: rh.lancedb.nearest("notes", uri=lake, vector="id"), SchemaError, "has no vectors"),
    ]
    for make, kind, message in wrong:
        with pytest.raises(kind, match=message):
            make()
    asked = pa.table({"n": [1], "v": pa.array([[1, 2, 3]], pa.list_(pa.float32(), 3))})
    with pytest.raises(SchemaError, match="cast the stream's column"):
        joined(asked, rh.lancedb.lookup("notes", uri=lake, key="id"), "n")
    with pytest.raises(SchemaError, match="have 3 elements, but 2"):
        joined(asked, rh.lancedb.nearest("notes", **near), "v")
    with pytest.raises(SchemaError, match="which has no vectors"):
        joined(asked, rh.lancedb.nearest("notes", **near), "n")
