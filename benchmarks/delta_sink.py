"""Writing a Delta table: the sink's writer and committer, compared with the client library alone.

Both write the same batches as transactions of equal size, in one process, alternating. Each writes
files of its own table. For upserts, the library's MERGE is the rival.

columns:
    appended, upserted   thousands of rows per second of processor time, median of the rounds
    ratio                the sink's rate divided by the library's, median of the rounds

usage: python -m benchmarks.delta_sink [--rows 500000] [--rounds 5]
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

import rheos as rh
from benchmarks.table_sink import SinkOfTable, compare, data_of_arguments


def merge(path: Path, rows: pa.Table) -> None:
    """Upsert rows by the library."""
    merging = DeltaTable(path).merge(rows, "t.k = s.k", source_alias="s", target_alias="t")
    merging.when_matched_update_all().when_not_matched_insert_all().execute()


def main() -> None:
    data = data_of_arguments(__doc__)
    schema = data.appended[0].schema
    with tempfile.TemporaryDirectory() as folder:
        at = Path(folder)
        ours = SinkOfTable(rh.delta.sink(at / "ours"), schema)
        compare(
            "appended",
            ours.write,
            lambda rows: write_deltalake(at / "theirs", rows, mode="append"),
            data.appended,
        )
        for name in ("upserts", "merges"):
            write_deltalake(at / name, data.appended[0])
        upserts = SinkOfTable(rh.delta.sink(at / "upserts", key="k"), schema)
        compare("upserted", upserts.write, lambda rows: merge(at / "merges", rows), data.changes)


if __name__ == "__main__":
    main()
