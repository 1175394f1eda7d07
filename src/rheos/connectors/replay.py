"""Replay of recorded rows at the pace at which they originally occurred, or a multiple of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rheos.core.errors import ProgramError
from rheos.core.protocol.durations import Duration, duration_ms
from rheos.core.protocol.ports import Clock
from rheos.core.times import TimeColumn, Unit, epoch_us
from rheos.core.unknown_names import HintedBase

_BEFORE_ALL = -(2**63)


@dataclass(frozen=True)
class Replay(HintedBase):
    """The pace at which a source emits rows, by the time in the column `on`: `rh.Replay("at", "60x")`.

    A row is due at `start + (t - t0) / speed`: `t` is its time, and `t0` that of the split's first row
    (after a restore: of the first remaining row). Rows never overtake one another. Pass one of

    - `speed`: how many times faster than they happened: 60, "60x", or "max" for no pacing;
    - `duration`: how long a whole split takes, such as "60s". The time span of the split is read from
      the statistics of a Parquet file. For files of lines, and for strings, pass it as `span`.

    `on` names a timestamp, a date, or an int64 of ms since the epoch. For other numbers since the
    epoch, pass their `unit` ("s", "ms", "us", "ns"); for strings their `format` ("%Y-%m-%d %H:%M:%S").
    """

    on: str
    speed: float | str | None = None
    duration: Duration | None = None
    span: Duration | None = None
    unit: Unit | None = None
    format: str | None = None

    def __post_init__(self) -> None:
        if (self.speed is None) == (self.duration is None):
            raise ProgramError(
                "a replay needs either a speed or a duration",
                hint='write Replay(on="departed_at", duration="60s") or Replay(on=..., speed="3600x")',
            )
        _ = self.ratio
        if self.format is not None and self.ratio is None:
            raise ProgramError(
                "the time span of a column of strings is unknown before it is read",
                hint="pass speed= or span= to the replay",
            )
        for length in (self.duration, self.span):
            if length is not None and duration_ms(length) <= 0:
                raise ProgramError(
                    f"the duration of a replay must be greater than 0, not {length!r}",
                    hint='pass more than "0s"',
                )

    @property
    def column(self) -> TimeColumn:
        return TimeColumn(self.on, self.unit, self.format)

    @property
    def ratio(self) -> float | Literal["max"] | None:
        """Return the speed as a number; "max" without pacing; None if it depends on the span."""
        if self.duration is not None:
            return None if self.span is None else duration_ms(self.span) / duration_ms(self.duration)
        if self.speed == "max":
            return "max"
        try:
            ratio = float(str(self.speed).strip().removesuffix("x"))
        except ValueError:
            ratio = 0.0
        if not 0.0 < ratio < float("inf"):
            raise ProgramError(
                f"{self.speed!r} is not a replay speed",
                hint='write a number such as 60, "60x", or "max"',
            )
        return ratio

    def ratio_over(self, span_us: int) -> float:
        """Return the speed at which to replay a split that spans some time.

        Args:
            span_us: Time from the split's first row to its last, in microseconds.

        Returns:
            The ratio of event time to processing time, such as 60.0; infinity for no pacing.
        """
        assert self.duration is not None
        return max(span_us, 1) / (duration_ms(self.duration) * 1000)


class Pacer:
    """Computes how many of a split's next rows are due. A row with an earlier time than the row before
    it is due together with that row."""

    def __init__(self, clock: Clock, speed: float) -> None:
        self._clock = clock
        self._speed = speed
        self._origin: tuple[int, int] | None = None
        self._latest_us = _BEFORE_ALL
        self._due_us: npt.NDArray[np.int64] = np.empty(0, np.int64)

    def load(self, times: pa.Array) -> None:
        """Set the times of the next rows, once the previous ones are emitted."""
        values = epoch_us(times)
        if times.null_count:
            values = np.where(times.is_valid().to_numpy(zero_copy_only=False), values, _BEFORE_ALL)
        reached = np.maximum(np.maximum.accumulate(values), self._latest_us)
        known = reached[reached != _BEFORE_ALL]
        if self._origin is None and len(known):
            self._origin = (self._clock.monotonic_us(), int(known[0]))
        if len(reached):
            self._latest_us = int(reached[-1])
        self._due_us = reached
        if self._origin is not None:
            start, first = self._origin
            elapsed = (np.maximum(reached, first) - first) / self._speed
            self._due_us = start + np.ceil(elapsed).astype(np.int64)

    def due(self, row: int) -> tuple[int, int]:
        """Return the number of rows from `row` on that are due, and if none is, the microseconds until
        the next."""
        now = self._clock.monotonic_us()
        rows = int(np.searchsorted(self._due_us, now, side="right")) - row
        return (rows, 0) if rows > 0 else (0, max(int(self._due_us[row]) - now, 1))
