"""The log of an Iceberg table: finds or creates the table, looks at its newest metadata, and appends
the next snapshot, by the library `pyiceberg`."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec
import pyarrow as pa

from rheos.connectors.calls.bounded_calls import LoneCalls
from rheos.connectors.calls.outside_calls import OutsideCall
from rheos.connectors.files.folder import SinkFolder
from rheos.connectors.iceberg.catalogs import IcebergCatalog, OneAttemptCatalog
from rheos.connectors.iceberg.columns import FIELD_ID, TYPES, arrow_schema
from rheos.connectors.iceberg.library import library
from rheos.connectors.iceberg.partitioning import Partitioning, parsed_terms, terms_of
from rheos.connectors.table_log.epoch_append import Append, TableVersion, UncertainAppendError
from rheos.core.connectors.outages import is_outage
from rheos.core.errors import (
    CheckpointError,
    ConfigurationError,
    RheosError,
    SchemaError,
    UnavailableError,
    UnrestorableError,
)
from rheos.core.redaction import RedactedRepr

T = TypeVar("T")

TABLE_CALL = OutsideCall(
    server="Iceberg table",
    call="source: list files; sink: inspect or create the table, append the files of a checkpoint",
    limit_s=600.0,
    limit="10 min for the whole append",
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
    catalog: IcebergCatalog, name: str, doing: str, work: Callable[[], T], user: str = ""
) -> T:
    """Make a call with a time limit, if no abandoned one for the same purpose is under way.

    Args:
        catalog: the catalog of the table.
        name: name of the table.
        doing: what the call is for, such as "append to".
        work: makes the call, in another thread.
        user: the sink that makes the call; others may make one at the same time.

    Raises:
        UnavailableError: the call has made no progress for `TABLE_CALL.limit_s`.
    """
    key, limit_s = (catalog.key, name, doing, user), TABLE_CALL.limit_s
    doing = f"{doing} the Iceberg table {name}"
    return _CALLS.run(key, doing, limit_s, lambda progressed: work(), quiet_s=_USUAL_S)


# --- the table ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class IcebergTarget(RedactedRepr):
    """A table, as it was when the job was submitted."""

    catalog: IcebergCatalog
    name: str
    """Name of the table in its catalog, with its namespace."""
    identity: str
    """Identity of the table, which another table of the same name does not have."""
    folder: str
    """Absolute path or URL of the folder of data files."""
    columns: pa.Schema
    """Columns of the table."""
    partitioning: Partitioning
    settings: dict[str, str]
    """Properties of the table, which select statistics."""
    staged: pa.Schema
    """Columns of the stream, with the table's types and field ids."""


