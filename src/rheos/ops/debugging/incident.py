"""An incident: what arrived at a part of a program, and the error or the row to which it led.

It runs again in this process, without the job, its sources and its checkpoints.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any, TypeAlias, assert_never

import numpy as np
import pyarrow as pa

import rheos
from rheos.core.errors import RheosError, unexpected
from rheos.core.protocol.elements import MIN_TIMESTAMP_MS, SPLIT, SWM, WM, Batch
from rheos.core.protocol.shown_rows import rows_values
from rheos.ops.debugging.call_watcher import GivenRow
from rheos.ops.debugging.deliveries import Delivery, Rows, WatermarkAdvance, pieces
from rheos.ops.debugging.minimising import minimised
from rheos.ops.debugging.program_part import ProgramPart

_READABLE = 30
"""Number of rows that a reader can survey."""
_OWN_FILES = str(Path(rheos.__file__).parent)


@dataclass(frozen=True)
class RaisedError:
    """An error. Two errors are the same if they have the same type and come from the same line."""

    kind: str
    """Name of the class of the error, or of its cause."""
    place: str
    """File and line of the user's code that raised it; empty if none did."""

    @classmethod
    def of(cls, error: RheosError) -> RaisedError:
        cause = error.__cause__ or error
        lines = traceback.extract_tb(cause.__traceback__)
        own = [line for line in lines if not line.filename.startswith(_OWN_FILES)]
        place = f"{own[-1].filename}:{own[-1].lineno}" if own and cause is not error else ""
        return cls(type(cause).__name__, place)


@dataclass(frozen=True)
class EmittedRow:
    """A row that the part of the program emitted."""

    row: Mapping[str, Any]
    output: str
    """Tag of a side output; empty for the main output."""


@dataclass(frozen=True)
class MissingRow:
    """A row that the part of the program should emit, and does not."""

    row: Mapping[str, Any]
    """All columns of its main output."""
    identity: Sequence[str]
    """Columns that tell which rows are emitted in its place: those that agree with it in all of these.
    """
    in_place: Sequence[str] = ()
    """The rows that are emitted in its place, as strings in ascending order."""

    def emitted_in_place(self, results: Iterable[DeliveryResult]) -> Sequence[str]:
        """Return the rows that a run emits in its place, as strings in ascending order."""
        return sorted(repr(row) for row in self.rows_in_place(results))

    def rows_in_place(self, results: Iterable[DeliveryResult]) -> list[dict[str, Any]]:
        """Return the rows that a run emits in its place."""
        wanted = repr([self.row[name] for name in self.identity])
        return [
            dict(given.row)
            for result in results
            for given in result.rows
            if not given.output and repr([given.row[name] for name in self.identity]) == wanted
        ]


Symptom: TypeAlias = RaisedError | EmittedRow | MissingRow


@dataclass(frozen=True)
class DeliveryResult:
    """Rows or error to which one delivery led."""

    rows: list[GivenRow]
    error: RheosError | None


@dataclass(frozen=True)
class Incident:
    """Rows that arrive at a part of a program, and the wrong result to which they lead."""

    part: ProgramPart
    deliveries: tuple[Delivery, ...]
    """Rows one by one, and watermarks."""
    symptom: Symptom

    def run(self) -> Iterator[DeliveryResult]:
        """Run the part, and yield what each delivery led to, up to the first error."""
        planned = self.part.planned
        with self.part.running() as deliver:
            for delivery in self.deliveries:
                rows: list[GivenRow] = []
                error: RheosError | None = None
                try:
                    for out in deliver(delivery):
                        rows += (GivenRow(row, out.tag) for row in rows_values(out.batch))
                except RheosError as raised:
                    error = raised.located(site=planned.site, operator=planned.name)
                except Exception as raised:
                    error = unexpected(raised).located(site=planned.site, operator=planned.name)
                yield DeliveryResult(rows, error)
                if error is not None:
                    return

    def shows(self) -> bool:
        """Return whether the symptom occurs."""
        match self.symptom:
            case MissingRow() as missing:
                results = list(self.run())
                if any(each.error is not None for each in results):
                    return False
                emitted = missing.emitted_in_place(results)
                return emitted == missing.in_place and repr(dict(missing.row)) not in emitted
            case RaisedError() | EmittedRow():
                return any(map(self.is_shown_by, self.run()))
            case _:
                assert_never(self.symptom)

    def is_shown_by(self, given: DeliveryResult) -> bool:
        """Return whether what a delivery led to is the symptom. No delivery shows a missing row."""
        match self.symptom:
            case RaisedError():
                return given.error is not None and RaisedError.of(given.error) == self.symptom
            case EmittedRow(row, output):
                wanted = (repr(dict(row)), output)  # NaN equals NaN.
                return wanted in ((repr(each.row), each.output) for each in given.rows)
            case MissingRow():
                return False
            case _:
                assert_never(self.symptom)


