"""Hybrid source: several sources read one after the other, such as files of history and then a topic.

The splits of part *i* have phase *i*, so the engine opens the next part's splits when it has read all
splits of this part. Parts may overlap. A *switch* between two parts is a time. The row's own time, and
not the time at which it is read, decides in which of the two parts it counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rheos.connectors.source_wrapper import WrappedReader
from rheos.core.connectors import capabilities
from rheos.core.connectors.contract import (
    Polled,
    ReaderContext,
    RowPlaces,
    Source,
    SourceClient,
    Split,
    SplitReader,
    TimeReached,
)
from rheos.core.connectors.datasets import Dataset, datasets_of
from rheos.core.connectors.schemas import shown_row
from rheos.core.errors import InputError, ProgramError, RheosError, SchemaError
from rheos.core.protocol.elements import Batch
from rheos.core.protocol.moments import moment_us
from rheos.core.site import located_at_call
from rheos.core.times import TimeColumn, Unit

Switch: TypeAlias = datetime | int
"""Point in time: a datetime (UTC if it has no zone), or ms since the epoch."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNIT_US = {"s": 1_000_000, "ms": 1_000, "us": 1}
_DAY_US = 86_400_000_000
_LEAST, _MOST = -(2**63), 2**63 - 1


@located_at_call
def hybrid(
    first: Source,
    *then: Source,
    on: str | None = None,
    switch: Switch | Sequence[Switch] | None = None,
    unit: Unit | None = None,
    format: str | None = None,
) -> HybridSource:
    """Create a source that reads several sources one after another: `first` to its end, then the next.

    ```python
    trips = rh.hybrid(
        rh.files.source("history/*.parquet", schema=Trip),
        live_trips,
        on="departed_at",
        switch=datetime(2026, 7, 1, tzinfo=UTC))
    ```

    The next source opens when all subtasks have read those before it. All sources have the same
    columns, and all but the last are bounded.

    If the sources overlap, a switch makes the hand-over exact. The earlier source emits rows with `on`
    before the switch, and the later source emits the others. The rest are dropped and counted
    (`after_switch`, `before_switch`). If `on` is the event time, windows of the past fire while the
    past is read. Without a switch, they wait until the last source is open.

    Args:
        first: The source that is read first, such as the files of the past.
        then: The sources after it, in order; the last may be unbounded.
        on: The time column that `switch` refers to: a timestamp, a date, or an int64 of ms.
        switch: The time of the hand-over. For more than two sources, one time for each hand-over, in
            ascending order.
        unit: Unit of `on` if it is another number since the epoch, also a float: "s", "ms", "us" or
            "ns".
        format: Format of `on` if it is a string, such as "%Y-%m-%d %H:%M:%S".

    Returns:
        The source, for `env.from_source`.

    Raises:
        ProgramError: A source before the last is unbounded, or the arguments do not belong together.
        SchemaError: The sources differ in their columns, or `on` is not one of them.
    """
    parts = (first, *then)
    _check_parts(parts)
    schema = _common_schema(parts)
    if on is None and (unit is not None or format is not None):
        raise ProgramError(
            "unit= and format= describe the column on=, which is missing",
            hint='write rh.hybrid(history, live, on="at", unit="s", switch=...), or leave it out',
        )
    times = None if on is None else TimeColumn(on, unit, format)
    switches = _switches_us(parts, schema, times, switch)
    rejects = [rows for part in parts if (rows := capabilities.rejected_schema_of(part)) is not None]
    if any(not rows.equals(rejects[0]) for rows in rejects):
        raise SchemaError(
            "the sources of a hybrid have different schemas for rejected rows",
            hint='use on_error="skip" only for sources of one kind',
        )
    records = {record for part in parts if (record := capabilities.record_class(part)) is not None}
    record = records.pop() if len(records) == 1 else None
    return HybridSource(parts, schema, record, times, switches)


