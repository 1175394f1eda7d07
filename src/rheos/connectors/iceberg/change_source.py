"""Source of the changes of an Iceberg table: `iceberg.changes("shop.orders", catalog=...)`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import pyarrow as pa

from rheos.connectors.calls.bounded_calls import Progressed
from rheos.connectors.change_columns import check_names, known_fields
from rheos.connectors.iceberg.catalogs import IcebergCatalog, catalog_of
from rheos.connectors.iceberg.columns import arrow_schema, field_ids, read_schema
from rheos.connectors.iceberg.iceberg_changes import IcebergChangeLog
from rheos.connectors.iceberg.iceberg_table import inspecting, lone_call
from rheos.connectors.iceberg.partitioning import identity_columns
from rheos.connectors.iceberg.registration import CONNECTOR
from rheos.connectors.iceberg.source_files import list_snapshots
from rheos.connectors.table_log.change_feed import FeedColumns, Known
from rheos.connectors.table_log.change_source import (
    ChangeBounds,
    TableChanges,
    check_end,
    without_metadata,
)
from rheos.core.connectors.datasets import Dataset
from rheos.core.connectors.schemas import resolve
from rheos.core.errors import ConfigurationError, InputError, ProgramError
from rheos.core.protocol.durations import Duration, duration_ms
from rheos.core.site import located_at_call

_FIELDS: Final[tuple[Known, ...]] = ("op", "snapshot", "commit_time")


@located_at_call
def changes(
    table: str,
    *,
    catalog: str | Mapping[str, str] = "default",
    schema: Any = None,
    metadata: Sequence[str] | Mapping[str, str] = ("op",),
    since: int | None = None,
    snapshot: bool = True,
    end: Literal["now"] | None = None,
    discover: Duration = "10s",
) -> IcebergChanges:
    """Read the rows of an Iceberg table, and then each of its changes, exactly once.

    ```python
    orders = rh.iceberg.changes("shop.orders", catalog="lake")
    env.from_source(orders).upserts(key="id")
    ```

    A row has the table's columns and `op`: "snapshot" for a row of the first snapshot, then "delete"
    and "insert". A snapshot of the table deletes all rows of the data files that it removes, and
    inserts those of the files that it adds. So a rewritten row is deleted and inserted again. Changes
    come in the order of the snapshots of `main`. In a snapshot, old rows come before new ones.

    Args:
        table: the name of the table in its catalog, with its namespace.
        catalog: the properties or the name of the catalog, as for `iceberg.sink`.
        schema: the columns to read: a dataclass, a pyarrow.Schema or a dict. By default all columns.
        metadata: metadata to add as columns: "op", "snapshot" (the id of the snapshot), and
            "commit_time" (null for rows of the first snapshot). Names, or a mapping to the names of the
            columns.
        since: the id of the snapshot whose changes are already known, 0 for the empty table; by default
            the newest one when the job is first submitted.
        snapshot: whether a job without a checkpoint first emits the rows of that snapshot.
        end: "now" ends with the newest snapshot at the time of this call: such a source is bounded and
            may be read in batch.
        discover: interval at which to look for new snapshots.

    Returns:
        The source, for `env.from_source`. It is bounded if it has an end.

    Raises:
        ProgramError: An argument is invalid.
        SchemaError: The table does not have the columns, or two columns have one name.
        ConfigurationError: The table cannot be read, or the library `pyiceberg` is not installed.
    """
    CONNECTOR.client()
    if not isinstance(table, str) or "." not in table:
        raise ProgramError(
            f"{table!r} is not a table in a namespace", hint='write rh.iceberg.changes("shop.orders")'
        )
    if since is not None and (isinstance(since, bool) or not isinstance(since, int)):
        raise ProgramError(
            f"since={since!r} is not the id of a snapshot",
            hint="table.inspect.snapshots() of pyiceberg lists them",
        )
    check_end(end)
    known: tuple[tuple[Known, str], ...] = known_fields(metadata, _FIELDS)
    look_every_ms = duration_ms(discover)
    of = catalog_of(catalog)
    wanted, record = (None, None) if schema is None else resolve(schema)

    def inspect(_: Progressed) -> tuple[int, int, pa.Schema, frozenset[str]]:
        with inspecting(table):
            found = of.load().load_table(table)
            newest = _newest(found)
            begin = newest if since is None else since
            try:
                list_snapshots(found, begin)
            except InputError as error:
                raise ConfigurationError(error.what, hint=error.hint) from error
            identities = identity_columns(found.spec(), found.schema())
            return begin, newest, arrow_schema(found.schema()), identities

    begin, newest, columns, identities = lone_call(
        of, table, f"inspection of the Iceberg table {table}", inspect
    )
    names = [name for _, name in known]
    kept = read_schema(columns) if wanted is None else without_metadata(wanted, names)
    check_names(table, columns.names, columns.names, kept, names)
    rows = FeedColumns(kept, known)
    given = record if wanted is not None and rows.schema.names == wanted.names else None
    return IcebergChanges(
        name=table,
        rows=rows,
        catalog=of,
        ids=field_ids(columns),
        identities=identities,
        bounds=ChangeBounds(begin, newest if end else None),
        snapshot=snapshot,
        look_every_ms=look_every_ms,
        record=given,
    )


def _newest(table: Any) -> int:
    newest = table.current_snapshot()
    return int(newest.snapshot_id) if newest else 0


@dataclass(frozen=True, kw_only=True)
class IcebergChanges(TableChanges):
    """Source that `iceberg.changes` creates."""

    format = "Iceberg"
    version_name = "snapshot"

    catalog: IcebergCatalog
    ids: Mapping[str, int]
    """Field ids of the table's columns."""
    identities: frozenset[str]
    """Columns by whose values the table is partitioned."""

    def datasets(self) -> Sequence[Dataset]:
        return [self.catalog.dataset(self.name)]

    def log(self) -> IcebergChangeLog:
        return IcebergChangeLog(self.catalog, self.name, self.ids, self.identities)

    def newest(self) -> int:
        def inspect(_: Progressed) -> int:
            with inspecting(self.name):
                return _newest(self.catalog.load().load_table(self.name))

        doing = f"inspection of the Iceberg table {self.name}"
        return lone_call(self.catalog, self.name, doing, inspect)
