"""Input rows are named by their place in their split, as the source counts: a collection by index, a
file by line or row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rheos as rh
from rheos.connectors import Source
from rheos.testing import check_source
from tests.ops.lineage.traced import explained

SCHEMA = pa.schema({"n": pa.int64()})


def made(block: rh.Block) -> dict[str, Any]:
    return {"n": block.number()}


def of_lines(folder: Path) -> Source:
    (folder / "a.jsonl").write_text('\n{"n": 1}\nno row\n\n{"n": 4}\n')
    return rh.files.source(folder / "a.jsonl", schema=SCHEMA, on_error="skip")


def of_csv(folder: Path) -> Source:
    (folder / "a.csv").write_text("n\n1\n2\n")
    return rh.files.source(folder / "*.csv", schema=SCHEMA, discover="1s")


def of_parquet(folder: Path) -> Source:
    pq.write_table(pa.table({"n": range(5)}), folder / "a.parquet", row_group_size=2)
    return rh.files.source(folder / "a.parquet", schema=SCHEMA)


def of_both_sides_of_a_switch(folder: Path) -> Source:
    history, live = (rh.collection([{"n": n} for n in ns]) for ns in ((1, 9, 2), (3, 10, 11)))
    return rh.hybrid(history, live, on="n", switch=9)


SOURCES: list[tuple[Any, list[tuple[str, str, int]]]] = [
    (lambda _: rh.collection([{"n": 7}, {"n": 8}]), [("0", "index", 0), ("0", "index", 1)]),
    (
        lambda _: rh.generator(made, count=3, splits=2, block_rows=1),
        [("00000", "index", 0), ("00000", "index", 1), ("00001", "index", 0)],
    ),
    (of_lines, [("a.jsonl", "line", 2), ("a.jsonl", "line", 5)]),
    (of_csv, [("a.csv", "line", 2), ("a.csv", "line", 3)]),
    (of_parquet, [("a.parquet", "row", row) for row in range(1, 6)]),
    (
        of_both_sides_of_a_switch,
        [("0", "index", 0), ("0", "index", 1), ("0", "index", 2), ("0", "index", 2)],
    ),
]


@pytest.mark.parametrize(("source", "places"), SOURCES)
def test_each_input_row_has_the_place_of_its_source(
    source: Any, places: list[Any], tmp_path: Path
) -> None:
    def build(env: rh.Environment) -> dict[str, rh.DataStream]:
        return {"out": env.from_source(source(tmp_path), name="in")}

    rows = explained(build, tmp_path)["out"]
    found = [(Path(i.split).name, i.unit, i.place) for row in rows for i in row.inputs]
    assert sorted(found, key=str) == sorted(places, key=str)


@pytest.mark.parametrize("source", [source for source, _ in SOURCES])
def test_places_do_not_depend_on_where_a_reader_starts(source: Any, tmp_path: Path) -> None:
    """The connector kit starts at each position, and compares the reported places from there on."""
    check_source(source(tmp_path), endless_rows=2)
