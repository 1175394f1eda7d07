"""Raw bytes: a payload is the value of the one column, as it is.

>>> import pyarrow as pa
>>> from rheos import formats
>>> raw = formats.raw()
>>> raw.decoder(raw.own_schema()).decode(pa.array([b"\\x00\\xff"])).rows.to_pylist()
[{'value': b'\\x00\\xff'}]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from rheos.core.formats.contract import Decoded, Decoder, Encoder, Format, InLines
from rheos.formats.registration import FormatRegistration
from rheos.formats.single_column import SingleColumnEncoder, check_single


def raw() -> RawFormat:
    """The bytes of a payload as they are, in one column: `value`, or as the schema calls it."""
    return RawFormat()


@dataclass(frozen=True)
class RawFormat(Format):
    """Made by `raw`."""

    name: ClassVar[str] = "raw"

    @property
    def in_lines(self) -> InLines:
        return InLines(end="raw", blank=True)

    def own_schema(self) -> pa.Schema:
        return pa.schema([pa.field("value", pa.binary())])

    def check_decodes(self, schema: pa.Schema) -> None:
        check_single(schema, self.name, "bytes", (pa.binary(), pa.large_binary()))

    def check_encodes(self, schema: pa.Schema) -> None:
        self.check_decodes(schema)

    def decoder(self, schema: pa.Schema, header: bytes | None = None) -> Decoder:
        return _RawDecoder(schema)

    def encoder(self, schema: pa.Schema) -> Encoder:
        return SingleColumnEncoder()


class _RawDecoder(Decoder):
    def _decode(self, payloads: pa.Array) -> Decoded:
        column = payloads.cast(self.schema.field(0).type)
        return Decoded(pa.RecordBatch.from_arrays([column], schema=self.schema), None, [])


FORMAT = FormatRegistration(
    name="raw",
    title="bytes",
    function=f"{__name__}:raw",
    docs="types.md",
)
