"""Timelines of incidents: what arrives at a part of a program, one step on each line.

    ada,500@10s       a row: its values, and after `@` its event time if there is one
    w20s              the watermark of the operator, or of all sources, advances; later rows see it
    ~15s              later rows see this watermark, as of a slower split; `~none`: none yet
    end               the input ends

Rows of an operator with several inputs name theirs, from `in0` on: `in1:eu,5@0s`. With several sources,
rows name their source: `orders:ada,5@0s`. Rows of a side output name it: `big:7`. The module
`rheos.testing.notation` describes values and distances.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, assert_never

import pyarrow as pa

from rheos.core.errors import ConfigurationError, ProgramError
from rheos.core.protocol.elements import (
    MAX_TIMESTAMP_MS,
    MIN_TIMESTAMP_MS,
    SPLIT,
    SWM,
    TS,
    WM,
    Batch,
)
from rheos.core.protocol.shown_rows import rows_values
from rheos.ops.debugging.call_watcher import GivenRow
from rheos.ops.debugging.deliveries import Delivery, Rows, WatermarkAdvance
from rheos.ops.debugging.incident import row_watermark_ms, with_watermark
from rheos.ops.debugging.program_part import ProgramPart
from rheos.testing.notation import distance_ms, row_of, shown_distance, shown_row_of, tokens

_END, _NONE = "end", "none"
_TIMES = {TS, WM, SWM, SPLIT}


class IncidentTimeline:
    """The notation of the rows of one part of a program.

    Args:
        part: The part.
        start: The time from which distances are counted.
    """

    def __init__(self, part: ProgramPart, start: datetime) -> None:
        self._inputs = part.inputs
        self._outputs: Mapping[str, pa.Schema] = part.outputs
        self._start = start
        self._start_ms = round(start.timestamp() * 1000)

    # --- writing ----------------------------------------------------------------------------------

    def lines(self, deliveries: Iterable[Delivery]) -> list[str]:
        """Return the lines of a timeline.

        Raises:
            ConfigurationError: A value cannot be written so that it can be read again.
        """
        given = list(deliveries)
        lines = list(self._lines(given))
        read = self.deliveries("\n".join(lines))
        for delivery, again, line in zip(given, read, self._with_rows_only(lines), strict=True):
            if not _is_same(delivery, again):
                raise ConfigurationError(
                    f"the row {line} has a value that a timeline cannot express",
                    hint="write the test by hand from the steps that `rheos debug --trace` prints",
                )
        return lines

    def output_row(self, given: GivenRow) -> str:
        """Return a row that the part emitted."""
        schema = self._outputs[given.output]
        text = shown_row_of(given.row, schema, self._start)
        return f"{given.output}:{text}" if given.output else text

    def _lines(self, deliveries: Iterable[Delivery]) -> Iterator[str]:
        reached_ms = MIN_TIMESTAMP_MS
        for delivery in deliveries:
            match delivery:
                case WatermarkAdvance(watermark_ms):
                    reached_ms = watermark_ms
                    yield (
                        _END if watermark_ms >= MAX_TIMESTAMP_MS else f"w{self._distance(watermark_ms)}"
                    )
                case Rows():
                    seen_ms = row_watermark_ms(delivery.batch)
                    if SWM in delivery.batch.schema.names and seen_ms != reached_ms:
                        reached_ms = seen_ms
                        known = seen_ms != MIN_TIMESTAMP_MS
                        yield f"~{self._distance(seen_ms) if known else _NONE}"
                    yield self._row(delivery)
                case _:
                    assert_never(delivery)

    def _row(self, rows: Rows) -> str:
        schema = rows.batch.schema
        name = f"{name}:" if (name := self._inputs[rows.port].name) else ""
        shown = _shown_columns(schema)
        values = shown_row_of(rows.batch.to_pylist()[0], shown, self._start) if shown.names else ""
        if not name and (
            values.startswith("~") or values == _END or self._watermark(values) is not None
        ):
            first, comma, rest = values.partition(",")
            values = f'"{first}"{comma}{rest}'
        at = rows.batch.column(TS)[0].as_py() if TS in schema.names else None
        return f"{name}{values}" + ("" if at is None else f"@{self._distance(at)}")

    def _distance(self, ms: int) -> str:
        return shown_distance(ms - self._start_ms)

    def _with_rows_only(self, lines: Sequence[str]) -> Iterator[str]:
        return (line for line in lines if not line.startswith("~"))

    # --- reading ----------------------------------------------------------------------------------

    def deliveries(self, timeline: str) -> list[Delivery]:
        """Return what arrives at the operator.

        Raises:
            ProgramError: The timeline cannot be parsed.
        """
        found: list[Delivery] = []
        reached_ms = MIN_TIMESTAMP_MS
        for step in (step for line in timeline.splitlines() for step in tokens(line)):
            if step == _END:
                reached_ms = MAX_TIMESTAMP_MS
                found.append(WatermarkAdvance(reached_ms))
            elif step.startswith("~"):
                reached_ms = MIN_TIMESTAMP_MS if step[1:] == _NONE else self._time(step[1:])
            elif (moment := self._watermark(step)) is not None:
                reached_ms = moment
                found.append(WatermarkAdvance(moment))
            else:
                found.append(self._read_row(step, reached_ms))
        return found

    def output_rows(self, rows: Iterable[str]) -> list[GivenRow]:
        """Return rows of the operator's outputs.

        Raises:
            ProgramError: A row cannot be parsed.
        """
        return [self._output_row(row) for row in rows]

    def _output_row(self, text: str) -> GivenRow:
        name, colon, rest = text.partition(":")
        output, rest = (name, rest) if colon and name and name in self._outputs else ("", text)
        schema = self._outputs[output]
        (row,) = rows_values(_batch(row_of(rest, schema, self._start), schema))
        return GivenRow(row, output)

    def _watermark(self, step: str) -> int | None:
        """Return the time of `w20s`; None for a row whose first value begins with a w."""
        if not step.startswith("w") or "@" in step or "," in step:
            return None
        try:
            return self._time(step[1:])
        except ProgramError:
            return None

    def _time(self, distance: str) -> int:
        return self._start_ms + distance_ms(distance)

    def _read_row(self, step: str, reached_ms: int) -> Rows:
        port, text = 0, step
        if len(self._inputs) > 1:
            name, _, text = step.partition(":")
            names = [input.name for input in self._inputs]
            if name not in names:
                raise ProgramError(
                    f"{step!r} does not name its input",
                    hint=f"put one of {', '.join(names)} before it: {names[0]}:{step}",
                )
            port = names.index(name)
        schema = self._inputs[port].schema
        values: dict[str, Any] = {}
        if TS in schema.names:
            text, at, time = text.rpartition("@")
            if not at:
                raise ProgramError(
                    f"{step!r} has no event time", hint=f"add the event time after an @: {step}@10s"
                )
            values[TS] = self._time(time)
        shown = _shown_columns(schema)
        if shown.names:
            values |= row_of(text, shown, self._start)
        return Rows(port, with_watermark(_batch(values, schema), reached_ms), False)


def start_of(deliveries: Iterable[Delivery], clock_ms: int) -> datetime:
    """Return a time from which distances are counted: the full minute before the first event time, or
    before the clock's time."""
    times = [
        int(each.batch.column(TS)[0].as_py())
        for each in deliveries
        if isinstance(each, Rows)
        and TS in each.batch.schema.names
        and each.batch.column(TS)[0].is_valid
    ]
    return datetime.fromtimestamp(min(times, default=clock_ms) // 60_000 * 60, UTC)


def _shown_columns(schema: pa.Schema) -> pa.Schema:
    return pa.schema([field for field in schema if field.name not in _TIMES])


def _batch(values: Mapping[str, Any], schema: pa.Schema) -> Batch:
    columns = [pa.array([values.get(field.name, 0)], field.type) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _is_same(one: Delivery, other: Delivery) -> bool:
    if isinstance(one, WatermarkAdvance) or isinstance(other, WatermarkAdvance):
        return one == other
    return one.port == other.port and spelled_values(one.batch) == spelled_values(other.batch)


def spelled_values(batch: Batch) -> str:
    """Return all values as Arrow writes them. NaN equals NaN."""
    return str([column.to_string() for column in batch.columns])