@dataclass(frozen=True)
class HybridSource(Source):
    """Source that `hybrid` creates. Splits and positions are those of its parts."""

    parts: tuple[Source, ...]
    schema: pa.Schema
    record: type | None = None
    on: TimeColumn | None = None
    switches_us: tuple[int, ...] = ()
    """Switch times between the parts; empty without a switch."""
    bounded: bool = field(default=True, init=False)

    def __post_init__(self) -> None:
        last = self.parts[-1]
        object.__setattr__(self, "bounded", last.bounded)
        object.__setattr__(self, "discovery_ms", capabilities.discovery_ms(last))
        object.__setattr__(self, "discovery_phase", len(self.parts) - 1)
        object.__setattr__(self, "may_stop", any(map(capabilities.may_stop, self.parts)))
        object.__setattr__(self, "orders_splits", any(map(capabilities.orders_splits, self.parts)))
        object.__setattr__(
            self, "event_time_behind", all(capabilities.allows_event_time(part) for part in self.parts)
        )

    def staged(self, folder: str) -> Source:
        parts: list[Source] = []
        try:
            for number, part in enumerate(self.parts):
                parts.append(capabilities.staged(part, f"{folder}/{number}"))
        except BaseException:
            for part in parts:
                capabilities.release(part)
            raise
        return replace(self, parts=tuple(parts))

    def released(self) -> None:
        for part in self.parts:
            capabilities.release(part)

    def as_of_now(self) -> Source:
        return replace(self, parts=tuple(capabilities.until_now(part) for part in self.parts))

    def only_reader(self) -> str | None:
        return next((why for part in self.parts if (why := capabilities.reads_alone(part))), None)

    def queries(self) -> Sequence[Source]:
        return [query for part in self.parts for query in capabilities.queries(part)]

    def session(self) -> Any | None:
        sessions = map(capabilities.session_of, self.parts)
        return next((session for session in sessions if session is not None), None)

    def lost_by_failure(self) -> str | None:
        return next((rows for part in self.parts if (rows := capabilities.lost_by_failure(part))), None)

    def record_class(self) -> type | None:
        return self.record

    def unpaced(self) -> Source:
        return replace(self, parts=tuple(capabilities.unpaced(part) for part in self.parts))

    def splits(self) -> Sequence[Split]:
        return [
            _PartSplit(number, split.id, split.payload).whole()
            for number, part in enumerate(self.parts)
            for split in part.splits()
        ]

    def discover(self) -> Sequence[Split]:
        last = len(self.parts) - 1
        found = capabilities.discovered(self.parts[last])
        return [_PartSplit(last, split.id, split.payload).whole() for split in found]

    def nothing_found(self) -> RheosError | None:
        return capabilities.nothing_found(self.parts[-1])

    def client(self, ctx: ReaderContext) -> SourceClient | None:
        return _Clients(self.parts, ctx)

    def resumed(self, splits: Sequence[Split], known: Mapping[str, bytes]) -> Sequence[Split]:
        listed = [_part_of(split.payload) for split in splits]
        before = [_part_of(payload) for payload in known.values()]
        kept: list[Split] = []
        for number, part in enumerate(self.parts):
            own = [of.split() for of in listed if of.number == number]
            of_part = {of.id: of.payload for of in before if of.number == number}
            # The checkpoint knows nothing about a part that had no splits then, so it is read as a new
            # one.
            read = capabilities.resumed(part, own, of_part) if of_part else own
            kept += [_PartSplit(number, split.id, split.payload).whole() for split in read]
        return kept

    def open(self, split: Split, position: bytes | None, ctx: ReaderContext) -> SplitReader:
        of = _part_of(split.payload)
        if isinstance(ctx.client, _Clients):
            ctx = ctx.client.context(of.number)
        reader = self.parts[of.number].open(of.split(), position, ctx)
        if not self.switches_us:
            return _PartReader(reader, self.schema, None, ctx)
        assert self.on is not None
        begin_us, end_us = self._span_us(of.number)
        return _PartReader(reader, self.schema, _PartTimes(self.on, begin_us, end_us), ctx)

    def _span_us(self, number: int) -> tuple[int | None, int | None]:
        """Return the bounds of the times for which rows of a part count: begin, and exclusive end."""
        seams = [None, *self.switches_us, None]
        return seams[number], seams[number + 1]

    def earliest_ms(self, split: Split, on: TimeColumn) -> int | None:
        of = _part_of(split.payload)
        known = capabilities.earliest_ms(self.parts[of.number], of.split(), on)
        if not self.switches_us or on != self.on or of.number == 0:
            return known
        begin_ms = self.switches_us[of.number - 1] // 1000
        return begin_ms if known is None else max(known, begin_ms)

    def endless(self, split: Split) -> bool:
        of = _part_of(split.payload)
        return capabilities.is_endless(self.parts[of.number], of.split())

    def read_after(self, split: Split) -> Sequence[str]:
        of = _part_of(split.payload)
        found = capabilities.read_after(self.parts[of.number], of.split())
        return [_id_in_part(of.number, id) for id in sorted(found)]

    def rejected_schema(self) -> pa.Schema | None:
        return next(filter(None, map(capabilities.rejected_schema_of, self.parts)), None)

    def positions(self) -> str:
        return f"{type(self).__qualname__} of {', then '.join(part.positions() for part in self.parts)}"

    def datasets(self) -> Sequence[Dataset]:
        return [each for part in self.parts for each in datasets_of(part)]

    def describe(self) -> str:
        return ", then ".join(part.describe() for part in self.parts)


