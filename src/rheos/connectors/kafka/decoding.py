"""Decoding of the client's messages to chunks of rows, one per partition. Messages of all partitions
are decoded together, because each call of a format's decoder is expensive."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rheos.connectors.kafka.bounds import named
from rheos.connectors.kafka.client_options import client
from rheos.connectors.kafka.messages import (
    Columns,
    Unfit,
    message_keys,
    metadata_columns,
    with_metadata,
)
from rheos.connectors.kafka.partition import PartitionFeed, RecordChunk
from rheos.connectors.kafka.upsert_decoding import UpsertDecoding
from rheos.core.connectors.rejected_records import BadRecord, OnError, bad_record
from rheos.core.formats.contract import BadPayload, Decoded, Format


@dataclass(frozen=True)
class MessageDecoding:
    """Configuration for decoding messages into rows."""

    format: Format
    schema: pa.Schema
    """Schema of the rows that are returned."""
    payload: pa.Schema
    """Columns that are decoded from the payload."""
    metadata: tuple[tuple[str, str], ...]
    """Fields of a message, and the columns that contain them."""
    on_error: OnError
    upserts: UpsertDecoding | None = None
    """How records replace each other by key; None if each is a row of its own."""

    @classmethod
    def of(
        cls, format: Format, rows: pa.Schema, metadata: tuple[tuple[str, str], ...], on_error: OnError
    ) -> MessageDecoding:
        schema, payload = with_metadata(rows, metadata)
        return cls(format, schema, payload, metadata, on_error)

    def of_upserts(self, upserts: UpsertDecoding) -> MessageDecoding:
        """Return the configuration for records that replace each other by key."""
        return replace(self, schema=upserts.schema(self.schema), upserts=upserts)


@dataclass(frozen=True, slots=True)
class MessageRun:
    """Consecutive messages of one partition."""

    feed: PartitionFeed
    begin: int
    end: int


class MessageDecoder:
    """Decoder that runs in the thread that reads ahead."""

    def __init__(self, decoding: MessageDecoding) -> None:
        self._decoding = decoding
        self._decoder = decoding.format.decoder(decoding.payload)

    def chunks(
        self, messages: Sequence[Any], offsets: npt.NDArray[np.int64], runs: Sequence[MessageRun]
    ) -> list[RecordChunk]:
        """Return a chunk for each run. Raises InputError for a bad record, unless these are skipped."""
        payloads = pa.array(list(map(client().Message.value, messages)), pa.binary())
        upserts = self._decoding.upserts
        if upserts is None:
            decoded = self._decoder.decode(payloads)
        else:
            decoded = upserts.decode(
                payloads, lambda places: message_keys([messages[at] for at in places]), self._decoder
            )
        metadata, unfit = metadata_columns(messages, self._decoding.metadata, self._decoding.schema)
        if unfit:
            decoded = _drop_bad_rows(decoded, unfit, payloads)
        rows = self._rows(decoded, metadata)
        return [self._chunk(rows, decoded, offsets, run) for run in runs]

    def _rows(self, decoded: Decoded, metadata: Columns) -> pa.RecordBatch:
        if not metadata:
            return decoded.rows
        columns = [
            decoded.of_rows(metadata[name]) if name in metadata else decoded.rows.column(name)
            for name in self._decoding.schema.names
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self._decoding.schema)

    def _chunk(
        self,
        rows: pa.RecordBatch,
        decoded: Decoded,
        offsets: npt.NDArray[np.int64],
        run: MessageRun,
    ) -> RecordChunk:
        bad = [
            (int(offsets[each.at]), BadRecord.of(each))
            for each in decoded.bad
            if run.begin <= each.at < run.end
        ]
        if bad and self._decoding.on_error == "fail":
            offset, record = bad[0]
            raise bad_record(f"{named(run.feed.partition)}@{offset}", record)
        if decoded.origin is None:
            begin, end, origin = run.begin, run.end, np.arange(run.begin, run.end)
        else:
            begin, end = np.searchsorted(decoded.origin, [run.begin, run.end]).tolist()
            origin = decoded.origin[begin:end]
        after = int(offsets[run.end - 1]) + 1
        return RecordChunk.of(rows.slice(begin, end - begin), offsets[origin], bad, after)


def _drop_bad_rows(decoded: Decoded, unfit: Unfit, payloads: pa.Array) -> Decoded:
    """Return the rows without those of further bad payloads."""
    origin = np.arange(len(payloads)) if decoded.origin is None else decoded.origin
    kept = ~np.isin(origin, list(unfit))
    bad = [each for each in decoded.bad if each.at not in unfit]
    bad += [BadPayload(at, payloads[at].as_py(), error) for at, error in unfit.items()]
    rows = decoded.rows.filter(pa.array(kept))
    return Decoded(rows, origin[kept], sorted(bad, key=lambda each: each.at))
