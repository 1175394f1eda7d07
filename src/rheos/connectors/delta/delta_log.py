"""The log of a Delta table: finds or creates the table, looks at its newest version, and appends the
next one, by the library `deltalake`."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar
from urllib.parse import unquote

import pyarrow as pa

from rheos.connectors.calls.bounded_calls import LoneCalls, Progressed
from rheos.connectors.calls.outside_calls import OutsideCall
from rheos.connectors.delta.columns import fitted_schema, new_columns, stored_type, table_schema
from rheos.connectors.delta.copy_on_write import LiveFile
from rheos.connectors.delta.registration import CONNECTOR
from rheos.connectors.files.folder import SinkFolder
from rheos.connectors.table_log.epoch_append import (
    Append,
    StagedDataFile,
    TableVersion,
    UncertainAppendError,
)
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
    server="Delta table",
    call="sink: the driver inspects or creates the table, and appends the files of a checkpoint",
    limit_s=600.0,
    limit="10 min for an append; replacing files takes longer, and needs progress in that time",
    then="the sink waits and reports it; other sinks continue. The sink makes no other call until "
    "this one returns. It then reads the table's newest version, which shows whether the files are in "
    "it, and appends the rest",
)
_USUAL_S = 60.0
"""Seconds that a call may take before it counts as waiting."""
_CALLS = LoneCalls()
_CREATED_WITHIN = 5
"""Attempts to create a table, or to add columns, if others change it at the same time."""


def lone_call(location: str, doing: str, work: Callable[[Progressed], T]) -> T:
    """Make a call with a time limit, if no abandoned call for the same table is under way.

    Args:
        location: the table.
        doing: what the call is for, for people.
        work: makes the call. It is passed the function that restarts the limit.

    Raises:
        UnavailableError: the call has made no progress for `TABLE_CALL.limit_s`.
    """
    return _CALLS.run(location, doing, TABLE_CALL.limit_s, work, quiet_s=_USUAL_S)


# --- the table ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DeltaTarget(RedactedRepr):
    """A table, as it was when the job was submitted."""

    location: str
    """Absolute path or URL of the table's folder."""
    identity: str
    """Identity of the table, which another table at the same place does not have."""
    columns: pa.Schema
    partition_by: tuple[str, ...]
    staged: pa.Schema
    """Columns of the stream, with the table's types."""
    key: tuple[str, ...] = ()
    """Key of upserts; empty to append rows."""
    gone: str | None = None
    """Boolean column of a changelog, after the others: where it is true, the row with the same key is
    deleted. The table does not have it."""

    @property
    def written(self) -> pa.Schema:
        """Columns that the writers write."""
        return pa.schema([*self.staged, *([pa.field(self.gone, pa.bool_())] if self.gone else [])])


def found_target(
    location: str,
    schema: pa.Schema,
    partition_by: Sequence[str],
    evolve: bool,
    key: tuple[str, ...] = (),
    gone: str | None = None,
) -> DeltaTarget:
    """Inspect the table. Create it if it does not exist, and add columns that it lacks, if `evolve`.

    Args:
        location: path or URL of the table.
        schema: columns of the rows, without `gone`.
        partition_by: partition columns of a new table.
        evolve: whether to add columns.
        key: key of upserts; empty to append rows.
        gone: column that marks deletions.

    Returns:
        The table as it is now.

    Raises:
        SchemaError: rows of the schema do not fit the table.
        ConfigurationError: the table cannot be read, created or written.
    """
    delta = CONNECTOR.client()
    with inspecting(location):
        try:
            # `is_deltatable` would hold the interpreter's lock while it waits for the store.
            delta.DeltaTable(table_uri(location))
        except delta.exceptions.TableNotFoundError:
            new = delta.Schema.from_arrow(table_schema(schema))
            # If another program creates it at the same time, its table is used.
            delta.DeltaTable.create(
                table_uri(location), new, mode="ignore", partition_by=list(partition_by)
            )
        for left in reversed(range(_CREATED_WITHIN)):
            table = delta.DeltaTable(table_uri(location))
            check_writable(table, location, rewrites=bool(key))
            added = new_columns(schema, _columns(table)) if evolve else []
            if not added:
                break
            fields = delta.Schema.from_arrow(pa.schema(added)).fields
            only_once = delta.CommitProperties(max_commit_retries=0)
            try:
                table.alter.add_columns(fields, commit_properties=only_once)
            except delta.exceptions.CommitFailedError:
                if not left:
                    raise
        return replace(_target(table, location, schema, partition_by), key=key, gone=gone)


def _target(table: Any, location: str, schema: pa.Schema, partition_by: Sequence[str]) -> DeltaTarget:
    columns, metadata = _columns(table), table.metadata()
    partitions = tuple(metadata.partition_columns)
    if partition_by and tuple(partition_by) != partitions:
        has = ", ".join(partitions) or "no column"
        raise SchemaError(
            f"partition_by={list(partition_by)}, but the table {location} is partitioned by {has}",
            hint="leave out partition_by: the table determines it",
        )
    staged = fitted_schema(schema, columns, partitions, location)
    return DeltaTarget(location, str(metadata.id), columns, partitions, staged)


