"""An Iceberg table: finds or creates it, and checks whether a sink may write it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import pyarrow as pa

from rheos.connectors.calls.bounded_calls import LoneCalls, Progressed
from rheos.connectors.calls.outside_calls import OutsideCall
from rheos.connectors.iceberg.catalogs import IcebergCatalog
from rheos.connectors.iceberg.columns import TYPES, arrow_schema
from rheos.connectors.iceberg.failures import may_pass
from rheos.connectors.iceberg.library import library
from rheos.connectors.iceberg.partitioning import Partitioning, parsed_terms, terms_of
from rheos.connectors.table_log.epoch_append import UncertainAppendError
from rheos.connectors.table_log.target import TableTarget
from rheos.core.errors import (
    CheckpointError,
    ConfigurationError,
    RheosError,
    SchemaError,
    UnavailableError,
)

T = TypeVar("T")

TABLE_CALL = OutsideCall(
    server="Iceberg table",
    call="source: list files; sink: inspect or create the table, append the files of a checkpoint",
    limit_s=600.0,
    limit="10 min for an append; replacing files takes longer, and needs progress in that time",
    then="the sink waits and reports it; others continue. It makes no other call until "
    "this one returns. It then reads the table's newest metadata, which shows whether the files are in "
    "it, and appends the rest",
)
_USUAL_S = 60.0
"""Seconds that a call may take before it counts as waiting."""
_CALLS = LoneCalls()
_CREATED_WITHIN = 5
"""Attempts to create a table, or to add columns, if others change it at the same time."""
_NEW_TABLE = {
    "commit.manifest-merge.enabled": "true",
    "write.metadata.delete-after-commit.enabled": "true",
}
"""Properties of a new table, which bound its number of small metadata files."""


def lone_call(
    catalog: IcebergCatalog, name: str, doing: str, work: Callable[[Progressed], T], user: str = ""
) -> T:
    """Make a call with a time limit, if no abandoned one for the same purpose is under way.

    Args:
        catalog: the catalog of the table.
        name: name of the table.
        doing: what the call is for, for people.
        work: makes the call, in another thread. It is passed the function that restarts the limit.
        user: the sink that makes the call; others may make one at the same time.

    Raises:
        UnavailableError: the call has made no progress for `TABLE_CALL.limit_s`.
    """
    key = (catalog.key, name, doing, user)
    return _CALLS.run(key, doing, TABLE_CALL.limit_s, work, quiet_s=_USUAL_S)


# --- the table ----------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class IcebergTarget(TableTarget):
    """A table, as it was when the job was submitted. Columns have their field ids."""

    format = "Iceberg"
    catalog: IcebergCatalog
    partitioning: Partitioning
    settings: dict[str, str]
    """Properties of the table, which select statistics."""

    @property
    def partitions(self) -> tuple[str, ...]:
        return tuple(self.partitioning.names)


def number_property(sink: str) -> str:
    """Return the name of the table's property that has the number of a sink with this id."""
    return f"rheos.checkpoint.{hashlib.sha256(sink.encode()).hexdigest()[:16]}"


def found_target(
    catalog: IcebergCatalog,
    name: str,
    schema: pa.Schema,
    partition_by: Sequence[str],
    evolve: bool,
    key: tuple[str, ...] = (),
    gone: str | None = None,
) -> IcebergTarget:
    """Inspect the table. Create it if it does not exist. If `evolve`, add columns that it lacks, and
    widen types of others.

    Args:
        catalog: catalog of the table.
        name: name of the table, with its namespace.
        schema: columns of the rows, without `gone`.
        partition_by: partition fields of a new table.
        evolve: whether to add and widen columns.
        key: key of upserts; empty to append rows.
        gone: column that marks deletions.

    Returns:
        The table as it is now.

    Raises:
        SchemaError: rows of the schema do not fit the table.
        ConfigurationError: the table cannot be read, created or written.
    """
    errors = library("exceptions")
    with inspecting(name):
        tables = catalog.load()
        for left in reversed(range(_CREATED_WITHIN)):
            try:
                table = tables.load_table(name)
                changed = _changed_columns(schema, arrow_schema(table.schema())) if evolve else []
                if changed:
                    with table.update_schema() as update:
                        update.union_by_name(pa.schema(changed))
                    table.refresh()
                break
            except errors.NoSuchTableError:
                try:
                    _create(tables, name, schema, partition_by)
                except (errors.TableAlreadyExistsError, errors.CommitFailedException):
                    if not left:
                        raise
            except errors.CommitFailedException:
                if not left:
                    raise
        table = tables.load_table(name)
        target = _target(table, catalog, name, schema, partition_by)
        if key:
            rewritable_columns(table, name)
        return replace(target, key=key, gone=gone)


