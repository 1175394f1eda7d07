"""The core of functions of whole batches, which read and write the state of all keys of a batch at
once.

```python
class Streaks(rh.KeyedBatchFunction):
    last = rh.ValueState(str, default="")
    length = rh.ValueState(int, default=0)

    def process_batch(self, keys, batch, state):
        colours = batch["colour"].to_numpy()
        for rows in keys.rounds():
            at = keys[rows]
            same = state.last[at] == colours[rows]
            length = np.where(same, state.length[at] + 1, 1)
            state.last[at] = colours[rows]
            state.length[at] = length
            third = rows[length == 3]
            yield rh.Emit(batch[third], rows=third)
            yield rh.Emit({"who": batch["who"].to_numpy()[rows], "length": length}, rows, "lengths")

def streaks(draws):
    found = draws.key_by("who").process(Streaks(), returns=draws.schema)
    return {"streaks": found, "lengths": found.side_output("lengths")}

@dataclass
class Length:
    who: str
    length: int

Streaks.side_outputs = {"lengths": Length}

check_example(
    OperatorExample(
        streaks,
        pa.schema([("who", pa.string()), ("colour", pa.string()), ("at", pa.int64())]),
        [
            {"who": "a", "colour": "red", "at": 1},
            {"who": "b", "colour": "red", "at": 2},
            {"who": "a", "colour": "red", "at": 3},
            {"who": "a", "colour": "red", "at": 4},
            WatermarkMark(5),
            {"who": "b", "colour": "blue", "at": 6},
        ],
        on="at",
    ),
    {
        "streaks": [{"who": "a", "colour": "red", "at": 4}],
        "lengths": [
            {"who": "a", "length": 1},
            {"who": "b", "length": 1},
            {"who": "a", "length": 2},
            {"who": "a", "length": 3},
            {"who": "b", "length": 1},
        ],
    },
)
```
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pyarrow as pa

from rheos.core.errors import ProgramError, UserFunctionError
from rheos.core.graph.batch_functions import Emit
from rheos.core.operators.batch_state import RowKeys, RowState, TimersHandle
from rheos.core.operators.columnar_core import ColumnarCore, Delivery, DueTimers
from rheos.core.operators.contract import OperatorContext, Out
from rheos.core.operators.records import NOTHING_HIDDEN, HiddenColumns, UserRaised, user_error
from rheos.core.operators.returned_columns import given_columns
from rheos.core.protocol.elements import strip_hidden, visible
from rheos.core.protocol.polars_frames import arrow_column, arrow_table, polars_frame
from rheos.core.protocol.shown_rows import shown_record
from rheos.core.safe_strings import shown
from rheos.core.state.timers import timers_for

if TYPE_CHECKING:
    from rheos.core.operators.process import ProcessSpec


class BatchCore(ColumnarCore):
    """Calls a function for the rows between two timers, and for a batch of timers at a time."""

    def __init__(self, ctx: OperatorContext, spec: ProcessSpec) -> None:
        super().__init__(ctx, spec)
        self._name = type(spec.fn).__name__
        self._tags = ("", *spec.side_outputs)
        timers = timers_for(TimersHandle(self.timers), self.function, "on_timers")
        self._handed = RowState(self.state, timers, self.scope, lambda: self.watermark_ms)

    def _rows(self, delivery: Delivery, start: int, stop: int) -> Generator[Out, None, int]:
        span = slice(start, stop)
        hidden, event_times = delivery.hidden.at(span), delivery.event_times
        if event_times is not None:
            event_times = event_times[span]
        batch = strip_hidden(delivery.batch).slice(start, stop - start)
        if hidden.reached is not None:
            self.watermark_ms = max(self.watermark_ms, int(hidden.reached[0]))
        keys = RowKeys(
            self.state,
            delivery.slots[span],
            hidden.stamps,
            self.port.keys,
            event_times,
            hidden.reached,
        )
        try:
            handed = batch if self.function.form == "arrow" else polars_frame(batch)
            given = self.function.process_batch(keys, handed, self._handed)
            for emit in _iterate(given):
                yield from self._emitted(emit, len(keys), hidden)
        except UserRaised as error:
            first = shown_record(batch, 0)
            record = f"one of {len(keys)}, the first of which is {first}"
            raise self._raised(error, record, batch.schema.names) from error
        return stop

    def _timers(self, due: DueTimers) -> Generator[Out, None, int]:
        keys = RowKeys(self.state, due.slots, due.times, self.port.keys, due.event_times)
        hidden = due.hidden()
        try:
            given = self.function.on_timers(keys, due.times, self._handed)
            for emit in _iterate(given):
                yield from self._emitted(emit, len(keys), hidden)
        except UserRaised as error:
            first = f"Timer(timestamp_ms={due.timers[0][0]}) of key {shown(due.timers[0][1])}"
            raise self._raised(error, f"one of {len(keys)}, the first of which is {first}") from error
        return len(due.timers)

    def _raised(
        self, error: Exception | SystemExit, record: str, columns: Sequence[str] = ()
    ) -> Exception:
        raised = user_error(self.ctx, error, columns=columns)
        raised.record = raised.record or record
        return raised

    # --- outputs --------------------------------------------------------------------------------------

    def _emitted(self, emit: Emit[Any], count: int, hidden: HiddenColumns) -> Iterator[Out]:
        if not isinstance(emit, Emit):
            raise self._failed(
                f"{self._name} returned {type(emit).__name__}, but must yield rh.Emit: {shown(emit)}",
                'write `yield rh.Emit({"column": values}, rows=rows)`',
            )
        if emit.tag not in self._tags:
            declared = ", ".join(map(repr, self._tags[1:])) or "none"
            raise ProgramError(
                f"{emit.tag!r} is not a declared side output",
                hint=f"declare it: side_outputs = {{{emit.tag!r}: ItsDataclass}}; declared are: "
                f"{declared}",
            )
        output = self.ctx.outputs.get(emit.tag)
        if output is None:
            return
        declared_columns = visible(output.schema)
        table = self._table(emit)
        columns = given_columns(table, declared_columns, self._name, self._failed)
        made = pa.RecordBatch.from_arrays(columns, schema=declared_columns)
        timed = len(output.schema) > len(declared_columns)
        # Checked also without event time: an invalid rows= is an error there, too.
        rows = self._rows_of(emit, made.num_rows, count) if timed or emit.rows is not None else None
        yield from self._batches(emit.tag, made, hidden.at(rows) if timed else NOTHING_HIDDEN)

    def _table(self, emit: Emit[Any]) -> pa.Table:
        try:
            return _arrow_table(emit.columns)
        except (pl.exceptions.PolarsError, TypeError, ValueError, pa.ArrowException) as error:
            raise self._failed(
                f"{self._name} returned columns that do not form a frame: {error}",
                "return a Polars frame, an Arrow batch or table, or arrays of equal length by name",
            ) from None

    def _rows_of(self, emit: Emit[Any], made: int, count: int) -> Any:
        if emit.rows is None:
            if made != count:
                raise self._failed(
                    f"{self._name} returned {made} rows for {count}, so the event time of each row "
                    f"is unknown",
                    "pass the row that each one originates from: rh.Emit(columns, rows=positions)",
                )
            return slice(None)
        rows = np.asarray(emit.rows)
        if rows.dtype.kind not in "iu" and rows.size:
            raise self._failed(
                f"{self._name} passed rows= as {rows.dtype}, which are not positions",
                "pass positions; for a mask, np.flatnonzero(mask)",
            )
        if len(rows) != made or (made and (int(rows.min()) < 0 or int(rows.max()) >= count)):
            raise self._failed(
                f"{self._name} returned {made} rows, but rows= has {len(rows)} positions in a batch "
                f"of {count}",
                "pass the position in the batch of each emitted row",
            )
        return rows.astype(np.intp)

    def _failed(self, what: str, hint: str | None) -> UserFunctionError:
        return UserFunctionError(what, site=self.ctx.site, operator=self.ctx.name, hint=hint)


def _iterate(given: Any) -> Iterator[Any]:
    """Return an iterator over a function's result: nothing, one item, or an iterable of items."""
    if given is None:
        return iter(())
    return iter(given) if hasattr(given, "__iter__") and not isinstance(given, dict) else iter((given,))


def _arrow_table(given: Any) -> pa.Table:
    """Return the emitted rows as a table. Raise a Polars or Arrow error if that is not possible."""
    if isinstance(given, pa.Table):
        return given
    if isinstance(given, pa.RecordBatch):
        return pa.Table.from_batches([given])
    if isinstance(given, pl.DataFrame):
        return arrow_table(given)
    arrays = pl.Series | np.ndarray | pa.Array | pa.ChunkedArray
    if not isinstance(given, Mapping):
        raise TypeError(f"{type(given).__name__} has no columns")
    if not all(isinstance(values, arrays) for values in given.values()):
        # A list, or one value for all rows: converted as Polars does.
        return arrow_table(pl.DataFrame(given))
    return pa.table({name: _arrow_array(values) for name, values in given.items()})


def _arrow_array(values: Any) -> Any:
    if isinstance(values, pl.Series):
        return arrow_column(values)
    return pa.array(values) if isinstance(values, np.ndarray) else values
