"""Methods of `KeyedStream` that join it with another one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rheos.api.function_checks import operator_name
from rheos.api.joins import (
    JoinHow,
    TableHow,
    TemporalHow,
    co_grouped,
    interval_joined,
    tables_joined,
    temporal_joined,
    window_joined,
)
from rheos.api.stream_base import Stream
from rheos.api.time_to_live import TimeToLive
from rheos.api.transformations import Transformation
from rheos.core.errors import ProgramError
from rheos.core.graph.functions import CoGroupFunction
from rheos.core.graph.nodes import MAIN, Spec, StreamType
from rheos.core.graph.windows import Window
from rheos.core.operators.late_rows import LATE_OF_TWO
from rheos.core.protocol.durations import Duration
from rheos.core.site import call_site, located

if TYPE_CHECKING:
    import polars as pl

    from rheos.api.keyed_stream import KeyedStream
    from rheos.api.streams import DataStream


class JoinMethods(Stream):
    """Joins of two keyed streams."""

    @property
    def keys(self) -> tuple[str, ...]:
        """Names of the key columns."""
        return self._port.keys

    def interval_join(
        self,
        other: KeyedStream,
        between: tuple[Duration, Duration],
        how: JoinHow = "inner",
        *,
        suffix: str | None = None,
    ) -> DataStream:
        """Join rows of this stream and of another one that have the same key and are close together in
        time. The bounds limit the time from this row to the other one; a negative time means that the
        other row is earlier.

        ```python
        orders.key_by("id").interval_join(payments.key_by("order_id"), between=("-5m", "10m"))
        ```

        A pair has the columns of both, and the later of their times. Late rows go to the side outputs
        `"late_left"` and `"late_right"`.

        Args:
            other: the right side, keyed by as many columns of the same types.
            between: the two bounds, inclusive.
            how: "left", "right" and "full" also emit the rows of that side, or of both, without a
                partner: with nulls, as soon as no partner can arrive any more.
            suffix: suffix for the other's columns whose names this stream has, too. A key with the same
                name on both sides is one column.

        Returns:
            The stream of pairs.

        Raises:
            ProgramError: `other` is not a keyed stream of this environment, a stream has no event time,
                or an argument is invalid.
            SchemaError: The keys have different types, or two columns would have one name.
        """
        with located(call_site(), "interval_join"):
            sides = self._sides(other, "interval_join")
            spec, type = interval_joined(*sides, between, how, suffix)
            return _joined(spec, sides, type, "an interval join")

    def window_join(
        self, other: KeyedStream, window: Window, how: JoinHow = "inner", *, suffix: str | None = None
    ) -> DataStream:
        """Join rows of this stream and of another one that have the same key and are in the same
        window.

        ```python
        views.key_by("user").window_join(clicks.key_by("user"), rh.Tumbling("1m"), how="left")
        ```

        A pair has the columns of both, `window_start` and `window_end`. Late rows go to the side
        outputs `"late_left"` and `"late_right"`.

        Args:
            other: The right side, keyed by as many columns of the same types.
            window: The windows; a session contains rows of both streams.
            how: "left", "right" and "full" also emit the rows of that side, or of both, without a
                partner in a window, with nulls.
            suffix: As in `interval_join`.

        Returns:
            The stream of pairs.

        Raises:
            ProgramError: `other` is not a keyed stream of this environment, or an argument is invalid.
            SchemaError: The keys have different types, or two columns would have one name.
        """
        with located(call_site(), "window_join"):
            sides = self._sides(other, "window_join")
            spec, type = window_joined(*sides, window, how, suffix)
            return _joined(spec, sides, type, "a window")

    def co_group(
        self, other: KeyedStream, window: Window, fn: CoGroupFunction, returns: Any = None
    ) -> DataStream:
        """Call a function once per key and window, with all records of both streams. The records of
        each stream are sorted by event time.

        ```python
        class Missed(rh.CoGroupFunction):
            def co_group(self, left: list[View], right: list[Click], ctx) -> Iterator[Report]:
                yield Report(ctx.key, ctx.window.end_ms, len(left), len(right))

        views.key_by("user").co_group(clicks.key_by("user"), rh.Tumbling("1h"), Missed())
        ```

        Late rows go to the side outputs `"late_left"` and `"late_right"`.

        Args:
            other: The right side, keyed by as many columns of the same types.
            window: The windows.
            fn: The function.
            returns: The type of the results, if the annotation of `co_group` does not declare it.

        Returns:
            The stream of the results.

        Raises:
            ProgramError: `other` is not a keyed stream of this environment, or an argument is invalid.
            SchemaError: The keys have different types, or the type of the results is not declared.
        """
        name = operator_name("co_group", fn)
        with located(call_site(), name):
            sides = self._sides(other, "co_group")
            spec, type = co_grouped(*sides, window, fn, returns)
            return _joined(spec, sides, type, "a window", name)

    def temporal_join(
        self,
        versions: KeyedStream,
        how: TemporalHow = "inner",
        *,
        suffix: str | None = None,
        max_age: Duration | None = None,
        delay: Duration = "0s",
    ) -> DataStream:
        """Add to each row the version of another stream that was valid at the row's time.

        It is the last version of the row's key that is not later than the row.

        ```python
        orders.key_by("currency").temporal_join(rates.key_by("currency"))
        ```

        Rows are buffered until the watermark of both streams has passed them. Late rows go to the side
        outputs `"late_left"` and `"late_right"`.

        Args:
            versions: The versions; each row is valid from its time to that of the next row of its key.
            how: "left" also emits rows without a version, with nulls; "inner" drops them.
            suffix: As in `interval_join`.
            max_age: Maximum time from a version to the row, inclusive. An older version counts as
                missing. None: versions do not expire.
            delay: Time after which a version becomes valid. A row gets the last version that is at
                least this much older than the row.

        Returns:
            The stream of rows with their versions.

        Raises:
            ProgramError: `versions` is not a keyed stream of this environment, or a stream has no event
                time.
            SchemaError: The keys have different types, or two columns would have one name.
        """
        with located(call_site(), "temporal_join"):
            sides = self._sides(versions, "temporal_join")
            spec, type = temporal_joined(*sides, how, suffix, max_age, delay)
            return _joined(spec, sides, type, "a temporal join")

    def join(
        self,
        other: KeyedStream,
        how: TableHow = "inner",
        *,
        where: pl.Expr | None = None,
        ttl: TimeToLive | None = None,
        suffix: str | None = None,
    ) -> DataStream:
        """Join all rows of this stream and of another one that have the same key, regardless of their
        times. Each side is append-only or an updating table (`upserts`).

        ```python
        orders = orders.upserts(key="id").retractions()
        names = customers.upserts(key="id").key_by("id")
        orders.key_by("customer").join(names, how="left", ttl="30d", suffix="_of_customer")
        ```

        The result is a changelog: a pair is retracted when one of its rows is. An inner join or a
        semi-join of append-only sides is append-only. The result has no event time.

        Args:
            other: the right side, keyed by as many columns of the same types.
            how: "left", "right" and "full" also emit the rows of that side, or of both, without a
                partner: with nulls, until a partner arrives. "semi" emits the left rows that have a
                partner, once each, and "anti" the other left rows.
            where: a condition on the columns of a pair. Rows for which it is false or null are not
                joined.
            ttl: required: time after a row's event time at which it is dropped, or up to a tenth of
                that time later. A dropped row finds no further partner, and its pairs remain. "forever"
                keeps all rows.
            suffix: as in `interval_join`.

        Returns:
            The stream of pairs, or of left rows; a changelog, unless it is an inner join or a semi-join
            of append-only sides.

        Raises:
            ProgramError: `other` is not a keyed stream of this environment, `ttl` is missing, or an
                argument is invalid.
            SchemaError: The keys have different types, or two columns would have one name.
        """
        with located(call_site(), "join"):
            sides = self._sides(other, "join")
            spec, type = tables_joined(*sides, how, suffix, ttl, where)
            if spec.ttl_ms is not None:
                for side in sides:
                    side.go_by_event_time("a time to live")
            return sides[0].add(spec, "join", {MAIN: type}, sides[1]).stream

    def _sides(self, other: Any, method: str) -> tuple[Transformation, Transformation]:
        if not isinstance(other, JoinMethods):
            raise ProgramError(
                f"{method}() takes a keyed stream, not {other!r}",
                hint=f'write .{method}(payments.key_by("order_id"), ...)',
            )
        if other._program is not self._program:
            raise ProgramError(
                f"{method}() takes streams of one environment",
                hint="read both sources in the same rh.Environment",
            )
        return self._at, other.transformation


def _joined(
    spec: Spec,
    sides: tuple[Transformation, Transformation],
    type: StreamType,
    what: str,
    name: str | None = None,
) -> DataStream:
    """Add a join that needs event time, and has side outputs for late rows."""
    left, right = sides
    for side in sides:
        side.go_by_event_time(what)
    late = zip(LATE_OF_TWO, (left.type, right.type), strict=True)
    return left.add(spec, name or spec.kind, {MAIN: type, **dict(late)}, right).stream
