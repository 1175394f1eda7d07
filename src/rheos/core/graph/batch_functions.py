"""Keyed functions of whole batches, with keys, state and timers as arrays."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Literal, NamedTuple, Protocol, Self, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from rheos.core.graph.nodes import MAIN

T = TypeVar("T")

Rows: TypeAlias = npt.NDArray[np.intp]
"""Positions of rows in a batch."""
Which: TypeAlias = npt.NDArray[np.bool_] | npt.NDArray[np.integer[Any]] | slice
"""Selection of rows: a mask, or positions."""


class Groups(NamedTuple):
    """The rows of a batch, grouped by key. `rows` has the positions of the rows, key after key, each in
    the order of arrival. `starts` has the position in `rows` at which each key begins."""

    rows: Rows
    starts: Rows


class BatchKeys(Protocol):
    """The key of each row, with which state is read and written: `state.seen[keys]`."""

    @property
    def timestamps(self) -> npt.NDArray[np.int64]:
        """Return the event time of each row, or the time of each timer, in ms since the epoch. Raise
        StateAccessError if the stream has no event time."""
        ...

    @property
    def is_late(self) -> npt.NDArray[np.bool_]:
        """Return, for each row, whether the watermark had passed its timestamp before the row. Timers
        are never late."""
        ...

    def __len__(self) -> int: ...

    def __getitem__(self, rows: Which) -> Self:
        """Return the keys of the selected rows."""
        ...

    def rounds(self) -> Iterator[Rows]:
        """Yield arrays of row positions, in which each key occurs at most once.

        An array has at most one row of each key, in order of arrival. So the number of arrays is the
        number of rows of the most frequent key. Use this method if the state of a row depends on the
        earlier rows of its key.
        """
        ...

    def groups(self) -> Groups:
        """Return the rows grouped by key."""
        ...

    def frame(self) -> pl.DataFrame:
        """Return the key columns as a Polars DataFrame, one row for each row of the batch."""
        ...


class BatchColumn(Protocol):
    """One declared state of many keys. If a key occurs several times, only the last write counts, and
    `seen[keys] += 1` adds just one: use `rounds` or `groups`.

    With a time to live, each row accesses state at its own time: values that have expired by then are
    not set."""

    def __getitem__(self, keys: BatchKeys) -> npt.NDArray[Any]:
        """Return the values, or the default for keys without one: int64, float64, bool, or objects for
        strings."""
        ...

    def __setitem__(self, keys: BatchKeys, values: Any) -> None:
        """Set the values: an array with one value per key, or a single value for all."""
        ...

    def is_set(self, keys: BatchKeys) -> npt.NDArray[np.bool_]: ...

    def clear(self, keys: BatchKeys) -> None:
        """Reset the values of the keys to the default."""
        ...


class BatchTimers(Protocol):
    """Timers of many keys. Times are ms since the epoch: an array with one time per key, or a single
    time for all. Registering the same timer twice keeps one."""

    def register(self, keys: BatchKeys, timestamps_ms: Any) -> None:
        """Request a call of `on_timers` once the watermark has passed these times (event time)."""
        ...

    def delete(self, keys: BatchKeys, timestamps_ms: Any) -> None: ...

    def register_processing(self, keys: BatchKeys, timestamps_ms: Any) -> None:
        """Request a call of `on_timers` once the wall clock has passed these times."""
        ...

    def delete_processing(self, keys: BatchKeys, timestamps_ms: Any) -> None: ...


class BatchState(Protocol):
    """The context of `process_batch` and `on_timers`, with an attribute for each declared state."""

    timers: BatchTimers

    @property
    def watermark(self) -> int:
        """Return the watermark before the first row, in ms since the epoch."""
        ...

    @property
    def processing_time(self) -> int:
        """Return the wall-clock time, in ms since the epoch."""
        ...

    def __getattr__(self, name: str) -> BatchColumn: ...


@dataclass(frozen=True)
class Emit(Generic[T]):
    """Output rows: a Polars frame, an Arrow batch or table, or columns by name, as in `rh.Emit({"user":
    ["ada"]})`. `T` is the dataclass of their columns, for annotations such as
    `Iterator[rh.Emit[Alert]]`.

    For each output row, `rows` has the number of its input row (or timer). The output row gets the
    event time of that row. Without `rows`, there must be one output row for each row of the batch, in
    the same order. On a stream without event time, any number of rows is allowed.
    """

    columns: pl.DataFrame | pa.RecordBatch | pa.Table | Mapping[str, Any]
    rows: npt.NDArray[np.integer[Any]] | None = None
    tag: str = MAIN


class KeyedBatchFunction:
    """A function over batches of records, which reads and writes the state of all their keys as arrays.

    State is declared as class attributes: `ValueState` of int, float, bool or str, with a default, and
    with a time to live if it is to expire. Outputs are yielded (or returned in an iterable) as `Emit`.
    Side outputs are declared in `side_outputs` as tag to dataclass. The function must not depend on how
    rows are divided into batches.

    ```python
    class Count(rh.KeyedBatchFunction):
        n = rh.ValueState(int, default=0)

        def process_batch(self, keys, batch: pl.DataFrame, state) -> Iterator[rh.Emit[Counted]]:
            for rows in keys.rounds():
                state.n[keys[rows]] += 1
                yield rh.Emit({"user": batch["user"][rows], "n": state.n[keys[rows]]}, rows)

    events.key_by("user").process(Count())
    ```
    """

    side_outputs: ClassVar[dict[str, type]] = {}
    form: ClassVar[Literal["polars", "arrow"]] = "polars"
    """Type of the batches for `process_batch`: `polars.DataFrame` or `pyarrow.RecordBatch`."""

    def open(self, *args: Any, **kwargs: Any) -> None:
        """Prepare the function. The subtask calls it once, before any batch.

        Define it as `def open(self, ctx: rh.RuntimeContext)` or `def open(self)`.
        """

    def process_batch(
        self, keys: BatchKeys, batch: Any, state: BatchState
    ) -> Iterable[Emit[Any]] | None:
        """Process a batch of records. All timers that were due before its rows have fired.

        Args:
            keys: The key of each row; `state.name[keys]` reads and writes the state of these keys.
            batch: The rows, in the function's `form`: a Polars DataFrame by default.
            state: The context, with an attribute for each declared state.

        Returns:
            Output batches, or None for none. A generator may yield them.
        """
        raise NotImplementedError

    def on_timers(
        self, keys: BatchKeys, timestamps: npt.NDArray[np.int64], state: BatchState
    ) -> Iterable[Emit[Any]] | None:
        """Process timers that are due, in the order of their times.

        Args:
            keys: The key of each timer.
            timestamps: The time of each timer, in ms since the epoch.
            state: The context, with an attribute for each declared state.

        Returns:
            Output batches, or None for none. A generator may yield them.
        """
        return None

    def close(self) -> None:
        """Release what `open` has acquired. The subtask calls it once, at the end."""
