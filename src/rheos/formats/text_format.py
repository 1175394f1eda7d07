"""Text: a payload is the value of the only column, in UTF-8.

>>> import pyarrow as pa
>>> from rheos import formats
>>> text = formats.text()
>>> decoded = text.decoder(text.own_schema()).decode(pa.array([b"caf\\xc3\\xa9", b"caf\\xe9"]))
>>> decoded.rows.to_pylist(), decoded.bad[0].error
([{'value': 'café'}], 'it is not valid UTF-8 from byte 3 on')
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from rheos.core.formats.contract import BadPayload, Decoded, Decoder
from rheos.core.protocol.elements import Batch
from rheos.formats.bad_rows import RowsError, sift
from rheos.formats.registration import FormatRegistration
from rheos.formats.single_column import SingleColumnFormat


def text() -> TextFormat:
    """Create the format for text: a payload is one string in UTF-8, in the only column.

    The column is `value`, or has the name in the schema.

    ```python
    lines = rh.kafka.source("lines", brokers="localhost:9092", format=rh.formats.text())
    ```

    Returns:
        The format, for the `format=` of a connector.
    """
    return TextFormat()


@dataclass(frozen=True)
class TextFormat(SingleColumnFormat):
    """Format that `text` creates."""

    name: ClassVar[str] = "text"
    what: ClassVar[str] = "text"
    types: ClassVar[tuple[pa.DataType, ...]] = (pa.string(), pa.large_string())
    end: ClassVar[str] = "txt"

    def decoder(self, schema: pa.Schema, header: bytes | None = None) -> Decoder:
        return _TextDecoder(schema)


class _TextDecoder(Decoder):
    def _decode(self, payloads: pa.Array) -> Decoded:
        nullable = pa.schema([self.schema.field(0).with_nullable(True)])

        def decode(i: int, j: int) -> Batch:
            try:
                column = payloads.slice(i, j - i).cast(nullable.field(0).type)
            except pa.ArrowInvalid:
                raise RowsError("it is not valid UTF-8") from None
            return pa.RecordBatch.from_arrays([column], schema=nullable)

        rows, good, bad = sift(len(payloads), decode, self.schema)
        return Decoded(rows, good, [_not_text(index, payloads[index].as_py()) for index, _ in bad])


def _not_text(index: int, payload: bytes) -> BadPayload:
    try:
        payload.decode()
    except UnicodeDecodeError as error:
        return BadPayload(index, payload, f"it is not valid UTF-8 from byte {error.start} on")
    raise AssertionError("Arrow and Python agree on what UTF-8 is")


FORMAT = FormatRegistration(
    name="text",
    title="text",
    function=f"{__name__}:text",
    docs="types.md",
)
