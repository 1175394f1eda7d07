"""Conversion of rows to lines of a bulk request: an action with the document's id, and the document."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa

from rheos.core.connectors.schemas import check_column, shown_row
from rheos.core.errors import InputError, SchemaError
from rheos.core.protocol.elements import Batch
from rheos.formats import json

_MAX_ID_BYTES = 512
MOST_VERSION = (1 << 63) - 1
"""Largest version of a document."""


@dataclass(frozen=True)
class DocumentLayout:
    """Mapping of a row to a document."""

    id: str | None
    version: str | None
    delete: str | None

    def document(self, schema: pa.Schema) -> pa.Schema:
        return pa.schema([field for field in schema if field.name != self.delete])

    def check(self, schema: pa.Schema) -> None:
        """Raise SchemaError if rows of the schema cannot be converted."""
        wanted = {
            "id": (self.id, _is_id, "a string or an integer"),
            "version": (self.version, pa.types.is_integer, "an integer"),
            "delete": (self.delete, pa.types.is_boolean, "true or false"),
        }
        for what, (name, is_kind, words) in wanted.items():
            if name is not None:
                check_column(schema, what, name, is_kind, words)
        if not self.document(schema).names:
            raise SchemaError("no column remains for the document")
        json().check_encodes(self.document(schema))


@dataclass(frozen=True, slots=True)
class Action:
    """One row, encoded for a bulk request."""

    lines: bytes
    rows: Batch
    row: int
    id: str | None

    @property
    def record(self) -> str:
        return shown_row(self.rows, self.row)


class DocumentEncoder:
    def __init__(self, layout: DocumentLayout, schema: pa.Schema) -> None:
        self._layout = layout
        self._columns = layout.document(schema)
        self._encoder = json().encoder(self._columns)

    def actions(self, rows: Batch) -> list[Action]:
        """Return actions in the order of rows. Raises InputError, with the row, if one has no id."""
        documents = self._encoder.encode(rows.select(self._columns.names)).to_pylist()
        ids = self._ids(rows)
        versions = self._values(rows, self._layout.version)
        deleted = self._values(rows, self._layout.delete)
        found = []
        for row, document in enumerate(documents):
            head: dict[str, object] = {}
            if ids[row] is not None:
                head["_id"] = ids[row]
            if self._layout.version is not None:
                if versions[row] is None:
                    raise self._refused(rows, row, f"its version ({self._layout.version!r}) is null")
                if not 0 <= versions[row] <= MOST_VERSION:
                    # The server would refuse all rows of the request.
                    what = f"its version ({self._layout.version!r}) is not between 0 and {MOST_VERSION}"
                    raise self._refused(rows, row, what)
                # A row that is written again after a failure has the version that is already stored.
                head |= {"version": versions[row], "version_type": "external_gte"}
            name = "delete" if deleted[row] else "index"
            lines = msgspec.json.encode({name: head}) + b"\n"
            if not deleted[row]:
                lines += document + b"\n"
            found.append(Action(lines, rows, row, ids[row]))
        return found

    def _ids(self, rows: Batch) -> Sequence[str | None]:
        if self._layout.id is None:
            return [None] * rows.num_rows
        ids: list[str] = []
        for row, value in enumerate(rows.column(self._layout.id).to_pylist()):
            id = "" if value is None else str(value)
            if not 0 < len(id.encode()) <= _MAX_ID_BYTES:
                what = "null or empty" if not id else f"longer than {_MAX_ID_BYTES} bytes"
                raise self._refused(rows, row, f"its id ({self._layout.id!r}) is {what}")
            ids.append(id)
        return ids

    @staticmethod
    def _values(rows: Batch, name: str | None) -> Sequence[Any]:
        return [None] * rows.num_rows if name is None else rows.column(name).to_pylist()

    @staticmethod
    def _refused(rows: Batch, row: int, what: str) -> InputError:
        return InputError(
            f"a row cannot be written: {what}",
            record=shown_row(rows, row),
            hint="filter out such rows first",
        )


def _is_id(type: pa.DataType) -> bool:
    is_text = pa.types.is_string(type) or pa.types.is_large_string(type)
    return bool(is_text or pa.types.is_integer(type))


def newest_of_each(actions: Sequence[Action]) -> list[Action]:
    """Return the last action of each id, so that a retry cannot overwrite a newer row."""
    last = {action.id: place for place, action in enumerate(actions)}
    return [action for place, action in enumerate(actions) if last[action.id] == place]


def cut(actions: Sequence[Action], max_bytes: int) -> Iterator[list[Action]]:
    """Split actions into requests of at most `max_bytes`; a larger action forms its own request."""
    part: list[Action] = []
    size = 0
    for action in actions:
        if part and size + len(action.lines) > max_bytes:
            yield part
            part, size = [], 0
        part.append(action)
        size += len(action.lines)
    if part:
        yield part