def _changed_columns(schema: pa.Schema, table: pa.Schema) -> list[pa.Field]:
    return [*TYPES.new_columns(schema, table), *TYPES.widened_columns(schema, table)]


def _create(tables: Any, name: str, schema: pa.Schema, partition_by: Sequence[str]) -> None:
    namespace = library("catalog").Catalog.namespace_from(name)
    if namespace:
        tables.create_namespace_if_not_exists(namespace)
    columns = TYPES.table_schema(schema)
    creation = tables.create_table_transaction(name, columns, properties=_NEW_TABLE)
    with creation.update_spec() as spec:
        for term in parsed_terms(partition_by, columns.names):
            spec.add_field(term.column, term.transform)
    creation.commit_transaction()


def _target(
    table: Any, catalog: IcebergCatalog, name: str, schema: pa.Schema, partition_by: Sequence[str]
) -> IcebergTarget:
    if table.format_version > 2:
        raise ConfigurationError(
            f"the table {name} has format version {table.format_version}, but the sink writes 2",
            hint="create a table of version 2 (format-version=2), and copy the rows",
        )
    terms = terms_of(table.spec(), table.schema())
    if partition_by and parsed_terms(partition_by, schema.names) != terms:
        has = ", ".join(map(str, terms)) or "no column"
        raise SchemaError(
            f"partition_by={list(partition_by)}, but the table {name} is partitioned by {has}",
            hint="leave out partition_by: the table determines it",
        )
    columns = arrow_schema(table.schema())
    fitted = TYPES.fitted_schema(schema, columns, [term.column for term in terms], name)
    partitioning = Partitioning(table.spec(), table.schema())
    partitioning.check(fitted)
    staged = pa.schema([columns.field(field.name) for field in fitted])
    folder = table.properties.get("write.data.path") or f"{table.location().rstrip('/')}/data"
    settings = {key: value for key, value in table.properties.items() if ".metrics." in key}
    return IcebergTarget(
        name=name,
        folder=folder,
        identity=str(table.metadata.table_uuid),
        columns=columns,
        staged=staged,
        catalog=catalog,
        partitioning=partitioning,
        settings=settings,
    )


def rewritable_columns(table: Any, name: str) -> pa.Schema:
    """Return the columns of a table whose data files an upsert may replace.

    Raises:
        ConfigurationError: the sink cannot read and write all types.
    """
    columns = arrow_schema(table.schema())
    unknown = [field.name for field in columns if TYPES.stored_type(field.type) is None]
    if unknown:
        raise ConfigurationError(
            f"the table {name} has columns that the sink cannot rewrite: {', '.join(unknown)}",
            hint="append rows instead, or write to a table without these columns",
        )
    return columns


# --- errors -------------------------------------------------------------------------------------------


@contextmanager
def inspecting(name: str) -> Iterator[None]:
    """Translate errors in the block: those that may go away become UnavailableError, and others
    ConfigurationError. Catalogs raise errors of many libraries."""
    try:
        yield
    except RheosError:
        raise
    except Exception as error:
        kind = UnavailableError if may_pass(error) else ConfigurationError
        raise kind(
            f"the Iceberg table {name} could not be inspected or created: {_message(error)}",
            hint="check the catalog's properties, and that the job's user may read and write there",
        ) from error


@contextmanager
def reading_or_writing(name: str) -> Iterator[None]:
    """Translate errors in the block: those that may go away become UnavailableError."""
    try:
        yield
    except (RheosError, UncertainAppendError):
        raise
    except Exception as error:
        kind = UnavailableError if may_pass(error) else CheckpointError
        raise kind(
            f"the Iceberg table {name} could not be read or written: {_message(error)}",
            hint="the sink's rows are not lost: they are published as soon as the table can be written",
        ) from error


def _message(error: Exception) -> str:
    """Return the first line of an error's message. Further lines may show statements and parameters."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
