"""Files that a writer of the files sink appends rows to: Parquet, or lines of a format."""

from __future__ import annotations

from abc import ABC, abstractmethod

import pyarrow as pa
import pyarrow.parquet as pq

from rheos.connectors.files.compression import Codec, writer
from rheos.connectors.files.publication.contract import FileCommittable, StagedOutput
from rheos.core.errors import InputError
from rheos.core.formats.contract import Encoder
from rheos.core.protocol.time_bounds import MILLISECONDS, refuse_times_outside

_DICTIONARY_BYTES = 128 << 10
"""Size of a column's dictionary at which the rest of a row group is written without it. By Arrow's
default, a column of different values has all of them in the dictionary, which takes time and space."""


class OpenFile(ABC):
    """Staged file that is still being written."""

    def __init__(self, place: tuple[str, str], raw: StagedOutput) -> None:
        self.rows = 0
        self._staged, self._target = place
        self._raw = raw

    @property
    def size_bytes(self) -> int:
        return self._raw.tell()

    def committable(self) -> FileCommittable:
        """Return what publishes the file, or drops it. Called once it is closed."""
        return FileCommittable(self._staged, self._target, self.rows, self.size_bytes, self._raw.upload)

    @abstractmethod
    def append(self, table: pa.Table) -> None: ...

    @abstractmethod
    def finish(self) -> None:
        """Write the end of the file and close it."""

    def abandon(self) -> None:
        """Close the file without completing it."""
        self._raw.close()


class OpenParquetFile(OpenFile):
    def __init__(
        self, place: tuple[str, str], raw: StagedOutput, schema: pa.Schema, codec: str
    ) -> None:
        super().__init__(place, raw)
        self._writer = pq.ParquetWriter(
            raw, schema, compression=codec, dictionary_pagesize_limit=_DICTIONARY_BYTES
        )

    def append(self, table: pa.Table) -> None:
        try:
            self._writer.write_table(table)
        except pa.ArrowInvalid as error:
            for rows in table.to_batches():
                # Parquet has no time unit of seconds.
                refuse_times_outside(rows, MILLISECONDS, "Parquet")
            raise InputError(f"rows cannot be written as Parquet: {error}") from error
        self.rows += table.num_rows

    def finish(self) -> None:
        self._writer.close()
        self._raw.close()

    def abandon(self) -> None:
        try:
            self._writer.close()
        finally:
            super().abandon()


class OpenLinesFile(OpenFile):
    def __init__(
        self, place: tuple[str, str], raw: StagedOutput, encoder: Encoder, codec: Codec
    ) -> None:
        super().__init__(place, raw)
        self._encoder = encoder
        self._out = writer(raw, codec)
        self._out.write(encoder.header())

    def append(self, table: pa.Table) -> None:
        for batch in table.combine_chunks().to_batches():
            self._out.write(self._encoder.lines(batch))
        self.rows += table.num_rows

    def finish(self) -> None:
        self._out.close()
        self._raw.close()

    def abandon(self) -> None:
        try:
            self._out.close()
        finally:
            super().abandon()
