"""Description of event time and watermarks in users' programs. It is frozen; `operators/watermarks.py`
implements it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import polars as pl
import pyarrow as pa

from rheos.core.graph.watermark_generators import WatermarkGenerator
from rheos.core.protocol.durations import Duration, DurationMs, OptionalDurationMs
from rheos.core.times import TimeColumn, Unit
from rheos.core.unknown_names import HintedBase


@dataclass(frozen=True)
class Watermark(HintedBase):
    """The event time of a source, and the bound on its disorder.

    Created by `bounded_out_of_orderness`, `monotonic`, `punctuated`, `generator` or `ingestion_time`.
    `on` names the event-time column: a timestamp (any unit; without zone it is read as UTC), a date, or
    an int64 of ms since the epoch. Other numbers since the epoch, floats too, need their `unit` ("s",
    "ms", "us", "ns"). Strings need their `format` ("%Y-%m-%d %H:%M:%S"; with "%z" if they contain a
    zone, otherwise they are read as UTC).
    """

    _sections = ("watermark",)

    on: str | None
    """Name of the event-time column; None for ingestion time."""
    bound: Duration = "0s"
    idle_after: Duration | None = None
    """Processing time after which a split without rows is ignored. By default event time waits for
    it."""
    unit: Unit | None = None
    """Unit of the column if it is a number, but no int64 of ms: "s", "ms", "us" or "ns"."""
    format: str | None = None
    """Format of the column if it is a string."""
    max_drift: Duration | None = None
    """Maximum event time that a split may be ahead of the slowest one. The source pauses a split that
    is further ahead until the slowest comes closer. So operators buffer few rows while they wait for
    the slowest split. `idle_after` must be set, too."""
    when: pl.Expr | None = field(default=None, compare=False)
    """Condition of the rows that advance event time, if the watermark is punctuated."""
    generated_by: WatermarkGenerator | None = field(default=None, compare=False)
    period: Duration | None = None
    record: type | None = None
    """Class of the records that the generator receives; None: lightweight named rows."""
    max_ahead: Duration | None = None
    """Maximum event time that a row may be ahead of the latest row of its split. Other rows go to the
    side output "rejected" and are counted (`ahead`). So a single timestamp far in the future does not
    make all later rows late. Choose a time that is longer than any pause of a split: after a pause,
    only a hundred such rows in succession advance event time."""

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
        max_ahead: Duration | None = None,
    ) -> Watermark:
        """Return event time with bounded disorder: rows that are more than `bound` older than the
        latest row of their split are late.

        ```python
        rh.Watermark.bounded_out_of_orderness("5s", on="at", idle_after="1m", max_ahead="1d")
        ```

        Args:
            bound: Maximum disorder of the rows of a split, such as "5s".
            on: The event-time column.
            idle_after: See `Watermark.idle_after`.
            unit: See `Watermark.unit`.
            format: See `Watermark.format`.
            max_drift: See `Watermark.max_drift`.
            max_ahead: See `Watermark.max_ahead`.

        Returns:
            The watermark, for `watermark=` of a source.
        """
        return cls(on, bound, idle_after, unit, format, max_drift, max_ahead=max_ahead)

    @classmethod
    def monotonic(
        cls,
        *,
        on: str,
        idle_after: Duration | None = None,
        unit: Unit | None = None,
        format: str | None = None,
        max_drift: Duration | None = None,
        max_ahead: Duration | None = None,
    ) -> Watermark:
        """Return event time that never decreases within a split.

        ```python
        rh.Watermark.monotonic(on="at")
        ```

        Args:
            on: The event-time column.
            idle_after: See `Watermark.idle_after`.
            unit: See `Watermark.unit`.
            format: See `Watermark.format`.
            max_drift: See `Watermark.max_drift`.
            max_ahead: See `Watermark.max_ahead`.

        Returns:
            The watermark, for `watermark=` of a source.
        """
        return cls(on, "0s", idle_after, unit, format, max_drift, max_ahead=max_ahead)

    @classmethod
    def punctuated(
        cls,
        when: pl.Expr | str,
        *,
        on: str,
        bound: Duration = "0s",
        idle_after: Duration | None = None,
        unit: Unit | None = None,
        format: str | None = None,
        max_drift: Duration | None = None,
        max_ahead: Duration | None = None,
    ) -> Watermark:
        """Return event time that only certain rows advance, such as markers in the stream.

        Event time is the time of the latest such row, less `bound`. Later rows of the split with
        earlier times are late.

        ```python
        rh.Watermark.punctuated(col("kind") == "end of minute", on="at")
        ```

        Args:
            when: The condition for the rows that advance event time.
            on: The event-time column.
            bound: Time by which event time stays before such a row.
            idle_after: See `Watermark.idle_after`.
            unit: See `Watermark.unit`.
            format: See `Watermark.format`.
            max_drift: See `Watermark.max_drift`.
            max_ahead: See `Watermark.max_ahead`.

        Returns:
            The watermark, for `watermark=` of a source.
        """
        # A string is parsed once the columns are known.
        condition: Any = when
        return cls(on, bound, idle_after, unit, format, max_drift, when=condition, max_ahead=max_ahead)

    @classmethod
    def generator(
        cls,
        generator: WatermarkGenerator,
        *,
        on: str,
        period: Duration | None = None,
        idle_after: Duration | None = None,
        unit: Unit | None = None,
        format: str | None = None,
        max_drift: Duration | None = None,
        max_ahead: Duration | None = None,
    ) -> Watermark:
        """Return event time as your own class computes it.

        ```python
        class Trailing(rh.WatermarkGenerator):
            def on_event(self, record: Event, timestamp: int) -> int:
                return timestamp - 1_000

        rh.Watermark.generator(Trailing(), on="at")
        ```

        Args:
            generator: An instance; `on_event` returns the watermark after a row.
            on: The event-time column.
            period: Interval in processing time at which `on_periodic` is called; required if the class
                defines it.
            idle_after: See `Watermark.idle_after`.
            unit: See `Watermark.unit`.
            format: See `Watermark.format`.
            max_drift: See `Watermark.max_drift`.
            max_ahead: See `Watermark.max_ahead`.

        Returns:
            The watermark, for `watermark=` of a source.
        """
        return cls(
            on,
            "0s",
            idle_after,
            unit,
            format,
            max_drift,
            generated_by=generator,
            period=period,
            max_ahead=max_ahead,
        )

    @classmethod
    def ingestion_time(cls) -> Watermark:
        """Return event time that is the processing time at which the source reads a row.

        No row is late, and event time advances without rows. Rows that are read again after a failure
        have new times.

        ```python
        env.from_source(source, watermark=rh.Watermark.ingestion_time())
        ```
        """
        return cls(None)

    period_ms = OptionalDurationMs("period")

    def columns_read(self, schema: pa.Schema) -> frozenset[str]:
        """Return the columns that the watermark reads.

        Args:
            schema: The columns of the source.

        Returns:
            Their names.
        """
        if self.generated_by is not None:
            return frozenset(schema.names)
        condition = [] if self.when is None else self.when.meta.root_names()
        on = [] if self.on is None else [self.on]
        return frozenset(schema.names).intersection([*on, *condition])

    @property
    def column(self) -> TimeColumn:
        """Return the column with the event time. Not called for ingestion time."""
        assert self.on is not None
        return TimeColumn(self.on, self.unit, self.format)

    @property
    def read_from(self) -> str:
        """Return a description of where event time comes from."""
        return "when a row is read" if self.on is None else self.on

    bound_ms = DurationMs("bound")
    idle_after_ms = OptionalDurationMs("idle_after")
    max_ahead_ms = OptionalDurationMs("max_ahead")
    max_drift_ms = OptionalDurationMs("max_drift")
