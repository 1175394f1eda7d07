"""The format contract: decode payloads to rows of a schema, and encode rows, column by column.

A *payload* is the bytes of one record as a transport carries them: the value of a message, a line of a
file. A `Format` is a frozen, picklable description of what the user configured. The worker creates
decoders and encoders from it. Sources and sinks use formats only through this contract, so each of them
supports every format.

A new built-in format is one module in `rheos.formats`, and one line in its `__init__.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rheos.core.errors import InputError, SchemaError
from rheos.core.formats.payloads import NEWLINE, JoinedPayloads, joined
from rheos.core.protocol.elements import Batch
from rheos.core.protocol.shown_rows import shown_record

MAX_PAYLOAD_BYTES = 1 << 26
"""Maximum size of a payload. Longer payloads are bad, whatever they contain."""
MAX_VALUES = 1 << 20
"""Maximum number of values (fields, elements of lists, entries of maps) in one payload. A payload with
more is bad: its values, as objects or columns, would take a hundred times the bytes of the payload."""


NOT_UTF_8 = 'pass the encoding of the files: rh.files.source(..., encoding="latin-1"), or "utf-16"'


class BadPayload(NamedTuple):
    """A payload that cannot be decoded, and the error."""

    at: int
    """Position among the payloads that were decoded together."""
    payload: bytes | None
    error: str
    """Description of the error, to be shown after the record's place: "column 'user' must be a number,
    and is a string"."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """The rows that a decoder returns for some payloads."""

    rows: Batch
    """Rows with the decoder's schema, in the order of the payloads."""
    origin: npt.NDArray[np.int64] | None
    """The payload of each row, in ascending order; None if row i comes from payload i for all rows."""
    bad: Sequence[BadPayload]
    """Payloads that could not be decoded, in the order of the payloads."""

    def of_rows(self, column: pa.Array) -> pa.Array:
        """Convert a column with a value per payload (keys, offsets) to one with a value per row."""
        return column if self.origin is None else column.take(pa.array(self.origin))


def merged(parts: Sequence[tuple[npt.NDArray[np.int64], Decoded]], count: int) -> Decoded:
    """Return the rows of payloads that were decoded in parts, in the order of the payloads.

    Args:
        parts: The payloads of each part by their positions, and what was decoded from them.
        count: The number of all payloads.
    """
    origin = np.concatenate(
        [places if found.origin is None else places[found.origin] for places, found in parts]
    )
    order = np.argsort(origin, kind="stable")
    origin = origin[order]
    rows = pa.concat_batches([found.rows for _, found in parts]).take(pa.array(order))
    bad = [each._replace(at=int(places[each.at])) for places, found in parts for each in found.bad]
    one_each = np.array_equal(origin, np.arange(count))
    return Decoded(rows, None if one_each else origin, sorted(bad, key=lambda each: each.at))


class Decoder(ABC):
    """Decodes payloads to rows. Calls run one at a time, on any thread, and may block: a source makes
    them on the I/O executor.

    The result for a payload depends on that payload alone, not on others in the same call: the division
    of the input into calls must not affect the rows. Payloads are not trusted: this class checks their
    size, and implementations limit nesting depth and announced sizes.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema

    def decode(self, payloads: pa.Array) -> Decoded:
        """Return the rows that a `binary` column of payloads contains.

        Pass a bounded batch: a few thousand payloads, usually a few MB, and always less than 2 GB. A
        payload that does not fit the schema is returned in `bad`. A null payload (a tombstone in Kafka)
        becomes a row of nulls if all columns are nullable; otherwise it is bad.

        Raise TransportError if a needed service, such as a schema registry, is unreachable, and
        ConfigurationError if it refuses the request. Neither is the fault of a payload, and the same
        call may succeed later.
        """
        if payloads.null_count or _longest(payloads) > MAX_PAYLOAD_BYTES:
            return self._decode_the_fit(payloads)
        return self._decode(payloads)

    def decode_joined(self, payloads: JoinedPayloads) -> Decoded:
        """Decode payloads that are already in one buffer, such as the lines of a file."""
        if len(payloads) and int(np.diff(payloads.starts).max()) > MAX_PAYLOAD_BYTES:
            return self.decode(payloads.column())
        return self._decode_joined(payloads)

    def _decode_joined(self, payloads: JoinedPayloads) -> Decoded:
        """Decode joined payloads, none of which is too long. Implementations that join payloads
        override this."""
        return self._decode(payloads.column())

    @abstractmethod
    def _decode(self, payloads: pa.Array) -> Decoded:
        """Decode payloads that are neither null nor too long."""

    def _decode_the_fit(self, payloads: pa.Array) -> Decoded:
        null = payloads.is_null().to_numpy(zero_copy_only=False)
        lengths = pc.binary_length(payloads).fill_null(0).to_numpy()
        places = np.flatnonzero(~null & (lengths <= MAX_PAYLOAD_BYTES))
        of_fit = self._decode(payloads.take(pa.array(places)))
        rows = of_fit.rows
        origin = places if of_fit.origin is None else places[of_fit.origin]
        bad = [each._replace(at=int(places[each.at])) for each in of_fit.bad]
        for place in np.flatnonzero(lengths > MAX_PAYLOAD_BYTES).tolist():
            what = f"the payload has {lengths[place]} bytes, but the maximum is {MAX_PAYLOAD_BYTES}"
            bad.append(BadPayload(place, payloads[place].as_py(), what))
        nulls = np.flatnonzero(null)
        strict = [field.name for field in self.schema if not field.nullable]
        if strict:
            what = f"the payload is null (a tombstone), but column {strict[0]!r} is not nullable"
            bad += [BadPayload(place, None, what) for place in nulls.tolist()]
        elif len(nulls):
            order = np.argsort(np.concatenate([origin, nulls]), kind="stable")
            origin = np.concatenate([origin, nulls])[order]
            rows = rows.take(pa.array(order, mask=order >= rows.num_rows))
        one_each = np.array_equal(origin, np.arange(len(payloads)))
        return Decoded(rows, None if one_each else origin, sorted(bad, key=lambda each: each.at))


def _longest(payloads: pa.Array) -> int:
    return pc.max(pc.binary_length(payloads)).as_py() or 0


@dataclass(frozen=True, slots=True)
class LineLayout:
    """Layout of a format's payloads in a file of lines."""

    end: str
    """File name extension without the dot, such as "jsonl"."""
    header: bool = False
    """Whether the first line of each file names the columns. It is not a payload."""
    quote: bytes | None = None
    """Quote character of fields. Between two of them, a line end is part of the payload."""
    delimiter: bytes = b","
    """Separator of fields, for formats with quotes."""
    blank: bool = False
    """Whether an empty line is a payload. If not, it is skipped."""


