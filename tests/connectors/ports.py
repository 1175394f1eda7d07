"""Clock, I/O executors and helpers to drive sources and sinks by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pyarrow as pa

from rheos.core.connectors.contract import (
    EndOfSplit,
    Pending,
    ReaderContext,
    SinkContext,
    Source,
    Split,
    SplitReader,
)
from rheos.core.protocol.elements import Batch
from rheos.core.protocol.ids import Attempt, JobId

T = TypeVar("T")


class ManualClock:
    def __init__(self) -> None:
        self.us = 5_000_000
        self.jump_ms = 0
        """Time by which the wall clock was set."""

    def now_ms(self) -> int:
        return self.now_ns() // 1_000_000

    def now_ns(self) -> int:
        return 1_700_000_000_000_000_000 + self.us * 1000 + self.jump_ms * 1_000_000

    def monotonic_us(self) -> int:
        return self.us


class Work:
    """Work that runs when the test requests it."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self._work = work
        self._done = False
        self._value: Any = None
        self._error: Exception | None = None

    def run(self) -> None:
        if not self._done:
            self._done = True
            try:
                self._value = self._work()
            except Exception as error:
                self._error = error

    def done(self) -> bool:
        return self._done

    def result(self) -> Any:
        if self._error is not None:
            raise self._error
        return self._value


class InlineIo:
    def submit(self, work: Callable[[], T]) -> Any:
        completion = Work(work)
        completion.run()
        return completion

    def wake(self) -> None:
        pass


class HeldIo:
    """Executor that runs nothing until `run`."""

    def __init__(self) -> None:
        self.held: list[Work] = []
        self.woken = 0

    def submit(self, work: Callable[[], T]) -> Any:
        self.held.append(Work(work))
        return self.held[-1]

    def wake(self) -> None:
        self.woken += 1

    def run(self) -> None:
        held, self.held = self.held, []
        for work in held:
            work.run()


@dataclass
class Probe:
    """Reader context that records calls."""

    clock: ManualClock = field(default_factory=ManualClock)
    io: Any = field(default_factory=InlineIo)
    counts: dict[str, int] = field(default_factory=dict)
    rejected: list[dict[str, Any]] = field(default_factory=list)

    def context(self) -> ReaderContext:
        return ReaderContext(self.clock, self.io, self._count, self._reject, self.io.wake)

    def _reject(self, batch: Batch) -> None:
        self.rejected += batch.to_pylist()

    def _count(self, name: str, by: int) -> None:
        self.counts[name] = self.counts.get(name, 0) + by


def read(reader: SplitReader, max_rows: int = 1000, limit: int | None = None) -> list[dict[str, Any]]:
    """Return the rows of a reader to its end, or the first `limit`."""
    rows: list[dict[str, Any]] = []
    while limit is None or len(rows) < limit:
        polled = reader.poll(max_rows if limit is None else min(max_rows, limit - len(rows)))
        if isinstance(polled, EndOfSplit):
            break
        assert isinstance(polled, pa.RecordBatch), polled
        assert 0 < polled.num_rows <= max_rows
        rows += polled.to_pylist()
    return rows


def read_all(source: Source, probe: Probe | None = None, max_rows: int = 1000) -> list[dict[str, Any]]:
    ctx = (probe or Probe()).context()
    rows = []
    for split in source.splits():
        reader = source.open(split, None, ctx)
        rows += read(reader, max_rows)
        reader.close()
    return rows


def assert_resumes_everywhere(source: Source, split: Split, max_rows: int = 3) -> None:
    """Check for every n that a reader opened at the position after n rows returns exactly the rest, and
    rejected rows once."""
    whole = Probe()
    rows = read(source.open(split, None, whole.context()))
    for n in range(len(rows) + 1):
        probe = Probe()
        first = source.open(split, None, probe.context())
        head = read(first, max_rows, limit=n)
        position = first.position()
        first.close()
        second = source.open(split, position, probe.context())
        tail = read(second, max_rows)
        second.close()
        assert head + tail == rows, n
        assert probe.rejected == whole.rejected
        assert probe.counts == whole.counts


def pending_us(polled: object) -> int | None:
    assert isinstance(polled, Pending), polled
    return polled.wake_after_us


def sink_context(
    schema: pa.Schema, *, subtask: int = 0, attempt: int = 1, job: str = "job"
) -> SinkContext:
    return SinkContext(JobId(job), Attempt(attempt), "sink", subtask, ManualClock(), InlineIo(), schema)


def batch_of(schema: pa.Schema, *rows: dict[str, Any]) -> Batch:
    return pa.RecordBatch.from_pylist(list(rows), schema=schema)
