"""Soak test: one job with state of every kind, at full load for a long time, checked every minute.

Running totals of many keys, windows that are written to files, and a Python function with timers read
one stream. The rate must stay the same. The memory of workers and driver must not grow, and neither
must the duration of checkpoints and the size of the checkpoint directory. At the end the published
windows are counted: each key must occur once, and no row may be lost or duplicated.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import msgspec
import polars as pl
import psutil
import pyarrow as pa

from rheos.api.environment import Environment
from rheos.cli.benchmarks.driver import start_of_rows
from rheos.cli.benchmarks.measured_connectors import SINK, MeasuringSink
from rheos.cli.benchmarks.recorder import SLICE_NS, NewSlices, Slice, cpu_share, memory_mib
from rheos.connectors import files
from rheos.connectors.generator import Block, generator
from rheos.core import aggregates as agg
from rheos.core.errors import JobFailedError
from rheos.core.graph.functions import KeyedContext, KeyedProcessFunction
from rheos.core.graph.state import ValueState
from rheos.core.graph.watermark import Watermark
from rheos.core.graph.windows import Tumbling
from rheos.core.protocol.state_config import StateConfig
from rheos.runtimes.job import JobState
from rheos.runtimes.job_handle import JobHandle

ROWS_PER_MS = 1000
"""Rows of a split per millisecond of event time, at full load."""

WINDOW_MS = 60_000
SINCE = "t"

_SCHEMA = pa.schema(
    [pa.field("k", pa.int64(), False), pa.field("v", pa.float64(), False), ("at", pa.timestamp("ms"))]
)
_BURST = pa.schema([("k", pa.int64()), ("events", pa.int64())])
_ENDED = (JobState.FAILED, JobState.CANCELLED, JobState.STOPPED, JobState.FINISHED)


@dataclass(frozen=True)
class SoakSettings:
    minutes: int
    parallelism: int
    keys: int = 100_000
    checkpoint_interval: str = "5s"
    state: StateConfig = field(default_factory=StateConfig)
    rate_per_s: float | None = None
    """Rows per second in each subtask; None for the maximum."""

    @property
    def rows_per_ms(self) -> int:
        """Return a split's rows per millisecond of event time. At a given rate, event time advances
        like the wall clock."""
        return ROWS_PER_MS if self.rate_per_s is None else max(round(self.rate_per_s / 1000), 1)


class Minute(msgspec.Struct, frozen=True):
    """Measurements of one minute."""

    number: int
    """Number of the minute, from 1."""
    records_per_s: float
    cpu_share: float
    """Average share of a core that a worker used."""
    worker_mib: float
    """Memory of the largest worker."""
    driver_mib: float
    checkpoint_bytes: int
    """Size of the newest checkpoint."""
    written_bytes: int
    """Bytes of the newest checkpoint that were newly written."""
    checkpoint_ms: int
    sync_ms: float
    """Time for which the newest checkpoint blocked processing."""
    directory_bytes: int
    """Size of the checkpoint directory."""
    checkpoints: int
    """Checkpoints completed since the start."""
    failed: int
    restarts: int
    handles: int
    """Open file handles of the driver, its JVM and the workers."""
    threads: int
    """Number of threads of the same processes."""


class PublishedWindows(msgspec.Struct, frozen=True):
    """Windows that the sink published."""

    windows: int
    rows: int
    wrong: int
    """Number of windows whose row count differs from the number of rows that the source generated."""
    doubled: int
    """Number of keys that occur more than once in a window."""


@dataclass(frozen=True)
class SoakResult:
    settings: SoakSettings
    minutes: list[Minute]
    published: PublishedWindows

    def problems(self) -> list[str]:
        return problems(self.minutes, self.published)


@dataclass(frozen=True)
class _Rows:
    """Generator of random keys and values. Event time advances by a millisecond every `per_ms` rows."""

    keys: int
    per_ms: int

    def __call__(self, block: Block) -> dict[str, Any]:
        rng = block.rng()
        return {
            "k": rng.integers(0, self.keys, block.rows),
            "v": rng.random(block.rows),
            "at": (block.index() // self.per_ms).astype("datetime64[ms]"),
        }


class _Bursts(KeyedProcessFunction):
    """Counts a key's events until ten seconds after the first, then forgets it."""

    events = ValueState(int, default=0)

    def process_element(self, row: Any, ctx: KeyedContext) -> None:
        if not self.events.value:
            assert ctx.timestamp is not None
            ctx.timers.register(ctx.timestamp + 10_000)
        self.events.value += 1

    def on_timer(self, timestamp: int, ctx: KeyedContext) -> Iterator[dict[str, int]]:
        yield {"k": ctx.key, "events": self.events.value}
        self.events.clear()


