"""Records that do not match their schema: they fail the job with their position, or are skipped.

All sources share this mechanism. With `on_error="skip"`, a bad record is counted (`skipped`), and
becomes a row of the side output "rejected". The row has the record's position (file and line; topic,
partition and offset), its text, the error, and its bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import pyarrow as pa

from rheos.core.connectors.contract import RowPlaces
from rheos.core.connectors.schemas import shorten
from rheos.core.errors import InputError, ProgramError
from rheos.core.formats.contract import BadPayload
from rheos.core.protocol.elements import Batch

OnError: TypeAlias = Literal["fail", "skip"]

SKIPPED = "skipped"
"""Counter of rejected records."""
_BEHIND_PLACE = "record"
_SPLIT = "split"


class BadRecord(NamedTuple):
    text: str
    """Record as readable text. Bytes that are not UTF-8 are replaced."""
    payload: bytes | None
    """Bytes of the record; None for a tombstone or a record without bytes (a row of Parquet)."""
    error: str

    @classmethod
    def of(cls, bad: BadPayload) -> BadRecord:
        text = "null" if bad.payload is None else bad.payload.decode(errors="replace")
        return cls(text, bad.payload, bad.error)


def check_on_error(on_error: str) -> None:
    """Raise ProgramError if `on_error` is not a known value."""
    if on_error not in get_args(OnError):
        raise ProgramError(f"on_error={on_error!r} is not known", hint='write "fail" or "skip"')


def rejected_schema(*place: pa.Field) -> pa.Schema:
    """Return the schema of the side output of rejected records; `place` are the position columns."""
    return pa.schema(
        [
            *place,
            pa.field(_BEHIND_PLACE, pa.string(), nullable=False),
            pa.field("error", pa.string(), nullable=False),
            pa.field("payload", pa.binary()),
        ]
    )


def rejected_rows(schema: pa.Schema, place: Sequence[Sequence[Any]], bad: Sequence[BadRecord]) -> Batch:
    """Return rows of the side output; `place` has a column of values for each position column."""
    texts, payloads, errors = zip(*bad, strict=True) if bad else ((), (), ())
    columns = [*place, texts, errors, payloads]
    arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def with_rows_ahead(schema: pa.Schema | None) -> pa.Schema:
    """Return the columns of the side output for a source that also rejects rows by their event time.

    Such rows have been decoded, so their position is known only if the reader reports it.
    """
    if schema is None:
        return rejected_schema(pa.field(_SPLIT, pa.string()))
    at = schema.names.index(_BEHIND_PLACE)
    return pa.schema([*(field.with_nullable(True) for field in [*schema][:at]), *[*schema][at:]])


def rows_ahead(
    schema: pa.Schema,
    split: str,
    places: RowPlaces | None,
    rows: Sequence[int],
    bad: Sequence[BadRecord],
) -> Batch:
    """Return rows of the side output for rejected rows of the reader's last batch.

    Args:
        schema: columns of the side output.
        split: the split of the rows.
        places: coordinates of the batch's rows, if the reader reports them.
        rows: indexes of the rejected rows in the batch.
        bad: the error of each of them.
    """
    place: list[Sequence[Any]] = []
    for name in schema.names[: schema.names.index(_BEHIND_PLACE)]:
        if name == _SPLIT:
            place.append([split] * len(rows))
        elif places is not None and places.unit == name:
            place.append([places.of_rows[row] for row in rows])
        else:
            place.append([None] * len(rows))
    return rejected_rows(schema, place, bad)


def places_of_rejected(rejected: Batch) -> RowPlaces:
    """Return the positions of rejected rows: the last position column counts within the split."""
    at = rejected.schema.names.index(_BEHIND_PLACE) - 1
    return RowPlaces(rejected.schema.names[at], rejected.column(at).to_pylist())


def bad_record(place: str, bad: BadRecord) -> InputError:
    """Return the error for a bad record that is not skipped. `place` is "file:line" or similar."""
    return InputError(
        f"{place}: {bad.error}",
        record=shorten(bad.text),
        hint='correct the record or the schema, or skip such records with on_error="skip"',
    )
