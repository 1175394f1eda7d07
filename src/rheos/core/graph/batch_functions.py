"""Keyed functions of whole batches, and what these are handed: keys, state and timers as arrays."""

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
"""Positions in a batch."""
Which: TypeAlias = npt.NDArray[np.bool_] | npt.NDArray[np.integer[Any]] | slice
"""Some rows: a mask, or positions."""


class Groups(NamedTuple):
    """The rows of a batch, brought together by key. `rows` are their positions: those of a key follow
    each other, in the order of arrival. `starts` says where in `rows` each key begins."""

    rows: Rows
    starts: Rows


class BatchKeys(Protocol):
    """The key of each row. It is what state is read and written at: `state.seen[keys]`."""

    @property
    def timestamps(self) -> npt.NDArray[np.int64]:
        """The event time of each row, or the time of each timer, in ms since the epoch. Raises
        StateAccessError where the stream has no event time."""
        ...

    def __len__(self) -> int: ...

    def __getitem__(self, rows: Which) -> Self:
        """The keys of some of the rows."""
        ...

    def rounds(self) -> Iterator[Rows]:
        """Positions of rows, in rounds: in each round every key comes once at the most, and its rows
        come in the order of arrival from round to round. There are as many rounds as the most frequent
        key has rows."""
        ...

    def groups(self) -> Groups:
        """The rows by key."""
        ...

    def frame(self) -> pl.DataFrame:
        """The key columns, by row."""
        ...


class BatchColumn(Protocol):
    """One declared state of many keys. Where a key comes several times, the last of what is written
    counts, and `seen[keys] += 1` adds one: take rounds, or groups.

    With a time to live each row is a call at its own time: what is gone by then is not set."""

    def __getitem__(self, keys: BatchKeys) -> npt.NDArray[Any]:
        """Return the values, or the default for keys without one: int64, float64, bool, or objects for
        strings."""
        ...

    def __setitem__(self, keys: BatchKeys, values: Any) -> None:
        """Set the values: an array of as many, or one for all."""
        ...

    def is_set(self, keys: BatchKeys) -> npt.NDArray[np.bool_]: ...

    def clear(self, keys: BatchKeys) -> None:
        """Forget the values: they are the default again."""
        ...


class BatchTimers(Protocol):
    """Timers of many keys. Times are ms since the epoch: an array of as many, or one for all.
    Registering one twice keeps one."""

    def register(self, keys: BatchKeys, timestamps_ms: Any) -> None:
        """Has `on_timers` called once the watermark has passed these times (event time)."""
        ...

    def delete(self, keys: BatchKeys, timestamps_ms: Any) -> None: ...

    def register_processing(self, keys: BatchKeys, timestamps_ms: Any) -> None:
        """Has `on_timers` called once the wall clock has passed these times."""
        ...

    def delete_processing(self, keys: BatchKeys, timestamps_ms: Any) -> None: ...


class BatchState(Protocol):
    """The context of `process_batch` and `on_timers`. It has an attribute for each declared state."""

    timers: BatchTimers

    @property
    def watermark(self) -> int:
        """The watermark before the first row, in ms since the epoch."""
        ...

    @property
    def processing_time(self) -> int:
        """The wall clock, in ms since the epoch."""
        ...

    def __getattr__(self, name: str) -> BatchColumn: ...


@dataclass(frozen=True)
class Emit(Generic[T]):
    """Output rows: a Polars frame, an Arrow batch or table, or columns by name. `T` is the dataclass of
    their columns, for annotations such as `Iterator[rh.Emit[Alert]]`.

    `rows` has, for each output row, the number of the input row (or timer) that it originates from,
    which determines its event time. Without `rows`, there must be one output row for each row of the
    batch, in its order; on a stream without event time, any number."""

    columns: pl.DataFrame | pa.RecordBatch | pa.Table | Mapping[str, Any]
    rows: npt.NDArray[np.integer[Any]] | None = None
    tag: str = MAIN


class KeyedBatchFunction:
    """A function over batches of records, which reads and writes the state of all their keys as arrays.

    State is declared as class attributes: `ValueState` of int, float, bool or str, with a default, and
    with a time to live if it is to expire.
    Outputs are yielded (or returned in an iterable) as `Emit`; side outputs are declared in
    `side_outputs` as tag to dataclass. How rows are cut into batches is not for the function to rely
    on.
    """

    side_outputs: ClassVar[dict[str, type]] = {}
    form: ClassVar[Literal["polars", "arrow"]] = "polars"
    """Type of the batches that `process_batch` receives: `polars.DataFrame` or
    `pyarrow.RecordBatch`."""

    def open(self, *args: Any, **kwargs: Any) -> None:
        """Called once in each subtask, before any batch: `def open(self, ctx: rh.RuntimeContext)`, or
        `def open(self)`."""

    def process_batch(
        self, keys: BatchKeys, batch: Any, state: BatchState
    ) -> Iterable[Emit[Any]] | None:
        """Called for every batch, which comes in the function's `form`. No timer that was registered
        before is due before its rows."""
        raise NotImplementedError

    def on_timers(
        self, keys: BatchKeys, timestamps: npt.NDArray[np.int64], state: BatchState
    ) -> Iterable[Emit[Any]] | None:
        """Called when timers are due, with the key and the time of each, in the order of time."""
        return None

    def close(self) -> None:
        """Called once, at the end."""
