"""Cells of a table: which family and qualifier hold each column of the stream."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from rheos.connectors.hbase.encoding import CellCodec, RowKeyCodec, array_of, cell_codec
from rheos.core.errors import InputError, ProgramError, SchemaError
from rheos.core.protocol.elements import Batch

_TABLE = re.compile(r"(?:\w+:)?\w[\w.-]*", re.ASCII)
_FAMILY = re.compile(r"[^\x00-\x20:/.][^\x00-\x20:/]*")
_SHOWN_KEY_BYTES = 80


@dataclass(frozen=True)
class CellNames:
    """Cells that hold the columns which are not part of the row key."""

    family: str | None
    """Family of all columns that `columns` does not list."""
    columns: tuple[tuple[str, str], ...]
    """Columns, and "family:qualifier" of each."""

    @classmethod
    def of(cls, family: Any, columns: Any) -> CellNames:
        """Create it from a user's arguments. Raises ProgramError."""
        if family is None and not columns:
            raise ProgramError("no column family is named", hint='write family="cf"')
        if family is not None and not (isinstance(family, str) and _FAMILY.fullmatch(family)):
            raise ProgramError(f"family={family!r} is not the name of a family", hint='write "cf"')
        if columns is not None and not isinstance(columns, Mapping):
            raise ProgramError("columns= must be a dict", hint='write columns={"price": "money:price"}')
        found = tuple(sorted((columns or {}).items()))
        for name, cell in found:
            of, colon, _ = cell.partition(":") if isinstance(cell, str) else ("", "", "")
            if not colon or not _FAMILY.fullmatch(of):
                raise ProgramError(
                    f"columns= has {cell!r} for {name!r}, which is not a family and a qualifier",
                    hint='write columns={"price": "money:price"}',
                )
        return cls(family, found)

    def cell(self, column: str) -> bytes:
        """Return "family:qualifier" of a column. Raises SchemaError if it has no family."""
        for name, cell in self.columns:
            if name == column:
                return cell.encode()
        if self.family is None:
            raise SchemaError(
                f"the column {column!r} has no family",
                hint=f'write family="cf", or add it to columns=: "{column}": "cf:{column}"',
            )
        return f"{self.family}:{column}".encode()

    def check_names(self, names: Sequence[str], keys: Sequence[str]) -> None:
        """Check the columns of rows. Raises SchemaError.

        Args:
            names: columns that cells hold.
            keys: columns of the row key, which no cell holds.
        """
        for column, _ in self.columns:
            if column in keys:
                raise SchemaError(
                    f"columns= names {column!r}, which is part of the row key", hint="leave it out"
                )
            if column not in names:
                raise SchemaError(
                    f"columns= names {column!r}, which the rows do not have",
                    hint=f"they have {', '.join(names)}",
                )
        if not names:
            raise SchemaError(
                "the rows have no column besides those of the row key",
                hint="add one: a row of HBase without cells does not exist",
            )
        cells: dict[bytes, str] = {}
        for column in names:
            cell = self.cell(column)
            if cell in cells:
                raise SchemaError(
                    f"the columns {cells[cell]!r} and {column!r} have one cell, {cell.decode()}",
                    hint="name another one in columns=",
                )
            cells[cell] = column