class _PartSplit(msgspec.Struct, frozen=True, array_like=True):
    """Payload of a split: the number of its part, and the part's own split."""

    number: int
    id: str
    payload: bytes

    def split(self) -> Split:
        return Split(self.id, self.payload)

    def whole(self) -> Split:
        """Return this as a split of the hybrid source."""
        id = _id_in_part(self.number, self.id)
        return Split(id, msgspec.msgpack.encode(self), phase=self.number)


def _id_in_part(number: int, id: str) -> str:
    return f"{number}/{id}"


def _part_of(payload: bytes) -> _PartSplit:
    return msgspec.msgpack.decode(payload, type=_PartSplit)


class _Clients(SourceClient):
    """Clients of the parts. Each is created when the first reader of its part is opened."""

    def __init__(self, parts: Sequence[Source], ctx: ReaderContext) -> None:
        self._parts = parts
        self._ctx = ctx
        self._contexts: dict[int, ReaderContext] = {}

    def context(self, number: int) -> ReaderContext:
        """Return the context for the readers of a part."""
        known = self._contexts.get(number)
        if known is None:
            known = replace(self._ctx, client=None)
            known.client = capabilities.shared_client(self._parts[number], known)
            self._contexts[number] = known
        return known

    def completed(self, positions: Mapping[str, bytes]) -> None:
        for number, context in list(self._contexts.items()):
            own = {
                id.removeprefix(f"{number}/"): position
                for id, position in positions.items()
                if id.startswith(f"{number}/")
            }
            if context.client is not None and own:
                context.client.completed(own)

    def close(self) -> None:
        for context in self._contexts.values():
            if context.client is not None:
                context.client.close()


@dataclass(frozen=True)
class _PartTimes:
    """Times for which rows of a part count: from `begin_us` on, and before `end_us`."""

    on: TimeColumn
    begin_us: int | None
    end_us: int | None


