"""Requests of readers of views, and the answers to them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pyarrow as pa

from rheos.core.errors import TransportError
from rheos.core.formats.arrow_bytes import table_of

MAX_PAGE_ROWS = 10_000
"""Maximum number of rows of one page."""


class ViewInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A materialized view of a job."""

    name: str
    columns: dict[str, str]
    """Columns with their Arrow types."""
    key: list[str]
    """Columns of its key; empty if it can only be scanned."""
    checkpoint: int
    """Newest checkpoint from which it can be read."""
    completed_ms: int
    """Wall-clock time of that checkpoint, in ms since the epoch."""


class FeatureRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A look-up of features by keys."""

    features: str
    keys: str
    """JSON array of the keys."""
    at: str | None = None
    """Time of the look-up in ISO 8601, by which the age of values is measured; None: now."""
    arrow: bool = False
    """Whether the rows are an Arrow IPC stream in `data`, and not in `rows`."""


class ViewRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A look-up by key, or one page of a scan."""

    view: str
    key: str | None = None
    """Key to look up: its value as it is, or JSON for several columns."""
    where: str | None = None
    columns: str | None = None
    """Names of the columns, separated by commas; all if it is None."""
    limit: int = 1000
    after: str | None = None
    """Token of the previous page."""
    checkpoint: int | None = None
    """Checkpoint to read; None: the newest, or that of the previous page."""
    arrow: bool = False
    """Whether the rows are an Arrow IPC stream in `data`, and not in `rows`."""


class ViewPage(msgspec.Struct, frozen=True, kw_only=True):
    """Rows of a view, all of one checkpoint."""

    view: str
    checkpoint: int
    """Number of the checkpoint."""
    completed_ms: int
    """Wall-clock time at which the checkpoint completed, in ms since the epoch."""
    columns: list[str]
    rows: list[dict[str, Any]]
    next: str | None = None
    """Token of the next page, for `after`; None after the last page."""
    data: bytes = b""

    @property
    def completed(self) -> datetime:
        """Return the time at which the checkpoint completed."""
        return datetime.fromtimestamp(self.completed_ms / 1000, UTC)

    @property
    def table(self) -> pa.Table:
        """Return the rows of `data`. Raise TransportError if they are damaged."""
        try:
            rows = table_of(self.data)
            rows.validate(full=True)
        except (pa.ArrowException, OSError, ValueError) as error:
            raise TransportError(
                f"the rows of {self.view!r} are damaged: {error}",
                hint="use the version of Rheos that runs the job",
            ) from error
        if rows.column_names != self.columns:
            raise TransportError(f"the rows of {self.view!r} have other columns than their page")
        return rows

    def text(self) -> str:
        """Return the rows in aligned columns, and a last line that names the checkpoint."""
        cells = [self.columns, *([_cell(row[name]) for name in self.columns] for row in self.rows)]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = ["  ".join(map(str.ljust, line, widths)).rstrip() for line in cells]
        count = f"{len(self.rows)} row{'' if len(self.rows) == 1 else 's'}"
        more = "" if self.next is None else f"; next page: --after {self.next}"
        when = self.completed.isoformat(" ", "seconds").removesuffix("+00:00")
        return "\n".join([*lines, f"({count} of checkpoint {self.checkpoint}, {when} UTC{more})"])


def _cell(value: Any) -> str:
    """Return a value in one line."""
    shown = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return shown.replace("\n", "\\n").replace("\t", "\\t")