def found_target(
    catalog: IcebergCatalog, name: str, schema: pa.Schema, partition_by: Sequence[str], evolve: bool
) -> IcebergTarget:
    """Inspect the table. Create it if it does not exist, and add columns that it lacks, if `evolve`.

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
                added = TYPES.new_columns(schema, arrow_schema(table.schema())) if evolve else []
                if added:
                    with table.update_schema() as update:
                        update.union_by_name(pa.schema(added))
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
        return _target(table, catalog, name, schema, partition_by)


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
    identity = str(table.metadata.table_uuid)
    return IcebergTarget(catalog, name, identity, folder, columns, partitioning, settings, staged)


# --- its snapshots ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class IcebergLog:
    """The log of one table, for one sink."""

    target: IcebergTarget
    sink: str
    """Id of the sink in the table (IC5)."""

    @property
    def number_property(self) -> str:
        """Return the name of the table's property that has the sink's number."""
        return f"rheos.checkpoint.{hashlib.sha256(self.sink.encode()).hexdigest()[:16]}"

    def look(self) -> TableVersion:
        """Read the newest metadata.

        Raises:
            SchemaError: the sink's files do not fit the table any more.
            UnrestorableError: another table has taken its place.
            UnavailableError: the table cannot be read now.
        """
        with _appending(self.target.name):
            table = self.target.catalog.load().load_table(self.target.name)
            self._check(table)
            return TableVersion(self._number(table), table)

    def _check(self, table: Any) -> None:
        target = self.target
        if str(table.metadata.table_uuid) != target.identity:
            raise UnrestorableError(
                f"the table {target.name} was replaced by another one while the job ran",
                hint="restore the old table, or start the job without its checkpoints, which appends "
                "all rows to the new one",
            )
        staged = {int(field.metadata[FIELD_ID]): field.name for field in target.staged}
        columns = {field.field_id: field for field in table.schema().fields}
        dropped = [name for field_id, name in staged.items() if field_id not in columns]
        changes = [f"the column {name!r} was dropped" for name in dropped]
        changes += [
            f"the column {field.name!r} is NOT NULL"
            for field_id, field in columns.items()
            if field.required and field_id not in staged
        ]
        if table.spec().spec_id != target.partitioning.spec.spec_id:
            changes.append("it is partitioned in another way")
        if changes:
            raise SchemaError(
                f"the table {target.name} has changed while the job ran: {', '.join(changes)}",
                hint="the checkpoint's rows are not in the table, but not lost: change the table back, "
                "and start the job again",
            )

    def _number(self, table: Any) -> int:
        """Return the sink's number: from its property, or else from its newest snapshot (IC6)."""
        if (written := table.properties.get(self.number_property)) is not None:
            return int(written)
        snapshots = {each.snapshot_id: each for each in table.metadata.snapshots}
        snapshot = table.current_snapshot()
        while snapshot is not None:
            about = snapshot.summary.additional_properties if snapshot.summary else {}
            if about.get("rheos.sink") == self.sink:
                return int(about["rheos.checkpoint"])
            snapshot = snapshots.get(snapshot.parent_snapshot_id)
        return 0

    def append(self, action: Append) -> None:
        """Write the snapshot that follows the one that was looked at (IC2).

        Raises:
            UncertainAppendError: another writer was first, or the outcome is unknown.
            UnrestorableError: a file is missing (IC4).
        """
        files = [self._data_file(file) for file in action.files]
        found = action.snapshot.version
        table = library("table").Table(
            found.name(),
            found.metadata,
            found.metadata_location,
            found.io,
            OneAttemptCatalog(found.catalog),
        )
        about = {
            "rheos.sink": self.sink,
            "rheos.job": action.files[0].job,
            "rheos.checkpoint": str(action.checkpoint),
        }
        try:
            with _appending(self.target.name):
                transaction = table.transaction()
                transaction.set_properties({self.number_property: str(action.checkpoint)})
                update = transaction.update_snapshot(snapshot_properties=about)
                merges = found.properties.get("commit.manifest-merge.enabled", "").lower() == "true"
                with update.merge_append() if merges else update.fast_append() as snapshot:
                    for file in files:
                        snapshot.append_data_file(file)
                transaction.commit_transaction()
        except RheosError as error:
            raise UncertainAppendError(error) from error

    def _data_file(self, file: Any) -> Any:
        manifest = library("manifest")
        folder = SinkFolder(self.target.folder)
        if not folder.exists(file.path):
            raise UnrestorableError(
                f"{folder.path(file.path)} ({file.rows} rows) is lost: the file does not exist, "
                "and the table does not contain it",
                hint="check whether orphan files of the table were removed while the job was down; "
                "restore the file, or start the job from an earlier savepoint",
            )
        return manifest.DataFile.from_args(
            content=manifest.DataFileContent.DATA,
            file_path=f"{self.target.folder}/{file.path}",
            file_format=manifest.FileFormat.PARQUET,
            partition=self.target.partitioning.record(file.partition),
            file_size_in_bytes=file.size_bytes,
            spec_id=self.target.partitioning.spec.spec_id,
            sort_order_id=None,
            equality_ids=None,
            key_metadata=None,
            **decoded_statistics(file.statistics),
        )


def encoded_statistics(statistics: dict[str, Any]) -> str:
    """Return statistics of a data file as a string."""
    return base64.b64encode(msgspec.msgpack.encode(statistics)).decode()


def decoded_statistics(encoded: str) -> Any:
    """Return what `encoded_statistics` was given."""
    return msgspec.msgpack.decode(base64.b64decode(encoded))


# --- errors -------------------------------------------------------------------------------------------


@contextmanager
def inspecting(name: str) -> Iterator[None]:
    """Translate errors in the block to ConfigurationError. Catalogs raise errors of many libraries."""
    try:
        yield
    except RheosError:
        raise
    except Exception as error:
        raise ConfigurationError(
            f"the Iceberg table {name} could not be inspected or created: {_message(error)}",
            hint="check the catalog's properties, and that the job's user may read and write there",
        ) from error


@contextmanager
def _appending(name: str) -> Iterator[None]:
    """Translate errors in the block: those that may go away become UnavailableError."""
    try:
        yield
    except (RheosError, UncertainAppendError):
        raise
    except Exception as error:
        kind = UnavailableError if _may_pass(error) else CheckpointError
        raise kind(
            f"the Iceberg table {name} could not be read or written: {_message(error)}",
            hint="the sink's rows are not lost: they are published as soon as the table can be written",
        ) from error


def _may_pass(error: Exception) -> bool:
    """Return whether a call may succeed later. Only refusals are certain not to."""
    errors = library("exceptions")
    refusals = (
        errors.NoSuchTableError,
        errors.NoSuchNamespaceError,
        errors.BadRequestError,
        errors.ForbiddenError,
        errors.UnauthorizedError,
        errors.ValidationError,
        errors.ValidationException,
        errors.NotInstalledError,
        TypeError,
        ValueError,
    )
    if isinstance(error, OSError) and error.errno is not None:
        return is_outage(error)
    return not isinstance(error, refusals)


def _message(error: Exception) -> str:
    """Return the first line of an error's message. Further lines may show statements and parameters."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
