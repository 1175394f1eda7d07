"""Raw bytes: a payload is the value of the only column, unchanged.

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

from rheos.core.formats.contract import Decoded, Decoder
from rheos.formats.registration import FormatRegistration
from rheos.formats.single_column import SingleColumnFormat


def raw() -> RawFormat:
    """Create the format for raw bytes: a payload becomes the only column, `value` or as the schema
    names it.

    ```python
    frames = rh.kafka.source("frames", brokers="localhost:9092", format=rh.formats.raw())
    ```

    Returns:
        The format, for the `format=` of a connector.
    """
    return RawFormat()


@dataclass(frozen=True)
class RawFormat(SingleColumnFormat):
    """Format that `raw` creates."""

    name: ClassVar[str] = "raw"
    what: ClassVar[str] = "bytes"
    types: ClassVar[tuple[pa.DataType, ...]] = (pa.binary(), pa.large_binary())
    end: ClassVar[str] = "raw"

    def decoder(self, schema: pa.Schema, header: bytes | None = None) -> Decoder:
        return _RawDecoder(schema)


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
