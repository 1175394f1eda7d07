"""A table with a log, as a sink has found it when the job was submitted."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from rheos.core.redaction import RedactedRepr


@dataclass(frozen=True, kw_only=True)
class TableTarget(RedactedRepr, ABC):
    """A table, as it was when the job was submitted."""

    format: ClassVar[str]
    """Name of the format in messages, such as "Delta"."""

    name: str
    """Name of the table in messages: its path, or its name in the catalog."""
    identity: str
    """Identity of the table, which another table at the same place does not have."""
    folder: str
    """Absolute path or URL of the folder of data files."""
    columns: pa.Schema
    """Columns of the table."""
    staged: pa.Schema
    """Columns of the stream, with the table's types."""
    key: tuple[str, ...] = ()
    """Key of upserts; empty to append rows."""
    gone: str | None = None
    """Boolean column of a changelog, after the others: where it is true, the row with the same key is
    deleted. The table does not have it."""

    @property
    def written(self) -> pa.Schema:
        """Columns that the writers write."""
        return pa.schema([*self.staged, *([pa.field(self.gone, pa.bool_())] if self.gone else [])])

    @property
    def label(self) -> str:
        """Return the format and the name, such as "Delta table lake/orders"."""
        return f"{self.format} table {self.name}"

    @property
    @abstractmethod
    def partitions(self) -> tuple[str, ...]:
        """Return the names of the table's partition fields."""