def _build(env: Environment, settings: SoakSettings, folder: Path) -> None:
    rate = settings.rate_per_s
    made = generator(
        _Rows(settings.keys, settings.rows_per_ms),
        splits=settings.parallelism,
        schema=_SCHEMA,
        due_column=SINCE,
        rate_per_s=None if rate is None else rate * settings.parallelism,
    )
    rows = env.from_source(
        made,
        watermark=Watermark.bounded_out_of_orderness("0s", on="at"),
        name="rows",
    )
    keyed = rows.key_by("k")
    keyed.running(count=agg.count(), sum=agg.sum("v")).name("running totals").sink_to(
        MeasuringSink(str(folder / "measures"), since=SINCE), name="count"
    )
    windows = keyed.window(Tumbling(f"{WINDOW_MS}ms")).aggregate(rows=agg.count(), sum=agg.sum("v"))
    windows.name("windows").sink_to(
        files.sink(folder / "windows", format="parquet"), name="windows out"
    )
    few = rows.filter(pl.col("k") < max(settings.keys // 100, 1)).key_by("k")
    bursts = few.process(_Bursts(), returns=_BURST).name("bursts")
    bursts.sink_to(files.sink(folder / "bursts", format="parquet"), name="bursts out")


def run(
    settings: SoakSettings, progress: Callable[[str], None], each: Callable[[Minute], None]
) -> SoakResult:
    """Run the soak test. `progress` is called with the current phase, and `each` at the end of each
    minute. Raises the errors of the job."""
    with tempfile.TemporaryDirectory(prefix="rheos-soak-") as name:
        folder = Path(name)
        (folder / "measures").mkdir()
        env = Environment(
            parallelism=settings.parallelism,
            runtime="continuous",
            checkpoint_dir=folder / "checkpoints",
            checkpoint_interval=settings.checkpoint_interval,
            state=settings.state,
        )
        _build(env, settings, folder)
        progress("starting Spark")
        handle = env.execute_async("soak")
        try:
            first = start_of_rows(handle, str(folder / "measures"), SINK, settings.parallelism)
            minutes = _watch(handle, settings, folder, first, progress, each)
        finally:
            handle.cancel()
        in_a_ms = settings.parallelism * settings.rows_per_ms
        return SoakResult(settings, minutes, count_published(folder / "windows", in_a_ms))


def _watch(
    handle: JobHandle,
    settings: SoakSettings,
    folder: Path,
    first: int,
    progress: Callable[[str], None],
    each: Callable[[Minute], None],
) -> list[Minute]:
    slices_per_minute = 60 * 1_000_000_000 // SLICE_NS
    minutes: list[Minute] = []
    recorded = NewSlices(str(folder / "measures"), SINK)
    waiting: dict[str, list[Slice]] = {}
    for number in range(1, settings.minutes + 1):
        begin = first + (number - 1) * slices_per_minute
        end = begin + slices_per_minute
        while (left_s := (end * SLICE_NS - time.time_ns()) / 1e9) > -1.5:
            progress(f"minute {number} of {settings.minutes}, {max(left_s, 0):.0f} s remaining")
            time.sleep(min(1.0, max(left_s + 1.5, 0.01)))
            if handle.status().state in _ENDED:
                handle.wait()
                raise JobFailedError("the job ended before the soak test did")
        for recorder, slices in recorded.take().items():
            waiting.setdefault(recorder, []).extend(slices)
        seen = [[part for part in slices if begin <= part.number < end] for slices in waiting.values()]
        for slices in waiting.values():
            slices[:] = [part for part in slices if part.number >= end]
        minutes.append(_minute(handle, folder, number, seen))
        each(minutes[-1])
    return minutes


def _minute(handle: JobHandle, folder: Path, number: int, seen: Sequence[Sequence[Slice]]) -> Minute:
    """Return the measurements of a minute. `seen` has the slices of each recorder."""
    status, checkpoints = handle.status(), handle.checkpoints()
    newest = checkpoints[-1] if checkpoints else None
    return Minute(
        number=number,
        records_per_s=sum(part.rows for slices in seen for part in slices) / 60,
        cpu_share=cpu_share(seen),
        worker_mib=max((part.rss_mib for slices in seen for part in slices), default=0.0),
        driver_mib=round(memory_mib(), 1),
        checkpoint_bytes=newest.state_bytes if newest else 0,
        written_bytes=newest.cost.written_bytes if newest else 0,
        checkpoint_ms=newest.duration_ms if newest else 0,
        sync_ms=newest.cost.sync_us / 1000 if newest else 0.0,
        directory_bytes=_size(folder / "checkpoints"),
        checkpoints=status.checkpoints_completed,
        failed=status.checkpoints_failed,
        restarts=status.restarts,
        handles=_sum_of_processes(lambda process: process.num_fds()),
        threads=_sum_of_processes(lambda process: process.num_threads()),
    )


def _sum_of_processes(of: Callable[[psutil.Process], int]) -> int:
    driver = psutil.Process()
    total = 0
    for process in (driver, *driver.children(recursive=True)):
        with contextlib.suppress(psutil.Error):  # The process may have ended by now.
            total += of(process)
    return total


def _size(folder: Path) -> int:
    total = 0
    for path, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.stat(os.path.join(path, name)).st_size
            except FileNotFoundError:
                continue  # The file was removed by retention.
    return total


def count_published(folder: Path, rows_per_ms: int) -> PublishedWindows:
    """Count the windows in the sink's folder. `rows_per_ms` is the sum over all splits."""
    if not any(folder.glob("**/*.parquet")):
        return PublishedWindows(0, 0, 0, 0)
    rows = pl.scan_parquet(folder / "**/*.parquet").select("k", "window_start", "rows").collect()
    whole = rows_per_ms * WINDOW_MS
    windows = rows.group_by("window_start").agg(
        pl.col("rows").sum().alias("total"), (pl.len() - pl.col("k").n_unique()).alias("doubled")
    )
    return PublishedWindows(
        windows=windows.height,
        rows=int(rows["rows"].sum()),
        wrong=int((windows["total"] != whole).sum()),
        doubled=int(windows["doubled"].sum()),
    )


_SLOWER = 0.9
_GROWTH = 1.1
_GROWTH_MIB = 24.0
"""Growth in MiB that is attributed to allocators, and not reported."""
_GROWTH_COUNT = 10
"""Growth in handles or threads that is attributed to pools that fill, and not reported."""


def problems(minutes: Sequence[Minute], published: PublishedWindows) -> list[str]:
    """Return descriptions of the failed checks. They compare the last third of the minutes with the
    first, after one minute of warm-up.

    The rate is measured per second of the workers' processor time, so that other load on the machine
    has no influence.
    """
    found = []
    if published.doubled or published.wrong:
        found.append(
            f"{published.wrong} of {published.windows} windows have other rows than were "
            f"generated, and {published.doubled} keys were published twice"
        )
    if minutes and minutes[-1].failed:
        found.append(f"{minutes[-1].failed} checkpoints failed")
    if minutes and minutes[-1].restarts:
        found.append(f"the job was restarted {minutes[-1].restarts} times")
    steady = list(minutes[1:])
    third = len(steady) // 3
    if not third:
        return found
    before, after = steady[:third], steady[-third:]

    def medians(of: Callable[[Minute], float]) -> tuple[float, float]:
        return median(map(of, before)), median(map(of, after))

    was, is_now = medians(lambda minute: minute.records_per_s / max(minute.cpu_share, 0.01))
    if is_now < was * _SLOWER:
        found.append(f"the rate fell from {was:,.0f} to {is_now:,.0f} records per CPU second")
    for what, of in (
        ("the memory of a worker", lambda minute: minute.worker_mib),
        ("the memory of the driver", lambda minute: minute.driver_mib),
        ("a checkpoint", lambda minute: minute.checkpoint_bytes / 2**20),
        ("the checkpoint directory", lambda minute: minute.directory_bytes / 2**20),
    ):
        was, is_now = medians(of)
        if is_now > max(was * _GROWTH, was + _GROWTH_MIB):
            found.append(f"{what} grew from {was:,.0f} to {is_now:,.0f} MiB")
    for what, of in (
        ("open file handles", lambda minute: minute.handles),
        ("threads", lambda minute: minute.threads),
    ):
        was, is_now = medians(of)
        if is_now > max(was * _GROWTH, was + _GROWTH_COUNT):
            found.append(f"the number of {what} grew from {was:,.0f} to {is_now:,.0f}")
    return found
