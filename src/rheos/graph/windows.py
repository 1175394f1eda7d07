"""What the user says of time: windows, watermarks, durations. Frozen; the logic is in `operators`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from rheos.connectors.times import TimeColumn, Unit
from rheos.errors import ProgramError
from rheos.protocol.durations import Duration as Duration
from rheos.protocol.durations import duration_ms as duration_ms


class Window(ABC):
    """How the time of each key is cut into windows, as the user says it. Its text is what she wrote.

    What it means is said by the kind of window that it names (`operators/window/kinds.py`).
    """

    kind: ClassVar[str]

    @property
    @abstractmethod
    def cut_ms(self) -> Mapping[str, int]:
        """Where the windows lie, in ms, as the kind wants it. Raises ProgramError."""

    @abstractmethod
    def check(self) -> None:
        """Raises ProgramError where there can be no such windows."""


class _OnGrid(Window):
    """Windows of one size that start at equal distances."""

    kind: ClassVar[str] = "grid"

    @property
    @abstractmethod
    def size_ms(self) -> int: ...
    @property
    @abstractmethod
    def slide_ms(self) -> int: ...
    @property
    @abstractmethod
    def offset_ms(self) -> int: ...

    @property
    def cut_ms(self) -> Mapping[str, int]:
        return {"size": self.size_ms, "slide": self.slide_ms, "offset": self.offset_ms}

    def check(self) -> None:
        if self.size_ms <= 0:
            raise ProgramError(f"a window must be longer than nothing: {self!r}", hint='write "5m"')
        _ = self.offset_ms


@dataclass(frozen=True)
class Tumbling(_OnGrid):
    """Windows of one size, side by side: `Tumbling("1h")`. `offset` moves them off the epoch."""

    size: Duration
    offset: Duration = "0s"

    def __str__(self) -> str:
        return str(self.size)

    @property
    def size_ms(self) -> int:
        return duration_ms(self.size)

    @property
    def slide_ms(self) -> int:
        return self.size_ms

    @property
    def offset_ms(self) -> int:
        return duration_ms(self.offset)


@dataclass(frozen=True)
class Sliding(_OnGrid):
    """Windows of one size that start every `every`: `Sliding("1h", every="10m")`.

    Where they start less often than they are long, `gaps=True` says that the rows between them are to
    be left out.
    """

    size: Duration
    every: Duration
    offset: Duration = "0s"
    gaps: bool = False

    def __str__(self) -> str:
        return f"{self.size} every {self.every}"

    @property
    def size_ms(self) -> int:
        return duration_ms(self.size)

    @property
    def slide_ms(self) -> int:
        return duration_ms(self.every)

    @property
    def offset_ms(self) -> int:
        return duration_ms(self.offset)

    def check(self) -> None:
        super().check()
        if self.slide_ms <= 0:
            raise ProgramError(
                f"a window must start every so often, not every {self.slide_ms} ms: {self!r}",
                hint='write rh.Sliding("1h", every="10m")',
            )
        if self.slide_ms > self.size_ms and not self.gaps:
            raise ProgramError(
                f"windows of {self.size} that start every {self.every} leave gaps, and rows in them "
                "would be dropped",
                hint=f"were they meant the other way round, as rh.Sliding({self.every!r}, "
                f"every={self.size!r})? Where gaps are meant, add gaps=True",
            )


@dataclass(frozen=True)
class Session(Window):
    """Windows of rows that follow each other within a gap: `Session(gap="10m")`.

    A session of a key ends `gap` after its last row. Rows just that far apart are in one session.
    """

    kind: ClassVar[str] = "session"

    gap: Duration

    def __str__(self) -> str:
        return f"{self.gap} session"

    @property
    def gap_ms(self) -> int:
        return duration_ms(self.gap)

    @property
    def cut_ms(self) -> Mapping[str, int]:
        return {"gap": self.gap_ms}

    def check(self) -> None:
        if self.gap_ms <= 0:
            raise ProgramError(
                f"the gap of a session must be longer than nothing: {self!r}",
                hint='write rh.Session(gap="10m")',
            )


@dataclass(frozen=True)
class Watermark:
    """How the event time of a source is known, and how far behind it may run.

    Made by `bounded_out_of_orderness` or `monotonic`. `on` names the event-time column: a timestamp
    (any unit; without zone it is read as UTC), a date, or an int64 of ms since the epoch. Other numbers
    since the epoch, floats too, say their `unit` ("s", "ms", "us", "ns"); text says its `format`
    ("%Y-%m-%d %H:%M:%S"; "%z" where the zone is a part of it, otherwise it is read as UTC).
    """

    on: str
    bound: Duration = "0s"
    idle_after: Duration | None = None
    unit: Unit | None = None
    format: str | None = None
    max_drift: Duration | None = None

    @classmethod
    def bounded_out_of_orderness(
        cls,
        bound: Duration,
        *,
        on: str,
        idle_after: Duration | None = None,
        unit: Unit | None = None,
        format: str | None = None,
        max_drift: Duration | None = None,
    ) -> Watermark:
        """Rows come at most `bound` behind the latest one of their split; later ones are late.

        A split that gives no rows for `idle_after` (processing time) steps aside. One that is ahead of
        the slowest by more than `max_drift` (event time) is not read until that has come closer, so
        that what waits for the slowest stays small; needs `idle_after`.
        """
        return cls(on, bound, idle_after, unit, format, max_drift)

    @classmethod
    def monotonic(
        cls,
        *,
        on: str,
        idle_after: Duration | None = None,
        unit: Unit | None = None,
        format: str | None = None,
        max_drift: Duration | None = None,
    ) -> Watermark:
        """Timestamps never go back within a split."""
        return cls(on, "0s", idle_after, unit, format, max_drift)

    @property
    def column(self) -> TimeColumn:
        return TimeColumn(self.on, self.unit, self.format)

    @property
    def bound_ms(self) -> int:
        return duration_ms(self.bound)

    @property
    def idle_after_ms(self) -> int | None:
        return None if self.idle_after is None else duration_ms(self.idle_after)

    @property
    def max_drift_ms(self) -> int | None:
        return None if self.max_drift is None else duration_ms(self.max_drift)
