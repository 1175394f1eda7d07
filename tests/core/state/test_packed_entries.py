"""Rows as entries of a database are read back unchanged."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from rheos.core.state.key_groups import groups_of_columns
from rheos.core.state.rocksdb.database import Database
from rheos.core.state.rocksdb.packed_entries import PackedEntries

GROUPS = 16
COLUMNS = pa.schema(
    {"key.k": pa.string(), "key.v": pa.float64(), "agg.n": pa.int64(), "agg.s": pa.string()}
)
ROWS = pa.table(
    {
        "key.k": ["a", "a", "b", "", "c"],
        "key.v": [-1.5, 2.0, float("inf"), 0.0, 7.0],
        "agg.n": [1, -(2**63), 2**63 - 1, 0, 5],
        "agg.s": ["x", None, "", "ä", "z"],
    },
    COLUMNS,
)


def arrays(rows: pa.Table) -> dict[str, pa.Array]:
    return {name: rows.column(name).combine_chunks() for name in rows.column_names}


@pytest.mark.parametrize("deciding", [1, 2])
def test_rows_are_read_back(tmp_path: Path, deciding: int) -> None:
    database = Database(str(tmp_path / "state"), 1 << 20)
    assert PackedEntries.stored(database, "counts", deciding) is None
    entries = PackedEntries.declared(database, "counts", COLUMNS, deciding)
    entries.write(database, arrays(ROWS.slice(0, 0)), GROUPS)
    entries.write(database, arrays(ROWS), GROUPS)
    entries.delete(database, [ROWS.column(n).combine_chunks()[4:] for n in ("key.k", "key.v")], GROUPS)

    found = PackedEntries.stored(database, "counts", deciding)
    assert found is not None
    assert found.columns == COLUMNS
    table = pa.concat_tables(found.tables(database, range(GROUPS)))
    by_key = [("key.k", "ascending"), ("key.v", "ascending")]
    assert table.select(COLUMNS.names).sort_by(by_key) == ROWS.slice(0, 4).sort_by(by_key)
    keys = [table.column(n).combine_chunks() for n in ("key.k", "key.v")][:deciding]
    assert table.column("key_group").to_pylist() == groups_of_columns(keys, GROUPS).tolist()
    halves = [range(GROUPS // 2), range(GROUPS // 2, GROUPS)]
    assert sum(t.num_rows for half in halves for t in found.tables(database, half)) == 4
    database.close()


def test_values_of_a_key_stay_in_order(tmp_path: Path) -> None:
    database = Database(str(tmp_path / "state"), 1 << 20)
    entries = PackedEntries.declared(database, "values", COLUMNS, 1)
    entries.write(database, arrays(ROWS), GROUPS)
    [start] = entries.places([pa.array(["a"])], GROUPS).to_pylist()
    places = [place for place, _ in database.scan_prefix(start)]
    assert entries.keys(places)[1].to_pylist() == [-1.5, 2.0]
    database.close()