@dataclass(frozen=True)
class HbaseRows:
    """Rows of a table, as a program declares them."""

    table: str
    names: CellNames
    key: pa.Schema
    """Columns of the row key."""
    columns: pa.Schema
    """Columns that cells hold."""

    @classmethod
    def of(cls, table: Any, names: CellNames, schema: pa.Schema, key: Sequence[str]) -> HbaseRows:
        """Create it from all columns and the names of those of the key.

        Raises:
            ProgramError: `key` names no columns.
            SchemaError: a column is missing, or its type has no encoding.
        """
        for name in key:
            if name not in schema.names:
                raise SchemaError(
                    f"the row key's column {name!r} is missing in the rows",
                    hint=f"they have {', '.join(schema.names)}",
                )
        columns = pa.schema([field for field in schema if field.name not in key])
        names.check_names(columns.names, key)
        for field in columns:
            cell_codec(field)
        by = pa.schema([schema.field(name) for name in key])
        RowKeyCodec(list(by))
        return cls(table, names, by, columns)

    @property
    def cells(self) -> list[bytes]:
        """Return "family:qualifier" of each of `columns`."""
        return [self.names.cell(name) for name in self.columns.names]

    def codecs(self) -> list[CellCodec]:
        """Return the encoding of each of `columns`."""
        return [cell_codec(field) for field in self.columns]

    def decode(self, rows: Sequence[tuple[bytes, Mapping[bytes, bytes]]], schema: pa.Schema) -> Batch:
        """Return stored rows as a batch.

        Args:
            rows: row keys, and the value of each cell.
            schema: columns of the batch: of `columns`, and of the row key.

        Raises:
            InputError: a row does not fit. It shows the row key.
        """
        keys = self._decode_keys(rows) if {*self.key.names} & {*schema.names} else {}
        arrays = [
            keys[field.name] if field.name in keys else self._decode_cells(rows, field)
            for field in schema
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _decode_keys(self, rows: Sequence[tuple[bytes, Any]]) -> Mapping[str, pa.Array]:
        codec = RowKeyCodec(list(self.key))
        try:
            arrays = codec.decode([key for key, _ in rows])
        except (ValueError, OverflowError):
            for key, _ in rows:
                try:
                    codec.decode([key])
                except (ValueError, OverflowError) as error:
                    raise InputError(
                        f"a row key of the table {self.table} does not fit: {error}",
                        record=f"row key {shown_key(key)}",
                        hint="declare the row key's columns in their order, with their types",
                    ) from None
            raise
        return dict(zip(self.key.names, arrays, strict=True))

    def _decode_cells(
        self, rows: Sequence[tuple[bytes, Mapping[bytes, bytes]]], field: pa.Field
    ) -> pa.Array:
        codec, cell = cell_codec(field), self.names.cell(field.name)
        stored = [cells.get(cell) for _, cells in rows]
        try:
            return _decode(stored, codec, field)
        except (ValueError, OverflowError):
            for (key, _), value in zip(rows, stored, strict=True):
                try:
                    _decode([value], codec, field)
                except (ValueError, OverflowError) as error:
                    raise InputError(
                        f"the cell {cell.decode()} of the table {self.table} is no {field.type}: "
                        f"{error}",
                        record=f"row key {shown_key(key)}",
                        hint="declare the type with which it was written, or correct the row",
                    ) from None
            raise


def _decode(stored: Sequence[bytes | None], codec: CellCodec, field: pa.Field) -> pa.Array:
    """Return the values of some cells. Raises ValueError if one does not fit the column."""
    if None in stored and not field.nullable:
        raise ValueError("it is missing")
    values = [None if value is None else codec.decode(value) for value in stored]
    return array_of(values, codec, field.type)


def checked_table(table: Any) -> str:
    """Return the name of a table. Raises ProgramError if it is invalid."""
    if not isinstance(table, str) or not _TABLE.fullmatch(table):
        raise ProgramError(
            f"table={table!r} is not the name of a table", hint='write "orders" or "shop:orders"'
        )
    return table


def checked_key(key: Any, argument: str) -> tuple[str, ...]:
    """Return the columns of a row key. Raises ProgramError if it names no columns."""
    names = (key,) if isinstance(key, str) else tuple(key)
    if not names or not all(isinstance(each, str) for each in names) or len({*names}) < len(names):
        raise ProgramError(
            f"{argument}={key!r} does not name columns",
            hint=f'write {argument}="id" or {argument}=["shop", "id"]',
        )
    return names


def shown_key(key: bytes) -> str:
    """Return a row key for errors."""
    return repr(key[:_SHOWN_KEY_BYTES])[1:] + ("…" if len(key) > _SHOWN_KEY_BYTES else "")
