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

    def __len__(self) -> int: ...

    def __getitem__(self, rows: Which) -> Self:
        """Return the keys of the selected rows."""
        ...

    def rounds(self) -> Iterator[Rows]:
        """Yield positions of rows in rounds. Each round has every key at most once, and the rows of a
        key are in the order of arrival from round to round. The most frequent key determines the number
        of rounds."""
        ...

    def groups(self) -> Groups:
        """Return the rows grouped by key."""
        ...

    def frame(self) -> pl.DataFrame:
        """Return the key columns, one row per row of the batch."""
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
        """Reset the values to the default."""
        ...


class BatchTimers(Protocol):
    """Timers of many keys. Times are ms since the epoch: an array with one time per key, or a single
    time for all. Registering the same timer twice keeps one."""

    def register(self, keys: BatchKeys, timestamps_ms: Any) -> None:
        """Call `on_timers` once the watermark has passed these times (event time)."""
        ...

    def delete(self, keys: BatchKeys, timestamps_ms: Any) -> None: ...

    def register_processing(self, keys: BatchKeys, timestamps_ms: Any) -> None:
        """Call `on_timers` once the wall clock has passed these times."""
        ...

    def delete_processing(self, keys: BatchKeys, timestamps_ms: Any) -> None: ...


class BatchState(Protocol):
    """The context of `process_batch` and `on_timers`. It has an attribute for each declared state."""

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
    """Output rows: a Polars frame, an Arrow batch or table, or columns by name. `T` is the dataclass of
    their columns, for annotations such as `Iterator[rh.Emit[Alert]]`.

    For each output row, `rows` has the number of the input row (or timer) that it originates from; this
    determines its event time. Without `rows`, there must be one output row for each row of the batch,
    in the same order. On a stream without event time, any number of rows is allowed."""

    columns: pl.DataFrame | pa.RecordBatch | pa.Table | Mapping[str, Any]
    rows: npt.NDArray[np.integer[Any]] | None = None
    tag: str = MAIN


class KeyedBatchFunction:
    """A function over batches of records, which reads and writes the state of all their keys as arrays.

    State is declared as class attributes: `ValueState` of int, float, bool or str, with a default, and
    with a time to live if it is to expire. Outputs are yielded (or returned in an iterable) as `Emit`.
    Side outputs are declared in `side_outputs` as tag to dataclass. The function must not depend on how
    rows are divided into batches.
    """

    side_outputs: ClassVar[dict[str, type]] = {}
    form: ClassVar[Literal["polars", "arrow"]] = "polars"
    """Type of the batches that `process_batch` receives: `polars.DataFrame` or
    `pyarrow.RecordBatch`."""

    def open(self, *args: Any, **kwargs: Any) -> None:
        """Prepare the function. Called once in each subtask, before any batch: `def open(self, ctx:
        rh.RuntimeContext)`, or `def open(self)`."""

    def process_batch(
        self, keys: BatchKeys, batch: Any, state: BatchState
    ) -> Iterable[Emit[Any]] | None:
        """Process a batch, which has the function's `form`. No timer that was registered before is due
        before its rows."""
        raise NotImplementedError

    def on_timers(
        self, keys: BatchKeys, timestamps: npt.NDArray[np.int64], state: BatchState
    ) -> Iterable[Emit[Any]] | None:
        """Handle due timers. They are passed in the order of time, with their keys."""
        return None

    def close(self) -> None:
        """Release resources. Called once, at the end."""
