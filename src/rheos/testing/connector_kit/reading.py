"""A reader of one split that a test drives: time is virtual, and I/O runs in the call that requests
it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

import pyarrow as pa

from rheos.core.connectors import capabilities
from rheos.core.connectors.contract import (
    EndOfSplit,
    Pending,
    ReaderContext,
    Source,
    Split,
    TimeReached,
)
from rheos.core.protocol.elements import Batch
from rheos.core.protocol.ports import Completion
from rheos.runtimes.host.io import InlineIo
from rheos.runtimes.simulated.clock import SimClock
from rheos.testing.connector_kit.rules import broken

T = TypeVar("T")

WOKEN = "a reader that returns Pending is polled again at the time it names, or when it is woken"
GIVES = "poll returns a batch, Pending, TimeReached or EndOfSplit"
BOUNDED = "poll returns at most max_rows rows"
OF_SCHEMA = "rows have the source's schema"
_NAP_S = 0.001


class SplitReading:
    """A reader, and the context that a subtask would pass to it. The caller must close it."""

    def __init__(
        self,
        source: Source,
        split: Split,
        position: bytes | None,
        patience_s: float,
        *,
        io_fails: bool = False,
    ) -> None:
        self.rejected: list[dict[str, Any]] = []
        self._schema = source.schema
        self._split = split
        self._patience_s = patience_s
        self._clock = SimClock()
        self._woken = threading.Event()
        io = _Io(self._woken.set, io_fails)
        ctx = ReaderContext(self._clock, io, lambda name, by: None, self._reject, self._woken.set)
        self._client = ctx.client = capabilities.shared_client(source, ctx)
        try:
            self.reader = source.open(split, position, ctx)
        except BaseException:
            if self._client is not None:
                self._client.close()
            raise
        self._rows_by_s = time.monotonic() + patience_s

    def poll(self, max_rows: int, *, until_now: bool = False) -> Batch | EndOfSplit:
        """Poll the reader until it returns rows or the end of its split, check the result, and return
        it. A reader that must stop the job is at its end. So is one that has caught up, if
        `until_now`."""
        while True:
            self._woken.clear()
            polled = self.reader.poll(max_rows)
            match polled:
                case EndOfSplit():
                    return polled
                case Pending() if until_now and capabilities.has_caught_up(self.reader):
                    return EndOfSplit()
                case Pending() if capabilities.stop_reason(self.reader) is not None:
                    return EndOfSplit()
                case Pending(wake_after_us):
                    self._wait(wake_after_us)
                case TimeReached():
                    self._wait(0)
                case pa.RecordBatch():
                    self._check(polled, max_rows)
                    if polled.num_rows:
                        self._rows_by_s = time.monotonic() + self._patience_s
                    elif time.monotonic() > self._rows_by_s:
                        broken(WOKEN, f"split {self._split.id!r} returns only empty batches")
                    return polled
                case _:
                    broken(GIVES, f"split {self._split.id!r} has returned {polled!r}")

    def close(self) -> None:
        try:
            self.reader.close()
        finally:
            if self._client is not None:
                self._client.close()

    def __enter__(self) -> SplitReading:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def _wait(self, wake_after_us: int | None) -> None:
        left_s = self._rows_by_s - time.monotonic()
        if wake_after_us is not None:
            self._clock.advance(wake_after_us)
        # What a thread of the connector's own does takes real time.
        woken = self._woken.wait(max(left_s, 0) if wake_after_us is None else _NAP_S)
        if left_s <= 0 or (wake_after_us is None and not woken):
            broken(WOKEN, f"split {self._split.id!r} has returned nothing for {self._patience_s:g} s")

    def _check(self, batch: Batch, max_rows: int) -> None:
        if batch.num_rows > max_rows:
            broken(
                BOUNDED,
                f"split {self._split.id!r} has returned {batch.num_rows} rows for max_rows={max_rows}",
            )
        if not batch.schema.equals(self._schema):
            broken(
                OF_SCHEMA,
                f"split {self._split.id!r} has returned {_words(batch.schema)}, but the source "
                f"declares {_words(self._schema)}",
            )

    def _reject(self, batch: Batch) -> None:
        self.rejected += batch.to_pylist()


def _words(schema: pa.Schema) -> str:
    return ", ".join(
        f"{field.name}: {field.type}{'' if field.nullable else ' not null'}" for field in schema
    )


class _Io(InlineIo):
    def __init__(self, woken: Callable[[], None], fails: bool) -> None:
        self._woken = woken
        self._fails = fails

    def submit(self, work: Callable[[], T]) -> Completion[T]:
        self._woken()
        return super().submit(_failing if self._fails else work)

    def wake(self) -> None:
        self._woken()


def _failing() -> Any:
    raise OSError("the connector kit makes this I/O fail")