class Encoder(ABC):
    """Encodes rows into payloads. Its calls run one at a time, on any thread."""

    @abstractmethod
    def encode(self, rows: Batch) -> pa.Array:
        """Return one payload per row, in order, as a column of `binary`. A payload is null (a
        tombstone) only if the format has a single column whose value is null. A target that cannot
        store tombstones refuses them.

        If the format's `rows_per_payload` is n > 1, return one payload for each n rows, and one for the
        rest. Pass a bounded batch that encodes to less than 2 GB.

        Raise InputError, with the record, if the format cannot represent a value.
        """

    def lines(self, rows: Batch) -> bytes:
        """Return the payloads as lines of a file, with line ends. Only for line-based formats.

        Also raise InputError if a payload is null, or would be more than one line.
        """
        payloads = self.encode(rows)
        nulls = np.flatnonzero(payloads.is_null().to_numpy(zero_copy_only=False))
        if len(nulls):
            raise _no_line(rows, int(nulls[0]), "a line of a file cannot be null")
        text = joined(payloads)
        if np.count_nonzero(text.bytes() == NEWLINE) != len(payloads):
            row = next(i for i, payload in enumerate(payloads.to_pylist()) if b"\n" in payload)
            raise _no_line(
                rows, row, "the row contains a line end, and would be read back as several lines"
            )
        return memoryview(text.data).tobytes()

    def header(self) -> bytes:
        """Return the first line of a file, with its line end; empty if the format has no header."""
        return b""


def _no_line(rows: Batch, row: int, what: str) -> InputError:
    return InputError(
        what,
        record=shown_record(rows, row),
        hint="filter such rows out, change them upstream, or use another format, such as JSON",
    )


def check_any_column(schema: pa.Schema, format: str) -> None:
    """Raise SchemaError if the schema has no columns: rows without columns cannot be counted."""
    if not schema.names:
        raise SchemaError(
            f"no column of the schema would be filled by the format {format}",
            hint="add one of its columns to the schema, or read the raw bytes with rh.formats.raw()",
        )


class Format(ABC):
    """A frozen description of a format, as the user has configured it."""

    name: ClassVar[str]
    """Name of the format in settings, in `describe` and in errors: "json"."""

    rows_per_payload: int = 1
    """Maximum number of rows that an encoder puts into one payload. A payload can have the key of its
    row only if this is 1. A decoder accepts any number."""

    encodes_changes: ClassVar[bool] = False
    """Whether payloads contain the kind of a change, so that a sink can append a changelog."""

    def rows_schema(self, schema: pa.Schema) -> pa.Schema:
        """Return the schema of decoded rows, for the columns that the user declares.

        A format of changes adds the kind of change. Raise SchemaError if it cannot.
        """
        return schema

    @property
    def finds_by_name(self) -> bool:
        """Return whether the format finds columns in files by name, so that it can decode any of them
        without the others."""
        return False

    @property
    def in_lines(self) -> LineLayout | None:
        """Return the layout in a file of lines; None if payloads hold bytes that a line cannot."""
        return None

    def own_schema(self) -> pa.Schema | None:
        """Return the schema to use when the user passes none; None if the format requires one."""
        return None

    @abstractmethod
    def check_decodes(self, schema: pa.Schema) -> None:
        """Check, when the program is built, that the format can decode such rows. Raise SchemaError."""

    @abstractmethod
    def check_encodes(self, schema: pa.Schema) -> None:
        """Check, when the program is built, that the format can encode such rows. Raise SchemaError."""

    @abstractmethod
    def decoder(self, schema: pa.Schema, header: bytes | None = None) -> Decoder:
        """Return a decoder to rows of the checked schema. The call must not access anything outside the
        process.

        `header` is the file's first line, if it has one. Raise InputError if a column is missing.
        """

    @abstractmethod
    def encoder(self, schema: pa.Schema) -> Encoder:
        """Return an encoder of rows of the checked schema. The call must not access anything outside
        the process."""

    def describe(self) -> str:
        """Return one or two words for `explain` and the status."""
        return self.name
