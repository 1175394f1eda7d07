"""A table with a log, as a sink has found it when the job was submitted."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from rheos.connectors.files.folder import SinkFolder
from rheos.connectors.table_log.epoch_append import StagedDataFile
from rheos.core.errors import UnrestorableError
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
    sort_by: tuple[str, ...] = ()
    """Columns by which the rows of each data file are sorted."""
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

    def check_identity(self, identity: str) -> None:
        """Check that the table that is now in this place is this one. Raises UnrestorableError."""
        if identity != self.identity:
            raise UnrestorableError(
                f"the table {self.name} was replaced by another one while the job ran",
                hint="restore the old table, or start the job without its checkpoints, which appends "
                "all rows to the new one",
            )

    def check_files(self, files: Iterable[StagedDataFile], cause: str) -> None:
        """Check that data files exist before a version of the table names them (DL4, IC4).

        Args:
            files: the files.
            cause: how such a file is usually lost, as a part of the error's hint.

        Raises:
            UnrestorableError: a file is missing.
        """
        folder = SinkFolder(self.folder)
        for file in files:
            if not folder.exists(file.path):
                raise UnrestorableError(
                    f"{folder.path(file.path)} ({file.rows} rows) is lost: the file does not exist, "
                    "and the table does not contain it",
                    hint=f"check whether {cause} while the job was down; restore the file, or start "
                    "the job from an earlier savepoint",
                )

    @property
    @abstractmethod
    def partitions(self) -> tuple[str, ...]:
        """Return the names of the table's partition fields."""
