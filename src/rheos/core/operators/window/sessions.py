"""Session windows: rows of a key that follow each other within a gap.

A session is [first row, last row + gap). Rows whose distance is exactly the gap are in one session, as
in Flink, because windows that touch are merged.

```python
def session(first_ms: int, end_ms: int) -> dict:
    epoch = datetime.fromtimestamp(0, UTC)
    times = [epoch + timedelta(milliseconds=ms) for ms in (first_ms, end_ms)]
    return dict(zip(("window_start", "window_end"), times))

check_example(
    OperatorExample(
        lambda hits: hits.key_by("user")
        .window(rh.Session(gap="10ms"))
        .aggregate(hits=rh.agg.count(), slowest=rh.agg.max("took")),
        pa.schema([("user", pa.string()), ("took", pa.int64()), ("at", pa.int64())]),
        [
            {"user": "ann", "took": 5, "at": 0},
            {"user": "bob", "took": 6, "at": 4},
            {"user": "ann", "took": 7, "at": 20},
            WatermarkMark(9),
            {"user": "ann", "took": 3, "at": 10},
            {"user": "ann", "took": 9, "at": 31},
        ],
        on="at",
    ),
    {
        "out": [
            {"user": "ann", **session(0, 10), "hits": 1, "slowest": 5},
            {"user": "bob", **session(4, 14), "hits": 1, "slowest": 6},
            {"user": "ann", **session(10, 30), "hits": 2, "slowest": 7},
            {"user": "ann", **session(31, 41), "hits": 1, "slowest": 9},
        ]
    },
)
```
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rheos.core.operators.window.contract import Cut, Ints, MergingWindows


@dataclass(frozen=True, slots=True)
class SessionWindows(MergingWindows):
    """Sessions that end `gap` ms after their last row."""

    kind: ClassVar[str] = "session"

    gap: int

    @classmethod
    def of(cls, cut: Cut) -> SessionWindows:
        return cls(int(cut["gap"]))

    @property
    def cut(self) -> Cut:
        return {"gap": self.gap}

    def __str__(self) -> str:
        return f"sessions with a gap of {self.gap} ms"

    def end_of(self, ts: Ints) -> Ints:
        return ts + self.gap