def incident_of(part: ProgramPart, deliveries: Sequence[Delivery], symptom: Symptom) -> Incident:
    """Return an incident with the rows one by one, as if all were from one split and none in flight."""
    alone = [piece for delivery in deliveries for piece in pieces(delivery)]
    return Incident(part, tuple(map(_of_one_split, alone)), symptom)


def smallest(
    incident: Incident,
    is_over: Callable[[], bool] = lambda: False,
    *,
    stateless: bool = False,
    keeps_state: bool = False,
) -> Incident:
    """Return an incident with few rows and watermarks that still shows the symptom.

    Args:
        incident: An incident that shows it.
        is_over: Whether to return the smallest one found so far.
        stateless: Whether it must begin without state if that shows the symptom, too.
        keeps_state: Whether it must begin with the state.

    Returns:
        Each of its rows is needed or has to stay, unless time was up. It begins without state if a
        reader can then still survey the rows. Where possible, a row sees the watermark that the
        operator has reached.
    """
    without_state = replace(incident, part=incident.part.stateless())
    if not incident.part.has_state:
        return _few(without_state, is_over)
    found = _few(without_state, is_over) if not keeps_state and without_state.shows() else None
    if found is not None and (stateless or len(found.deliveries) <= _READABLE):
        return found
    other = _few(incident, is_over)
    return other if found is None or len(other.deliveries) < len(found.deliveries) else found


def _few(incident: Incident, is_over: Callable[[], bool]) -> Incident:
    def simple(some: Sequence[Delivery]) -> Incident:
        return replace(incident, deliveries=tuple(_seeing_the_operators_watermark(some)))

    kept = _fewest(
        incident.deliveries, lambda some: replace(incident, deliveries=tuple(some)).shows(), is_over
    )
    last = list(_last_advances(kept))
    if len(last) < len(kept) and replace(incident, deliveries=tuple(last)).shows():
        kept = last
    if simple(kept).shows():
        return simple(kept)
    # A reader understands watermarks that advance more easily than rows of a slower split.
    risen = list(_advancing_to_each_row(kept))
    if simple(risen).shows():
        return simple(_fewest(risen, lambda some: simple(some).shows(), is_over))
    return replace(incident, deliveries=tuple(kept))


def _fewest(
    deliveries: Sequence[Delivery],
    shows: Callable[[Sequence[Delivery]], bool],
    is_over: Callable[[], bool],
) -> list[Delivery]:
    """Return the deliveries that stay, and as few of the others as possible."""

    def with_staying(some: Sequence[int]) -> list[Delivery]:
        chosen = frozenset(some)
        return [each for at, each in enumerate(deliveries) if each.stays or at in chosen]

    others = [at for at, each in enumerate(deliveries) if not each.stays]
    return with_staying(minimised(others, lambda some: shows(with_staying(some)), is_over))


def _last_advances(deliveries: Sequence[Delivery]) -> Iterator[Delivery]:
    """Yield the deliveries; of several watermarks in a row, only the last one."""
    for delivery, after in zip_longest(deliveries, deliveries[1:]):
        if not (isinstance(delivery, WatermarkAdvance) and isinstance(after, WatermarkAdvance)):
            yield delivery


def row_watermark_ms(rows: Batch) -> int:
    """Return the watermark that the single row of a delivery sees."""
    return int(rows.column(SWM)[0].as_py()) if SWM in rows.schema.names else MIN_TIMESTAMP_MS


def with_watermark(rows: Batch, watermark_ms: int) -> Batch:
    """Return rows that see that watermark."""
    hidden = {WM: watermark_ms, SWM: watermark_ms, SPLIT: 0}
    columns = [
        pa.array(np.full(rows.num_rows, hidden[field.name]), field.type)
        if field.name in hidden
        else rows.column(field.name)
        for field in rows.schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=rows.schema)


def _of_one_split(delivery: Delivery) -> Delivery:
    if isinstance(delivery, WatermarkAdvance):
        return delivery
    batch = with_watermark(delivery.batch, row_watermark_ms(delivery.batch))
    return replace(delivery, batch=batch, in_flight=False)


def _advancing_to_each_row(deliveries: Sequence[Delivery]) -> Iterator[Delivery]:
    """Yield the deliveries, and before a row that sees a higher watermark the advance to it."""
    reached_ms = MIN_TIMESTAMP_MS
    for delivery in deliveries:
        seen_ms = (
            delivery.watermark_ms
            if isinstance(delivery, WatermarkAdvance)
            else row_watermark_ms(delivery.batch)
        )
        if isinstance(delivery, Rows) and seen_ms > reached_ms:
            yield WatermarkAdvance(seen_ms)
        reached_ms = max(reached_ms, seen_ms)
        yield delivery


def _seeing_the_operators_watermark(deliveries: Sequence[Delivery]) -> Iterator[Delivery]:
    reached_ms = MIN_TIMESTAMP_MS
    for delivery in deliveries:
        if isinstance(delivery, WatermarkAdvance):
            reached_ms = delivery.watermark_ms
            yield delivery
        else:
            yield replace(delivery, batch=with_watermark(delivery.batch, reached_ms))