def _columns(table: Any) -> pa.Schema:
    return pa.schema(table.schema().to_arrow())


def table_uri(location: str) -> str:
    """Return the location as the library understands it."""
    return re.sub(r"^s3[an]://", "s3://", location)


# --- tables that need more than appended files --------------------------------------------------------

_KNOWN_FEATURES = frozenset(
    {
        "appendOnly",
        "changeDataFeed",
        "checkConstraints",
        "columnMapping",
        "deletionVectors",
        "generatedColumns",
        "identityColumns",
        "invariants",
        "timestampNtz",
        "v2Checkpoint",
        "vacuumProtocolCheck",
    }
)
"""Features that ask nothing of a writer that appends files, or that are refused below if a column or a
setting uses them."""
_COLUMN_FEATURES = ("delta.generationExpression", "delta.identity.start", "delta.invariants")


_REWRITING = ("delta.appendOnly", "delta.enableChangeDataFeed", "delta.enableDeletionVectors")
"""Settings that forbid replacing files, or ask more of a writer that does."""


def check_writable(table: Any, location: str, *, rewrites: bool) -> None:
    """Raise ConfigurationError if a writer of the table must do more than append files, or than replace
    them if it `rewrites`: then other readers and writers would find a table that breaks its own
    rules."""
    settings = {key: value for key, value in table.metadata().configuration.items() if value}
    reasons = [
        f"the feature {name}"
        for name in sorted(set(table.protocol().writer_features or ()) - _KNOWN_FEATURES)
    ]
    if settings.get("delta.columnMapping.mode", "none") != "none":
        reasons.append("column mapping")
    reasons += [f"the setting {name}" for name in settings if name.startswith("delta.constraints.")]
    if "delta.setTransactionRetentionDuration" in settings:  # DL6
        reasons.append("the setting delta.setTransactionRetentionDuration")
    reasons += [
        f"{key} of the column {field.name!r}"
        for field in table.schema().fields
        for key in _COLUMN_FEATURES
        if key in (field.metadata or {})
    ]
    if rewrites:
        reasons += [f"the setting {name}" for name in _REWRITING if settings.get(name) == "true"]
        readable_columns(table, location)
    if reasons:
        raise ConfigurationError(
            f"the table {location} has {', '.join(reasons)}, which the sink does not support",
            hint="write to a table without it, and copy the rows from there",
        )


def readable_columns(table: Any, location: str) -> pa.Schema:
    """Return the columns of a table as its data files have them.

    Raises:
        ConfigurationError: the files alone do not show the table's rows, or a type is unknown.
    """
    settings = table.metadata().configuration
    reasons = []
    if settings.get("delta.columnMapping.mode", "none") != "none":
        reasons.append("column mapping")
    if "deletionVectors" in (table.protocol().reader_features or ()) and any(
        batch.num_rows for batch in table.deletion_vectors()
    ):
        reasons.append("deletion vectors")
    columns = _columns(table)
    stored = [stored_type(field.type) for field in columns]
    reasons += [
        f"the type of the column {field.name!r}"
        for field, kind in zip(columns, stored, strict=True)
        if kind is None
    ]
    if reasons:
        raise ConfigurationError(
            f"the table {location} has {', '.join(reasons)}, which the source does not support",
            hint="read it by Spark, or copy its rows to a table without it",
        )
    return pa.schema(
        [
            pa.field(field.name, kind, field.nullable)
            for field, kind in zip(columns, stored, strict=True)
        ]
    )


