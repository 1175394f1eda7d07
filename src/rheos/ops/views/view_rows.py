"""Rows of a read."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa

MAX_SCAN_ROWS = 1_000_000
"""Maximum number of rows of a scan without a limit."""


@dataclass(frozen=True)
class ViewRows:
    """Rows of a view, all of one checkpoint."""

    table: pa.Table
    checkpoint: int
    """Number of the checkpoint."""
    completed: datetime
    """Time at which the checkpoint completed."""

    @property
    def moment(self) -> str:
        """Return the checkpoint and its time, for people."""
        when = self.completed.isoformat(" ", "seconds").removesuffix("+00:00")
        return f"checkpoint {self.checkpoint}, completed {when} UTC"
