"""A Delta table: finds or creates it, and checks whether a sink may write it and a source read it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import pyarrow as pa

from rheos.connectors.calls.bounded_calls import LoneCalls, Progressed
from rheos.connectors.calls.outside_calls import OutsideCall
from rheos.connectors.delta.columns import fitted_schema, new_columns, stored_type, table_schema
from rheos.connectors.delta.registration import CONNECTOR
from rheos.connectors.table_log.target import TableTarget
from rheos.core.connectors.outages import is_outage
from rheos.core.errors import (
    CheckpointError,
    ConfigurationError,
    SchemaError,
    UnavailableError,
)

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


@dataclass(frozen=True, kw_only=True)
class DeltaTarget(TableTarget):
    """A table, as it was when the job was submitted. Its name is its folder."""

    format = "Delta"
    partition_by: tuple[str, ...]

    @property
    def partitions(self) -> tuple[str, ...]:
        return self.partition_by


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
        return replace(fitted_target(table, location, schema, partition_by), key=key, gone=gone)


def fitted_target(
    table: Any, location: str, schema: pa.Schema, partition_by: Sequence[str]
) -> DeltaTarget:
    """Return the table as it is, for rows of a schema. Raises SchemaError if they do not fit."""
    columns, metadata = _columns(table), table.metadata()
    partitions = tuple(metadata.partition_columns)
    if partition_by and tuple(partition_by) != partitions:
        has = ", ".join(partitions) or "no column"
        raise SchemaError(
            f"partition_by={list(partition_by)}, but the table {location} is partitioned by {has}",
            hint="leave out partition_by: the table determines it",
        )
    staged = fitted_schema(schema, columns, partitions, location)
    return DeltaTarget(
        name=location,
        folder=location,
        identity=str(metadata.id),
        columns=columns,
        staged=staged,
        partition_by=partitions,
    )


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


def readable_columns(table: Any, location: str, *, may_have_deletions: bool = False) -> pa.Schema:
    """Return the columns of a table as its data files have them.

    Args:
        table: the library's table.
        location: the table's folder, for messages.
        may_have_deletions: whether to accept deletion vectors.

    Raises:
        ConfigurationError: the files alone do not show the table's rows, or a type is unknown.
    """
    settings = table.metadata().configuration
    reasons = []
    if settings.get("delta.columnMapping.mode", "none") != "none":
        reasons.append("column mapping")
    features = table.protocol().reader_features or ()
    if (
        not may_have_deletions
        and "deletionVectors" in features
        and any(batch.num_rows for batch in table.deletion_vectors())
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
        why = _message(error)
        hint = "check the path, and that the job's user may read and write there"
        if "Unsupported: " in why:
            hint = (
                "the library `deltalake` does not support the table: read it by Spark, or copy its rows"
            )
        raise ConfigurationError(
            f"the Delta table {location} could not be inspected or created: {why}", hint=hint
        ) from error


@contextmanager
def reading_or_writing(location: str) -> Iterator[None]:
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
