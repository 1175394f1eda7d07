"""One split of a source's subtask: its progress, and its row in the state."""

from __future__ import annotations

from hashlib import blake2b

import pyarrow as pa

from rheos.core.connectors.contract import Split, SplitReader
from rheos.core.protocol.elements import MIN_TIMESTAMP_MS

SPLITS = "splits"
"""Name of the state."""

SPLIT_ROWS = pa.schema(
    [
        pa.field("split", pa.string(), nullable=False),
        pa.field("payload", pa.binary(), nullable=False),
        pa.field("position", pa.binary()),
        pa.field("max_ts", pa.int64(), nullable=False),
        pa.field("finished", pa.bool_(), nullable=False),
        pa.field("phase", pa.int64(), nullable=False),
    ]
)

NO_ORDER = -1
"""Split number of rows without an order. None of these rows is late."""


def split_number(id: str) -> int:
    """Return the number of a split in `__split`, which is the same in every run."""
    return int.from_bytes(blake2b(id.encode(), digest_size=7).digest())


class SplitState:
    """A split of this subtask while it is waiting, then open, then finished."""

    __slots__ = (
        "advanced_us",
        "after",
        "before",
        "endless",
        "idle",
        "max_ts",
        "number",
        "paused_us",
        "position",
        "quiet_since_us",
        "reader",
        "split",
    )

    def __init__(
        self, split: Split, before: int, endless: bool, after: frozenset[str] = frozenset()
    ) -> None:
        self.split = split
        self.after = after
        """Ids of the splits that are read before this one."""
        self.number = split_number(split.id)
        self.endless = endless
        self.before = before
        """Watermark of the split before its first row, and while it waits."""
        self.position: bytes | None = None
        """Start position until the split is open; end position once it is finished."""
        self.max_ts = MIN_TIMESTAMP_MS
        self.advanced_us: int | None = None
        """Time at which `max_ts` last rose, or at which the split was opened; None before that."""
        self.reader: SplitReader | None = None
        self.quiet_since_us: int | None = None
        self.idle = False
        self.paused_us: int | None = None
        """Time since which the split is not read because it is ahead, as far as that time is not
        counted yet."""

    def place(self) -> tuple[int, bool]:
        """Return the sort key among waiting splits."""
        return self.split.phase, not self.endless

    def is_quiet(self, now_us: int, for_us: int | None) -> bool:
        return (
            for_us is not None
            and self.quiet_since_us is not None
            and now_us - self.quiet_since_us >= for_us
        )

    def reached(self, event_time_ms: int, now_us: int) -> None:
        """Record that the split's rows, or its source, have reached that event time."""
        if event_time_ms > self.max_ts:
            self.max_ts, self.advanced_us = event_time_ms, now_us

    def watermark(self, bound_ms: int) -> int:
        return max(self.max_ts - bound_ms - 1, self.before)

    def row(self, *, finished: bool) -> dict[str, object]:
        return {
            "split": self.split.id,
            "payload": self.split.payload,
            "position": self.position if self.reader is None else self.reader.position(),
            "max_ts": self.max_ts,
            "finished": finished,
            "phase": self.split.phase,
        }
