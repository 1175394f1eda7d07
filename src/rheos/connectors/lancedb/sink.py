"""Sink that writes to a table of LanceDB by key: `lancedb.sink(...)`."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from rheos.connectors.calls.bounded_calls import Progressed
from rheos.connectors.files.folder import SinkFolder
from rheos.connectors.lancedb.predicates import key_literal, quoted
from rheos.connectors.lancedb.vector_store import VectorStore, check_table
from rheos.connectors.sql_database.column_limits import ColumnLimits
from rheos.connectors.sql_database.ledger_commit import LedgerEpoch, decoded_epoch
from rheos.connectors.sql_database.target_table import WrittenTable
from rheos.connectors.sql_database.writing import LedgerWriter, staged_rows
from rheos.connectors.staged_files import clear_attempts
from rheos.connectors.unfit_columns import missing_column, unfit_type
from rheos.core.connectors.contract import Committer, Sink, SinkContext, SinkWriter
from rheos.core.connectors.datasets import Dataset
from rheos.core.connectors.schemas import check_changes_key, check_column
from rheos.core.errors import ConfigurationError, ProgramError
from rheos.core.protocol.elements import Batch
from rheos.core.protocol.ids import Attempt, JobId
from rheos.core.site import located_at_call

_DELETED_KEYS = 1000
"""Maximum number of keys of one deletion."""


@located_at_call
def sink(
    table: str,
    *,
    uri: str | os.PathLike[str],
    key: str = "",
    options: Mapping[str, object] | None = None,
) -> LanceDbSink:
    """Write rows to a table of LanceDB by key, such as documents with their vectors. A table that does
    not exist is created.

    ```python
    texts.sink_to(rh.lancedb.sink("texts", uri="vectors", key="id"))
    ```

    The driver writes the rows of each checkpoint. After a failure it may write some of them again,
    which replaces the rows of their keys.

    Args:
        table: Its name.
        uri: Folder of the tables, a path or the URL of an object store.
        key: The key column: a row replaces the row with the same key, and a new key adds a row. A
            number or a string. It may be left out if the stream is the changes of a table with a key of
            one column.
        options: Options of the object store, such as {"aws_region": "eu-west-1"}. Their values are
            shown nowhere.

    Returns:
        The sink, for `stream.sink_to`.

    Raises:
        ProgramError: An argument is invalid.
        ConfigurationError: LanceDB is not installed.
    """
    check_table(table)
    if not isinstance(key, str):
        raise ProgramError(f"key={key!r} does not name a column", hint='write key="id"')
    return LanceDbSink(table, VectorStore.of(uri, options), (key,) if key else ())


@dataclass(frozen=True)
class LanceDbTarget:
    """Configuration of the table for writers and the committer."""

    store: VectorStore
    key: tuple[str, ...]
    table: WrittenTable
    gone: str | None
    """Boolean column of the rows: where it is true, the row with the same key is deleted."""
    columns: pa.Schema
    """Columns of the table that the rows have."""
    folder: str = ""
    """Folder for staged rows."""


@dataclass(frozen=True)
class LanceDbSink(Sink):
    """Sink that `lancedb.sink` creates."""

    table: str
    store: VectorStore
    key: tuple[str, ...]
    gone: str | None = None
    """In a changelog: boolean column that marks rows which delete the row with their key."""
    target: LanceDbTarget | None = None
    """Target table; None until the sink is prepared."""

    def of_changes(self, key: Sequence[str], delete: str) -> LanceDbSink:
        if self.key:
            check_changes_key("key", self.key, key, None)
        return replace(self, key=tuple(key), gone=delete)

    def validate(self, schema: pa.Schema) -> None:
        if len(self.key) != 1:
            raise ProgramError(
                "a table of LanceDB is written by a key of one column",
                hint='name it: key="id". Join several columns to one string',
            )
        t = pa.types
        check_column(
            schema,
            "key",
            self.key[0],
            lambda kind: t.is_integer(kind) or t.is_string(kind) or t.is_large_string(kind),
            "a whole number or a string",
        )

    def prepared(self, schema: pa.Schema, writer: tuple[str, str]) -> LanceDbSink:
        rows = pa.schema([field for field in schema if field.name != self.gone])

        def found(database: Any, _: object) -> pa.Schema:
            try:
                table = database.open_table(self.table)
            except ValueError as error:
                if "not found" not in str(error):
                    raise
                table = database.create_table(self.table, schema=rows, exist_ok=True)
            columns: pa.Schema = table.schema
            return columns

        there = self.store.do(f"the table {self.table} cannot be inspected", found)
        for field in rows:
            if field.name not in there.names:
                to_add = "add it to the table: table.add_columns"
                raise missing_column(field.name, field.type, there.names, self.table, to_add)
            if there.field(field.name).type != field.type:
                of_table = there.field(field.name).type
                raise unfit_type(field.name, field.type, of_table, self.table)
        limits = (ColumnLimits(self.key[0], str(rows.field(self.key[0]).type), nullable=False),)
        table = WrittenTable(None, self.table, limits)
        return replace(self, target=LanceDbTarget(self.store, self.key, table, self.gone, rows))

    def staged(self, folder: str) -> LanceDbSink:
        assert self.target is not None, "a sink is prepared before it is staged"
        return replace(self, target=replace(self.target, folder=folder))

    def open(self, ctx: SinkContext) -> SinkWriter:
        if self.target is None:
            raise ConfigurationError(f"the runtime must inspect {self.describe()} before it is written")
        return LedgerWriter(self.target, ctx, None)

    def committer(self) -> Committer | None:
        return None if self.target is None else LanceDbCommitter(self.target)

    def datasets(self) -> Sequence[Dataset]:
        return [self.store.dataset(self.table)]

    def describe(self) -> str:
        return f"table {self.table} of LanceDB in {self.store}, upserts by {', '.join(self.key)}"


@dataclass(frozen=True)
class LanceDbCommitter(Committer):
    target: LanceDbTarget

    on_driver = True

    def commit(self, committables: Sequence[bytes]) -> None:
        target, folder = self.target, SinkFolder(self.target.folder)
        epochs = sorted(map(decoded_epoch, committables), key=lambda each: each.checkpoint)

        def work(database: Any, progressed: Progressed) -> None:
            table = database.open_table(target.table.name)
            for epoch in epochs:
                _put(table, target.columns, folder, epoch, progressed)

        if epochs:
            target.store.do(f"the table {target.table} cannot be written", work)
        # A commit that is repeated needs its own files, but none of earlier ones.
        for epoch in {each.writer: each for each in reversed(epochs)}.values():
            with contextlib.suppress(OSError):
                folder.remove(_path_before(epoch.file.path))

    def abort_stale(self, job: JobId, before: Attempt, keep: Sequence[bytes]) -> None:
        kept = {epoch.file.path for epoch in map(decoded_epoch, keep)}
        clear_attempts(SinkFolder(self.target.folder), before, kept)


def _path_before(path: str) -> str:
    """Return the path of the file that the same writer staged before."""
    return re.sub(r"\d+(?=\.arrow$)", lambda number: str(int(number[0]) - 1), path)


def _put(
    table: Any, columns: pa.Schema, folder: SinkFolder, epoch: LedgerEpoch, progressed: Progressed
) -> None:
    [key] = epoch.key
    for rows in staged_rows(folder, epoch):
        written, deleted = newest_rows(rows, key, epoch.gone)
        for begin in range(0, len(deleted), _DELETED_KEYS):
            names = ", ".join(map(key_literal, deleted[begin : begin + _DELETED_KEYS].to_pylist()))
            table.delete(f"{quoted(key)} IN ({names})")
            progressed()
        if written.num_rows:
            merge = table.merge_insert(key).when_matched_update_all().when_not_matched_insert_all()
            merge.execute(pa.Table.from_batches([written.select(columns.names).cast(columns)]))
            progressed()


def newest_rows(rows: Batch, key: str, gone: str | None) -> tuple[Batch, pa.Array]:
    """Return the last row of each key that stays, and the keys whose last row deletes them."""
    keys = pl.DataFrame({"key": pl.Series(pl.from_arrow(rows.column(key)))}).with_row_index("at")
    newest = keys.unique("key", keep="last", maintain_order=True)["at"].to_arrow()
    last = rows.take(newest)
    if gone is None:
        return last, pa.array([], rows.column(key).type)
    is_gone = last.column(gone).fill_null(False)
    return last.filter(pc.invert(is_gone)), last.column(key).filter(is_gone)
