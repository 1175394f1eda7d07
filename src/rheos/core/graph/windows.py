"""Descriptions of windows in users' programs. They are frozen; `operators` implements them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from datetime import timedelta
from typing import Any, ClassVar

import polars as pl

from rheos.core.errors import ProgramError
from rheos.core.graph.calendars import CalendarCut, is_calendar
from rheos.core.graph.state import Time
from rheos.core.protocol.durations import Duration as Duration
from rheos.core.protocol.durations import DurationMs
from rheos.core.protocol.durations import duration_ms as duration_ms
from rheos.core.unknown_names import HintedBase


class Window(HintedBase):
    """Description of windows over the rows of each key. Its string form is the user's code.

    `kind` names the class that implements the windows (`operators/window/kinds.py`).
    """

    _sections = ("window",)

    time: Time = "event_time"
    """Clock that decides when the windows end."""

    @property
    @abstractmethod
    def kind(self) -> str:
        """Return the name of the kind."""

    @property
    @abstractmethod
    def cut(self) -> Mapping[str, int | str]:
        """Return the parameters of the windows for their kind; an int is in ms. Raise ProgramError."""

    @abstractmethod
    def check(self) -> None:
        """Check the lengths of the windows.

        Raises:
            ProgramError: Such windows do not exist.
        """


_MOST_WINDOWS = 100_000
"""Maximum number of windows per row: enough for a day, sliding by the second."""


def _check_count(window: Window, windows: int, finer: str) -> None:
    """Raise ProgramError if a row would be in too many windows."""
    if windows > _MOST_WINDOWS:
        raise ProgramError(
            f"each row would be in {windows:,} windows, but the maximum is {_MOST_WINDOWS:,}: "
            f"{window!r}",
            hint=f"make {finer} longer, or the windows shorter",
        )


def _in_zone(text: str, zone: str | None) -> str:
    return text if zone is None else f"{text} in {zone}"


def _check_clock(window: Window) -> None:
    if window.time not in ("event_time", "processing_time"):
        raise ProgramError(
            f"time={window.time!r} is not known", hint="write 'event_time' or 'processing_time'"
        )


class _CalendarWindow(Window):
    """Windows that can follow the calendar of a time zone."""

    def __repr__(self) -> str:
        shown = [each for each in fields(self) if each.repr and getattr(self, each.name) is not None]  # type: ignore[arg-type]
        given = ", ".join(f"{each.name}={getattr(self, each.name)!r}" for each in shown)
        return f"{type(self).__name__}({given})"

    @property
    @abstractmethod
    def calendar(self) -> CalendarCut | None:
        """Return the calendar of the windows; None if their length is in ms. Raise ProgramError."""

    @property
    def kind(self) -> str:
        return self._fixed if self.calendar is None else "calendar"

    @property
    @abstractmethod
    def _fixed(self) -> str:
        """Return the name of the kind without a calendar."""

    def _check_calendar(self, calendar: CalendarCut, finer: str) -> None:
        calendar.check(self)
        _check_count(self, calendar.most_steps, finer)
        _check_clock(self)


class _GridWindow(_CalendarWindow):
    """Windows of one size that start at equal intervals."""

    _fixed: ClassVar[str] = "grid"

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
    def cut(self) -> Mapping[str, int | str]:
        if self.calendar is not None:
            return self.calendar.cut
        return {"size": self.size_ms, "slide": self.slide_ms, "offset": self.offset_ms}

    def check(self) -> None:
        if self.calendar is not None:
            self._check_calendar(self.calendar, "every=")
            return
        if self.size_ms <= 0:
            raise ProgramError(f"a window must be longer than 0: {self!r}", hint='write "5m"')
        _ = self.offset_ms
        _check_clock(self)


@dataclass(frozen=True, repr=False)
class Tumbling(_GridWindow):
    """Consecutive windows of one size: `Tumbling("1h")`.

    A row at time t is in the window with start_ms <= t < end_ms. A size that is not positive raises
    ProgramError where the window is used.

    Args:
        size: length of a window, such as "1h"; or months, quarters or years ("1mo", "1q", "1y").
        offset: shift of the starts from the epoch (UTC): `Tumbling("1d", offset="22h")` are days in
            UTC+2. With a zone, shift on the local clock: with `offset="6h"`, days start at six in the
            morning.
        time: "event_time" by default. With "processing_time", a row is in the window in which it
            arrives by the wall clock, which also ends the windows.
        zone: time zone, such as "Europe/Berlin". Windows then follow its local clock: a day may have 23
            or 25 hours, weeks start on Monday. Months without a zone are those of UTC.
    """

    size: Duration
    offset: Duration = "0s"
    time: Time = field(default="event_time", repr=False)
    zone: str | None = None

    def __str__(self) -> str:
        return _in_zone(str(self.size), self.zone)

    @property
    def calendar(self) -> CalendarCut | None:
        if not is_calendar(self.zone, self.size):
            return None
        return CalendarCut.written(self.size, self.size, False, self.zone, self.offset)

    size_ms = DurationMs("size")

    @property
    def slide_ms(self) -> int:
        return self.size_ms

    offset_ms = DurationMs("offset")


@dataclass(frozen=True, repr=False)
class Sliding(_GridWindow):
    """Windows of one size that start every `every`: `Sliding("1h", every="10m")`.

    A row is in size / every windows. Lengths that are not positive, and windows with gaps between
    them, raise ProgramError where the window is used.

    Args:
        size: length of a window.
        every: time from one start to the next.
        offset: shift of the starts from the epoch (UTC), or on the local clock of the zone.
        gaps: whether `every` may be longer than `size`; rows between windows are dropped. Not with a
            zone.
        time: "event_time", or "processing_time" for the wall clock.
        zone: time zone whose local clock the windows follow: `Sliding("7d", every="1d",
            zone="Europe/Berlin")`, `Sliding("3mo", every="1mo")`. The size must be a multiple of
            `every`.
    """

    size: Duration
    every: Duration
    offset: Duration = "0s"
    gaps: bool = False
    time: Time = field(default="event_time", repr=False)
    zone: str | None = None

    def __str__(self) -> str:
        return _in_zone(f"{self.size} every {self.every}", self.zone)

    @property
    def calendar(self) -> CalendarCut | None:
        if not is_calendar(self.zone, self.size, self.every):
            return None
        return CalendarCut.written(self.every, self.size, False, self.zone, self.offset)

    size_ms = DurationMs("size")
    slide_ms = DurationMs("every")
    offset_ms = DurationMs("offset")

    def check(self) -> None:
        super().check()
        if self.calendar is not None:
            return
        if self.slide_ms <= 0:
            raise ProgramError(
                f"the interval between windows must be positive, not {self.slide_ms} ms: {self!r}",
                hint='write rh.Sliding("1h", every="10m")',
            )
        if self.slide_ms > self.size_ms and not self.gaps:
            raise ProgramError(
                f"windows of {self.size} that start every {self.every} leave gaps, and rows in them "
                "would be dropped",
                hint=f"if they are swapped, write rh.Sliding({self.every!r}, every={self.size!r}); "
                "if you want gaps, add gaps=True",
            )
        _check_count(self, -(-self.size_ms // self.slide_ms), "every=")


@dataclass(frozen=True, repr=False)
class Cumulating(_CalendarWindow):
    """Windows that grow by `step` up to `max`, and start again: `Cumulating("1d", step="1h")` has a
    window for the first hour of the day, one for the first two hours, and so on up to the whole day.

    Args:
        max: length of the longest window; must be a multiple of `step`, otherwise ProgramError is
            raised.
        step: length that each window adds to the previous one.
        offset: shift of the starts from the epoch (UTC), or on the local clock of the zone.
        time: "event_time", or "processing_time" for the wall clock.
        zone: time zone whose local clock the windows follow: `Cumulating("1mo", step="1d",
            zone="Europe/Berlin")`.
    """

    _fixed: ClassVar[str] = "cumulating"

    max: Duration
    step: Duration
    offset: Duration = "0s"
    time: Time = field(default="event_time", repr=False)
    zone: str | None = None

    def __str__(self) -> str:
        return _in_zone(f"up to {self.max} by {self.step}", self.zone)

    @property
    def calendar(self) -> CalendarCut | None:
        if not is_calendar(self.zone, self.max, self.step):
            return None
        return CalendarCut.written(self.step, self.max, True, self.zone, self.offset)

    size_ms = DurationMs("max")
    step_ms = DurationMs("step")
    offset_ms = DurationMs("offset")

    @property
    def cut(self) -> Mapping[str, int | str]:
        if self.calendar is not None:
            return self.calendar.cut
        return {"size": self.size_ms, "step": self.step_ms, "offset": self.offset_ms}

    def check(self) -> None:
        if self.calendar is not None:
            self._check_calendar(self.calendar, "step=")
            return
        size, step = self.size_ms, self.step_ms
        if step <= 0 or size <= 0 or size % step:
            raise ProgramError(
                f"a cumulating window must grow by equal steps to its full length: {self!r}",
                hint='write rh.Cumulating("1d", step="1h")',
            )
        _check_count(self, size // step, "step=")
        _check_clock(self)


@dataclass(frozen=True)
class Session(Window):
    """Windows of rows that follow each other within a gap: `Session(gap="10m")`.

    A session of a key ends `gap` after its last row. Rows exactly that far apart are in one session.

    Args:
        gap: a duration, or a gap per row: a Polars expression of a duration or of ms, or a function of
            the record that returns one. Each row then ends after its own gap, and a session at the
                latest of these ends. A gap that is not positive raises ProgramError; for a gap per row,
                InputError with the
            row.
        time: "event_time", or "processing_time" for the wall clock.
    """

    kind: ClassVar[str] = "session"

    gap: Duration | pl.Expr | Callable[[Any], Duration | int]
    time: Time = field(default="event_time", repr=False)

    def __str__(self) -> str:
        return f"{'own gap' if self.gap_of_rows is not None else self.gap} session"

    @property
    def gap_of_rows(self) -> pl.Expr | Callable[[Any], Duration | int] | None:
        """Return the gap per row; None if all rows have the same gap."""
        gap = self.gap
        return None if isinstance(gap, str | timedelta) else gap

    @property
    def gap_ms(self) -> int:
        assert isinstance(self.gap, str | timedelta)
        return duration_ms(self.gap)

    @property
    def cut(self) -> Mapping[str, int | str]:
        return {"gap": self.gap_ms}

    def check(self) -> None:
        gap = self.gap_of_rows
        if gap is not None:
            if not isinstance(gap, pl.Expr) and not callable(gap):
                raise ProgramError(
                    "the gap of a session must be a duration, or an expression or function of "
                    f"a row, not {gap!r}",
                    hint='write rh.Session(gap="10m") or rh.Session(gap=rh.col("gap"))',
                )
        elif self.gap_ms <= 0:
            raise ProgramError(
                f"the gap of a session must be longer than 0: {self!r}",
                hint='write rh.Session(gap="10m")',
            )
        _check_clock(self)


@dataclass(frozen=True)
class GlobalWindows(Window):
    """One window per key that never ends: `GlobalWindows()`. It needs a trigger to fire."""

    kind: ClassVar[str] = "global"

    def __str__(self) -> str:
        return "global"

    @property
    def cut(self) -> Mapping[str, int | str]:
        return {}

    def check(self) -> None:
        pass


class CountWindow(Window):
    """Windows of a number of rows of each key, regardless of their times."""

    kind: ClassVar[str] = "count"

    @property
    @abstractmethod
    def size_rows(self) -> int: ...
    @property
    @abstractmethod
    def every_rows(self) -> int: ...

    @property
    def cut(self) -> Mapping[str, int | str]:
        return {}

    def check(self) -> None:
        for rows in (self.size_rows, self.every_rows):
            if not isinstance(rows, int) or rows < 1:
                raise ProgramError(
                    f"a count window needs an integer number of rows, at least 1: {self!r}",
                    hint="write rh.CountTumbling(100) or rh.CountSliding(100, every=10)",
                )


@dataclass(frozen=True)
class CountTumbling(CountWindow):
    """Consecutive windows of a number of rows of a key: `CountTumbling(100)`.

    Rows are counted as they arrive. A window that is not full when the input ends has no result.
    """

    size: int

    def __str__(self) -> str:
        return f"{self.size} rows"

    @property
    def size_rows(self) -> int:
        return self.size

    @property
    def every_rows(self) -> int:
        return self.size


@dataclass(frozen=True)
class CountSliding(CountWindow):
    """Windows of the last `size` rows of a key, which fire with every `every`-th row:
    `CountSliding(100, every=10)`.

    The first windows have fewer rows.
    """

    size: int
    every: int

    def __str__(self) -> str:
        return f"{self.size} rows every {self.every}"

    @property
    def size_rows(self) -> int:
        return self.size

    @property
    def every_rows(self) -> int:
        return self.every