class _PartReader(WrappedReader):
    """Reader of a part, without the rows that count in another part."""

    def __init__(
        self, reader: SplitReader, schema: pa.Schema, span: _PartTimes | None, ctx: ReaderContext
    ) -> None:
        super().__init__(reader)
        self._schema = schema
        self._span = span
        self._count = ctx.count
        self._counted: npt.NDArray[np.bool_] | None = None
        """Mask of the rows last returned by the inner reader that count; None if all do."""

    def poll(self, max_rows: int) -> Polled:
        polled = self._reader.poll(max_rows)
        if isinstance(polled, TimeReached):
            return self._limit_to_switch(polled)
        if not isinstance(polled, pa.RecordBatch):
            return polled
        columns = [polled.column(name) for name in self._schema.names]
        rows = pa.RecordBatch.from_arrays(columns, schema=self._schema)
        self._counted = None
        return rows if self._span is None else self._counting(rows, self._span)

    def _limit_to_switch(self, reached: TimeReached) -> TimeReached:
        """Limit event-time progress to the last moment before the switch. Rows after the switch belong
        to the next part, and must not count as late."""
        if self._span is None or self._span.end_us is None:
            return reached
        return TimeReached(min(reached.event_time_ms, (self._span.end_us - 1) // 1000))

    def _counting(self, rows: Batch, span: _PartTimes) -> Batch:
        times = span.on.timestamps(rows.column(span.on.name))
        if times.null_count:
            row = int(np.flatnonzero(times.is_null().to_numpy(zero_copy_only=False))[0])
            unread = "" if span.on.by_itself else ", or cannot be parsed with its unit or format"
            raise InputError(
                f"a row cannot be assigned to a source: column {span.on.name!r} is null{unread}",
                record=shown_row(rows, row),
                hint="fill in the column, or read the sources one after the other, without switch=",
            )
        values = _numbers(times)
        counts = np.ones(len(values), np.bool_)
        if span.begin_us is not None:
            counts = values >= _least(span.begin_us, times.type)
            self._dropped("before_switch", int(np.count_nonzero(~counts)))
        if span.end_us is not None:
            before = values < _least(span.end_us, times.type)
            self._dropped("after_switch", int(np.count_nonzero(~before)))
            counts &= before
        if counts.all():
            return rows
        self._counted = counts
        return rows.filter(pa.array(counts))

    def places(self) -> RowPlaces | None:
        places = capabilities.places(self._reader)
        if places is None or self._counted is None:
            return places
        left = [place for place, counts in zip(places.of_rows, self._counted, strict=True) if counts]
        return RowPlaces(places.unit, left)

    def _dropped(self, name: str, rows: int) -> None:
        if rows:
            self._count(name, rows)


# --- times in the column's own unit, without rounding and overflow -----------------------------------


def _numbers(times: pa.Array) -> npt.NDArray[np.int64]:
    if not pa.types.is_int64(times.type):
        times = times.view(pa.int32() if pa.types.is_date32(times.type) else pa.int64())
    values: npt.NDArray[np.int64] = times.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    return values


def _least(moment_us: int, kind: pa.DataType) -> int:
    """Return the smallest value of the column's type that is at or after the moment."""
    if pa.types.is_timestamp(kind) and kind.unit == "ns":
        least = moment_us * 1000
    else:
        unit_us = _DAY_US if pa.types.is_date32(kind) else 1000
        if pa.types.is_timestamp(kind):
            unit_us = _UNIT_US[kind.unit]
        least = -(-moment_us // unit_us)
    return min(max(least, _LEAST), _MOST)


# --- checks when the program is built ----------------------------------------------------------------


def _check_parts(parts: tuple[Source, ...]) -> None:
    if len(parts) < 2:
        raise ProgramError("hybrid() needs at least two sources", hint="write rh.hybrid(history, live)")
    for number, part in enumerate(parts, 1):
        if not isinstance(part, Source):
            raise ProgramError(
                f"source {number} of hybrid() is not a source, but {part!r}",
                hint='write rh.hybrid(rh.files.source("history/*.parquet", schema=Trip), live)',
            )
        if isinstance(part, HybridSource):
            raise ProgramError(
                f"source {number} of hybrid() is itself a hybrid",
                hint="pass all sources to one call: rh.hybrid(first, second, third)",
            )
    for number, part in enumerate(parts[:-1], 1):
        if not part.bounded:
            raise ProgramError(
                f"source {number} of the hybrid never ends ({part.describe()}), so later "
                "sources would never be read",
                hint="pass the unbounded source last",
            )


def _common_schema(parts: tuple[Source, ...]) -> pa.Schema:
    """Return the first part's columns, nullable if they are so in any part. Raises SchemaError."""
    first = parts[0].schema
    for number, part in enumerate(parts[1:], 2):
        unlike = sorted(set(first.names) ^ set(part.schema.names))
        if unlike:
            has, lacks = (1, number) if unlike[0] in first.names else (number, 1)
            raise SchemaError(
                f"source {has} of the hybrid has a column {unlike[0]!r}, but source {lacks} does not",
                hint="read all sources with one schema=",
            )
        for column in first:
            kind = part.schema.field(column.name).type
            if kind != column.type:
                raise SchemaError(
                    f"column {column.name!r} is {column.type} in source 1 of the hybrid, but "
                    f"{kind} in source {number}",
                    hint="read all sources with one schema=",
                )
    return pa.schema(
        column.with_nullable(any(part.schema.field(column.name).nullable for part in parts))
        for column in first
    )


def _switches_us(
    parts: tuple[Source, ...],
    schema: pa.Schema,
    on: TimeColumn | None,
    switch: Switch | Sequence[Switch] | None,
) -> tuple[int, ...]:
    if (on is None) != (switch is None):
        raise ProgramError(
            "on= and switch= of a hybrid must be used together",
            hint='write rh.hybrid(history, live, on="at", switch=datetime(2026, 7, 1, tzinfo=UTC))',
        )
    if on is None or switch is None:
        return ()
    if on.name not in schema.names:
        raise SchemaError(
            f"unknown column {on.name!r} for the switch of a hybrid",
            hint=f"the columns here are {', '.join(schema.names)}",
        )
    on.check(schema, "the switch of a hybrid is a time, and its column")
    given = [switch] if isinstance(switch, datetime | int | str) else list(switch)
    if len(given) != len(parts) - 1:
        raise ProgramError(
            f"a hybrid of {len(parts)} sources needs {len(parts) - 1} switches, not {len(given)}",
            hint="pass one switch between each two sources, in order",
        )
    moments = tuple(_moment_us(one) for one in given)
    for earlier, later in pairwise(moments):
        if earlier >= later:
            raise ProgramError(
                f"the switches of a hybrid are not in ascending order: {', '.join(map(str, given))}",
                hint="pass them in the order of the sources",
            )
    return moments


def _moment_us(given: Switch) -> int:
    if isinstance(given, datetime):
        return moment_us(given)
    if isinstance(given, int) and not isinstance(given, bool):
        return given * 1000
    raise ProgramError(
        f"{given!r} is not a point in time",
        hint="pass a datetime, or an int of milliseconds since the epoch",
    )
