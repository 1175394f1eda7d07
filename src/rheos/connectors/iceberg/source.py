"""Source of an Iceberg table: `iceberg.source("shop.orders", catalog=...)`.

It reads the data files of one snapshot, and on request the files that later snapshots append. A split
is a data file; its id is the file's path.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import polars as pl
import pyarrow as pa

from rheos.connectors.calls.bounded_calls import Progressed
from rheos.connectors.files.chunks import ChunkReader
from rheos.connectors.files.parquet import START
from rheos.connectors.files.parquet_bounds import has_bounds
from rheos.connectors.iceberg.catalogs import IcebergCatalog, catalog_of
from rheos.connectors.iceberg.columns import arrow_schema, field_ids, read_schema
from rheos.connectors.iceberg.file_decoder import FieldIdDecoder
from rheos.connectors.iceberg.iceberg_table import inspecting, lone_call
from rheos.connectors.iceberg.partitioning import identity_columns
from rheos.connectors.iceberg.registration import CONNECTOR
from rheos.connectors.iceberg.source_files import AppendedSnapshots, snapshot_files
from rheos.core.connectors.contract import ReaderContext, Source, Split, SplitReader
from rheos.core.connectors.datasets import Dataset
from rheos.core.connectors.schemas import resolve
from rheos.core.errors import ProgramError, SchemaError
from rheos.core.protocol.durations import Duration, duration_ms
from rheos.core.site import located_at_call


@located_at_call
def source(
    table: str,
    *,
    catalog: str | Mapping[str, str] = "default",
    schema: Any = None,
    snapshot: int | None = None,
    discover: Duration | None = None,
) -> IcebergSource:
    """Read the rows of an Iceberg table: those of one snapshot, or also those that are appended later.

    ```python
    orders = env.from_source(rh.iceberg.source("shop.orders", catalog="lake"))
    ```

    Args:
        table: the name of the table in its catalog, with its namespace.
        catalog: the properties or the name of the catalog, as for `iceberg.sink`.
        schema: the columns to read: a dataclass, a pyarrow.Schema or a dict. By default all columns.
        snapshot: the id of the snapshot to read; by default the newest one when the program is built.
            0 is the empty table before the first snapshot.
        discover: interval at which to look for appended rows ("10s"); the source never ends. It needs
            `snapshot`, so that each restart begins at the same one.

    Returns:
        The source, for `env.from_source`. It is bounded unless `discover` is set.

    Raises:
        ProgramError: An argument is invalid, or lacks another that it needs.
        SchemaError: The table does not have the columns.
        ConfigurationError: The table cannot be read, or the library `pyiceberg` is not installed.
    """
    CONNECTOR.client()
    if not isinstance(table, str) or "." not in table:
        raise ProgramError(
            f"{table!r} is not a table in a namespace", hint='write rh.iceberg.source("shop.orders")'
        )
    if snapshot is not None and (isinstance(snapshot, bool) or not isinstance(snapshot, int)):
        raise ProgramError(
            f"snapshot={snapshot!r} is not the id of a snapshot",
            hint="table.inspect.snapshots() of pyiceberg lists them",
        )
    if discover is not None and snapshot is None:
        raise ProgramError(
            "discover= needs snapshot=, so that each restart of the job begins at the same snapshot",
            hint="write snapshot=0 for all rows that were ever appended",
        )
    interval_ms = None if discover is None else duration_ms(discover)
    of = catalog_of(catalog)
    wanted = None if schema is None else resolve(schema)

    def inspect(_: Progressed) -> tuple[int, pa.Schema, frozenset[str]]:
        with inspecting(table):
            found = of.load().load_table(table)
            newest = found.current_snapshot()
            number = (newest.snapshot_id if newest else 0) if snapshot is None else snapshot
            identities = identity_columns(found.spec(), found.schema())
            return number, arrow_schema(found.schema()), identities

    number, columns, identities = lone_call(
        of, table, f"inspection of the Iceberg table {table}", inspect
    )
    ids = field_ids(columns)
    rows, record = (read_schema(columns), None) if wanted is None else wanted
    for each in rows:
        if each.name not in ids:
            raise SchemaError(
                f"the table {table} has no column {each.name!r}", hint=f"it has {', '.join(ids)}"
            )
    return IcebergSource(
        table, of, number, rows, ids, identities, record, interval_ms, bounded=interval_ms is None
    )


@dataclass(frozen=True)
class IcebergSource(Source):
    """Source that `iceberg.source` creates."""

    table: str
    catalog: IcebergCatalog
    snapshot: int
    schema: pa.Schema
    ids: Mapping[str, int]
    """Field ids of the table's columns."""
    identities: frozenset[str]
    """Columns by whose values the table is partitioned."""
    record: type | None = None
    discovery_ms: int | None = None
    only: pl.Expr | None = field(default=None, compare=False)
    """Condition on columns with bounds: files without a row that fulfils it are not read."""
    bounded: bool = True
    appended: AppendedSnapshots = field(default_factory=AppendedSnapshots, compare=False, repr=False)

    def record_class(self) -> type | None:
        return self.record

    def endless(self, split: Split) -> bool:
        return False

    def as_of_now(self) -> IcebergSource:
        return replace(self, discovery_ms=None)

    def reading(self, columns: frozenset[str]) -> IcebergSource | None:
        named = columns if self.only is None else {*columns, *self.only.meta.root_names()}
        kept = [each for each in self.schema if not each.nullable or each.name in named]
        return None if len(kept) == len(self.schema) else replace(self, schema=pa.schema(kept))

    @property
    def split_columns(self) -> Sequence[str]:
        return ()

    @property
    def bounded_columns(self) -> Sequence[str]:
        return [each.name for each in self.schema if has_bounds(each.type)]

    def skipping(self, condition: pl.Expr) -> IcebergSource:
        return replace(self, only=condition)

    def splits(self) -> Sequence[Split]:
        doing = f"listing of the files of the Iceberg table {self.table}"
        paths = lone_call(self.catalog, self.table, doing, lambda _: self._paths())
        return [Split(path, b"") for path in paths]

    def _paths(self) -> list[str]:
        with inspecting(self.table):
            table = self.catalog.load().load_table(self.table)
            paths = snapshot_files(table, self.snapshot)
            return paths if self.bounded else paths + self.appended.after(table, self.snapshot)

    def resumed(self, splits: Sequence[Split], known: Mapping[str, bytes]) -> Sequence[Split]:
        # The newest snapshot is another one now; the job continues with the files of its first run.
        return [split for split in splits if split.id in known] if self.bounded else splits

    def open(self, split: Split, position: bytes | None, ctx: ReaderContext) -> SplitReader:
        start = START if position is None else position
        decoder = FieldIdDecoder(split.id, self.schema, self.ids, self.identities, start, self.only)
        return ChunkReader(split.id, decoder, start, ctx)

    def datasets(self) -> Sequence[Dataset]:
        return [self.catalog.dataset(self.table)]

    def describe(self) -> str:
        then = "" if self.bounded else ", then what is appended"
        return f"Iceberg table {self.table}, snapshot {self.snapshot}{then}"
