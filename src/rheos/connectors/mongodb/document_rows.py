"""Conversion of documents and of events of a change stream to rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, assert_never

import pyarrow as pa

from rheos.connectors.chunk_buffer import BufferedChunk
from rheos.connectors.mongodb.document_position import DocumentPosition, encoded
from rheos.connectors.mongodb.documents import rows_of
from rheos.core.errors import InputError

Known = Literal["op", "commit_time"]
"""Metadata of a change."""
_TYPES: Mapping[Known, pa.DataType] = {"op": pa.string(), "commit_time": pa.timestamp("s", "UTC")}
_OPS = {"insert": "insert", "update": "update", "replace": "update", "delete": "delete"}
_ENDS = ("drop", "rename", "dropDatabase", "invalidate")


@dataclass(frozen=True)
class DocumentRows:
    """Columns of the rows, for the workers."""

    collection: str
    fields: pa.Schema
    """Fields of documents. All but `_id` may be null."""
    metadata: tuple[tuple[Known, str], ...]
    """Metadata, and the names of their columns."""

    @property
    def schema(self) -> pa.Schema:
        """Columns of the rows."""
        more = [pa.field(name, _TYPES[known]) for known, name in self.metadata]
        return pa.schema([*self.fields, *more])

    def of_documents(
        self, documents: Sequence[Mapping[str, Any]], before: DocumentPosition, token: bytes
    ) -> BufferedChunk:
        """Return documents of the snapshot as a chunk."""
        ids = [encoded(each["_id"]) for each in documents]

        def at(row: int) -> DocumentPosition:
            return DocumentPosition(token, True, ids[row - 1]) if row else before

        rows = self._rows(documents, ["snapshot"] * len(documents), [None] * len(documents))
        return BufferedChunk(rows, at, at(len(ids)))

    def of_events(
        self, events: Sequence[Mapping[str, Any]], before: DocumentPosition, token: bytes
    ) -> BufferedChunk:
        """Return events as a chunk. Raises InputError if the collection was dropped or renamed."""
        documents, ops, times, tokens = [], [], [], []
        for event in events:
            kind = event["operationType"]
            if kind in _ENDS:
                raise InputError(
                    f"the collection {self.collection} was dropped or renamed meanwhile: {kind}",
                    hint="start the job anew, without a checkpoint, to read the present collection",
                )
            if kind not in _OPS:
                continue
            document = event["documentKey"] if kind == "delete" else event.get("fullDocument")
            if document is None:
                continue  # It was deleted since: that event follows.
            documents.append(document)
            ops.append(_OPS[kind])
            times.append(datetime.fromtimestamp(event["clusterTime"].time, UTC))
            tokens.append(encoded(event["_id"]))

        def at(row: int) -> DocumentPosition:
            return DocumentPosition(tokens[row - 1]) if row else before

        return BufferedChunk(self._rows(documents, ops, times), at, DocumentPosition(token))

    def progress(self, token: bytes) -> BufferedChunk:
        """Return a chunk without rows, which advances the position."""
        after = DocumentPosition(token)
        return BufferedChunk(pa.RecordBatch.from_pylist([], self.schema), lambda row: after, after)

    def _rows(
        self,
        documents: Sequence[Mapping[str, Any]],
        ops: Sequence[str],
        times: Sequence[datetime | None],
    ) -> pa.RecordBatch:
        columns = list(rows_of(documents, self.fields, self.collection).columns)
        for known, _ in self.metadata:
            match known:
                case "op":
                    columns.append(pa.array(ops, _TYPES[known]))
                case "commit_time":
                    columns.append(pa.array(times, _TYPES[known]))
                case _:
                    assert_never(known)
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)