# --- its versions -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DeltaLog:
    """The log of one table, for one sink."""

    target: DeltaTarget
    sink: str
    """Id of the sink in the table (DL5)."""
    job: str

    def look(self) -> TableVersion:
        """Read the newest version.

        Raises:
            SchemaError: the sink's files do not fit the table any more.
            UnrestorableError: another table has taken its place.
            UnavailableError: the table cannot be read now.
        """
        target = self.target
        with _appending(target.location):
            table = CONNECTOR.client().DeltaTable(table_uri(target.location))
        if str(table.metadata().id) != target.identity:
            raise UnrestorableError(
                f"the table {target.location} was replaced by another one while the job ran",
                hint="restore the old table, or start the job without its checkpoints, which appends "
                "all rows to the new one",
            )
        try:
            check_writable(table, target.location, rewrites=bool(target.key))
            _target(table, target.location, target.staged, target.partition_by)
        except (ConfigurationError, SchemaError) as error:
            raise SchemaError(
                f"the table has changed while the job ran: {error.what}",
                hint="the checkpoint's rows are not in the table, but not lost: change the table back, "
                "and start the job again",
            ) from error
        return TableVersion(table.transaction_version(self.sink) or 0, table)

    def append(self, action: Append) -> None:
        """Write the version that follows the snapshot's (DL2).

        Raises:
            UncertainAppendError: another writer was first, or the outcome is unknown.
            UnrestorableError: a file is missing (DL4).
        """
        folder = SinkFolder(self.target.location)
        for file in action.files:
            if not folder.exists(file.path):
                raise UnrestorableError(
                    f"{folder.path(file.path)} ({file.rows} rows) is lost: the file does not exist, "
                    "and the table does not contain it",
                    hint="check whether the table was vacuumed with a short retention while the job "
                    "was down; restore the file, or start the job from an earlier savepoint",
                )
        self.write(action.snapshot.version, action.checkpoint, action.files)

    def live_files(self, table: Any) -> list[LiveFile]:
        """Return the data files of a version."""
        with _appending(self.target.location):
            found = pa.table(table.get_add_actions()).to_pylist()
        return [
            LiveFile(
                # The library returns the path as it is in the log, but expects a decoded one.
                relative_path(unquote(each["path"])),
                each["size_bytes"],
                tuple(each["partition"][name] for name in self.target.partition_by),
                each.get("min") or {},
                each.get("max") or {},
            )
            for each in found
        ]

    def write(
        self,
        table: Any,
        checkpoint: int,
        added: Sequence[StagedDataFile],
        removed: Sequence[LiveFile] = (),
    ) -> None:
        """Write the version that follows another one (DL2).

        Args:
            table: the version that it follows.
            checkpoint: the sink's number in the new version.
            added: files that the new version has.
            removed: files of the earlier version that it does not have.

        Raises:
            UncertainAppendError: another writer was first, or the outcome is unknown.
        """
        delta, now_ms = CONNECTOR.client(), time.time_ns() // 1_000_000
        actions = [
            delta.transaction.AddAction(
                path=file.path,
                size=file.size_bytes,
                partition_values=dict(zip(self.target.partition_by, file.partition, strict=True)),
                modification_time=now_ms,
                data_change=True,
                stats=file.statistics,
            )
            for file in added
        ]
        actions += [
            delta.transaction.RemoveAction(file.path, True, now_ms, file.size_bytes) for file in removed
        ]
        properties = delta.CommitProperties(
            custom_metadata={"rheos.job": self.job, "rheos.checkpoint": checkpoint},
            max_commit_retries=0,
            app_transactions=[delta.Transaction(self.sink, checkpoint)],
        )
        try:
            with _appending(self.target.location):
                table.create_write_transaction(
                    actions,
                    "append",
                    table.schema(),
                    partition_by=list(self.target.partition_by),
                    commit_properties=properties,
                )
        except RheosError as error:
            raise UncertainAppendError(error) from error


def relative_path(path: str) -> str:
    """Return the path of a data file relative to the table's folder. Raises CheckpointError if the file
    is elsewhere, as in a shallow clone."""
    if "://" in path or path.startswith("/") or ".." in path.split("/"):
        raise CheckpointError(
            f"the table has the file {path} of another folder, which the sink cannot replace",
            hint="copy the table together with its files, or append rows instead of upserting them",
        )
    return path


# --- errors -------------------------------------------------------------------------------------------


_DECORATION = re.compile(r"\x1b\[[0-9;]*m|↳")
_BACKTRACE = re.compile(r"\d+: <?\w+>?")


def _message(error: Exception) -> str:
    """Return the library's message in one line, without colours and its own stack."""
    lines = [line.strip() for line in _DECORATION.sub("", str(error)).splitlines()]
    return ": ".join(line for line in lines if line and not _BACKTRACE.fullmatch(line))


@contextmanager
def inspecting(location: str) -> Iterator[None]:
    """Translate errors in the block to ConfigurationError."""
    delta = CONNECTOR.client()
    try:
        yield
    except (delta.exceptions.DeltaError, OSError, ValueError) as error:
        raise ConfigurationError(
            f"the Delta table {location} could not be inspected or created: {_message(error)}",
            hint="check the path, and that the job's user may read and write there",
        ) from error


@contextmanager
def _appending(location: str) -> Iterator[None]:
    """Translate errors in the block: those that may go away become UnavailableError."""
    delta = CONNECTOR.client()
    try:
        yield
    except (delta.exceptions.DeltaError, OSError, ValueError) as error:
        kind = UnavailableError if _may_pass(error, location) else CheckpointError
        raise kind(
            f"the Delta table {location} could not be read or written: {_message(error)}",
            hint="the sink's rows are not lost: they are published as soon as the table can be written",
        ) from error


def _may_pass(error: Exception, location: str) -> bool:
    """Return whether a call may succeed later: after a conflict, or an outage of the store."""
    delta = CONNECTOR.client()
    if isinstance(error, delta.exceptions.CommitFailedError):
        return True
    if not isinstance(error, OSError):
        return False
    numbered = re.search(r"os error (\d+)", str(error))
    return "://" in location or is_outage(OSError(int(numbered[1]), "") if numbered else error)
