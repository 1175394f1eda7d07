"""Sources that decode messages: the schema of their rows, and that of messages that do not fit."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Protocol

import pyarrow as pa

from rheos.connectors.message_decoding import PayloadDecoding
from rheos.core.connectors.contract import Source


class DecodedRows(Protocol):
    """Configuration of the rows to read."""

    @property
    def decoding(self) -> PayloadDecoding: ...


@dataclass(frozen=True)
class DecodedSource(Source):
    """Source of rows that are decoded from messages. Subclasses list the splits, and open one."""

    of: DecodedRows
    record: type | None
    """Class of the records; None if they have columns that it lacks."""
    schema: pa.Schema = field(init=False)
    rejected: ClassVar[pa.Schema]
    """Columns of rejected records: the place of the message, and the record."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "schema", self.of.decoding.schema)

    def record_class(self) -> type | None:
        return self.record

    def rejected_schema(self) -> pa.Schema | None:
        return self.rejected if self.of.decoding.on_error == "skip" else None
