"""Data files of one version of an Iceberg table, as an upsert reads and writes them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, timedelta
from typing import Any

import pyarrow as pa
from pyarrow import types

from rheos.connectors.files.partitions import FileContext
from rheos.connectors.iceberg.columns import arrow_schema, field_id, field_ids, names_by_id
from rheos.connectors.iceberg.iceberg_table import IcebergTarget
from rheos.connectors.iceberg.library import library
from rheos.connectors.iceberg.partitioning import Partitioning, identity_columns
from rheos.connectors.iceberg.writer import IcebergDataFiles
from rheos.connectors.table_log.epoch_append import StagedDataFile
from rheos.connectors.table_log.table_files import LiveFile, TableFiles
from rheos.core.errors import CheckpointError

_EPOCH = date(1970, 1, 1)


class IcebergTableFiles(TableFiles):
    """Data files, whose columns are found by their field ids."""

    def __init__(self, target: IcebergTarget, table: Any) -> None:
        """Create it, without reading a file.

        Args:
            target: the table when the job was submitted.
            table: the library's table, with the metadata of the version.
        """
        columns = arrow_schema(table.schema())
        self._ids = field_ids(columns)
        names = {number: name for name, number in self._ids.items()}
        known = field_ids(target.columns)
        key = [names[known[name]] for name in target.key]
        super().__init__(target, columns, key)
        self._iceberg = target
        self._sort_by = [names[known[name]] for name in target.sort_by if known[name] in names]
        self._partitioning = Partitioning(table.spec(), table.schema())
        self._identities = identity_columns(table.spec(), table.schema())

    def url(self, file: LiveFile) -> str:
        return file.path

    def logged_path(self, file: StagedDataFile) -> str:
        return f"{self.target.folder}/{file.path}"

    def names_in(self, path: str, schema: pa.Schema) -> Mapping[str, str]:
        names = names_by_id(schema, self._ids)
        for each in self.columns:
            if each.name not in names and (not each.nullable or each.name in self._identities):
                raise CheckpointError(
                    f"{path} has no column {each.name!r}, so the sink cannot replace the file",
                    hint="compact the table by a program that rewrites its files, and start again",
                )
        return names

    def identity_of(self, field: pa.Field) -> object:
        return field_id(field)

    def new_files(self, ctx: FileContext) -> IcebergDataFiles:
        return IcebergDataFiles(self._iceberg, self.columns, self._partitioning, ctx, self._sort_by)

    def drop(self, file: StagedDataFile) -> None:
        """IC7: a request for an older snapshot takes effect if `main` is set back to that snapshot."""


def live_files(table: Any) -> list[LiveFile]:
    """Return the data files of the newest snapshot.

    Args:
        table: the library's table.

    Raises:
        CheckpointError: the snapshot has files of deleted rows.
    """
    snapshot = table.current_snapshot()
    if snapshot is None:
        return []
    times = {each.snapshot_id: each.timestamp_ms for each in table.metadata.snapshots}
    schema = arrow_schema(table.schema())
    columns = {number: schema.field(name) for name, number in field_ids(schema).items()}
    data, found = library("manifest").ManifestContent.DATA, []
    for listed in snapshot.manifests(table.io):
        entries = listed.fetch_manifest_entry(table.io, discard_deleted=True)
        if entries and listed.content != data:
            raise CheckpointError(
                f"the table {'.'.join(table.name())} has files of deleted rows (merge on read), so the "
                "sink cannot replace its files",
                hint="compact it by Spark's rewrite_data_files with delete-file-threshold=1, set "
                "write.delete.mode and the like to copy-on-write, and start again",
            )
        found += [
            _live_file(
                entry.data_file,
                columns,
                partitioned=entry.data_file.spec_id == table.spec().spec_id,
                written_ms=times.get(entry.snapshot_id, 0),  # The snapshot may have expired.
            )
            for entry in entries
        ]
    return found


def _live_file(
    file: Any, columns: Mapping[int, pa.Field], *, partitioned: bool, written_ms: int
) -> LiveFile:
    is_parquet = file.file_format == library("manifest").FileFormat.PARQUET
    return LiveFile(
        file.file_path,
        file.file_size_in_bytes,
        least=_bounds(file.lower_bounds, columns),
        greatest=_bounds(file.upper_bounds, columns),
        described=file,
        partition=file.partition if partitioned and is_parquet else None,
        written_ms=written_ms,
    )


def _bounds(encoded: Mapping[int, bytes] | None, columns: Mapping[int, pa.Field]) -> dict[str, Any]:
    """Return the bounds of columns whose types have exact bounds, by the columns' names."""
    bounds = {}
    for number, value in (encoded or {}).items():
        column = columns.get(number)
        bound = None if column is None else _bound(value, column.type)
        if column is not None and bound is not None:
            bounds[column.name] = bound
    return bounds


def _bound(value: bytes, kind: pa.DataType) -> Any:
    """Return a bound as Python has it; None if it is not used. A column that was widened has bounds of
    the narrower type in older files."""
    try:
        if types.is_integer(kind):
            return int.from_bytes(value, "little", signed=True)
        if types.is_date(kind):
            return _EPOCH + timedelta(days=int.from_bytes(value, "little", signed=True))
        return value.decode() if types.is_string(kind) else None
    except (OverflowError, UnicodeDecodeError):
        return None
