"""Cost of a small batch on its whole way, from the poll of a source to the sink after a count.

usage: turn.py [ROWS ...] [--slots N] [--pause-ms N] [--form FORM] [--profile]

The engines of a job's slots run in this process, one after the other, over real Unix sockets. The
benchmark advances their clock. In each turn every source emits ROWS rows (1, 8 and 64 by default), and
all engines are stepped until nothing is left to do, as their loops would. The benchmark prints the
processor time of a turn of one slot in microseconds, as the median of many pieces. `--profile` prints
the functions that take most of it.

The benchmark alternates between pieces in pure Python and native ones, and prints the ratio of both
forms with its interval. `--form` measures one of them.

With `--pause-ms` the process sleeps before each turn, as slots do at low rates: then caches and the
processor are cold, and the same work costs more.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from statistics import median
from typing import Any

import pyarrow as pa

import rheos as rh
from rheos.cli.benchmarks.generated_rows import Measurements
from rheos.cli.benchmarks.intervals import ratio_cell
from rheos.connectors.generator import generator
from rheos.connectors.source_wrapper import WrappedReader, WrappedSource
from rheos.core.connectors.contract import (
    Pending,
    Polled,
    ReaderContext,
    Sink,
    SinkContext,
    SinkWriter,
    Split,
)
from rheos.core.connectors.contract import SplitReader as Reader
from rheos.core.native import library
from rheos.core.protocol.elements import Batch
from rheos.core.protocol.ids import Attempt, CheckpointId, JobId
from rheos.core.protocol.ports import Clock
from rheos.core.task.config import TaskConfig
from rheos.core.task.engine import SubtaskEngine
from rheos.core.task.slot import Deployment, open_slot
from rheos.runtimes.continuous.local_transport import LocalTransport
from rheos.runtimes.driver.sources_and_sinks import enumerate_splits
from rheos.runtimes.host import native_library
from rheos.runtimes.simulated.clock import SimClock
from rheos.runtimes.simulated.io import SimIo
from rheos.runtimes.simulated.store import MemoryStore, StoreFolder

KEYS = 256
TURN_US = 1_000
"""How far the clock moves with each turn: beyond the interval at which a source is polled."""
PIECE = 100
PIECES = 9


class _Few(WrappedReader):
    """Gives so many rows once in a turn."""

    def __init__(self, reader: Reader, rows: int, clock: Clock) -> None:
        super().__init__(reader)
        self._rows = rows
        self._clock = clock
        self._gave_us = -1

    def poll(self, max_rows: int) -> Polled:
        now_us = self._clock.monotonic_us()
        if now_us == self._gave_us:
            return Pending(None)
        self._gave_us = now_us
        return self._reader.poll(self._rows)


@dataclass(frozen=True, eq=False)
class FewRows(WrappedSource):
    rows: int

    def open(self, split: Split, position: bytes | None, ctx: ReaderContext) -> Reader:
        return _Few(super().open(split, position, ctx), self.rows, ctx.clock)


class Nowhere(Sink, SinkWriter):
    """Counts what comes to it."""

    came = 0

    def open(self, ctx: SinkContext) -> SinkWriter:
        return self

    def write(self, batch: Batch) -> None:
        self.came += batch.num_rows

    def prepare(self, checkpoint: CheckpointId) -> list[bytes]:
        return []

    def close(self) -> None:
        pass

    def describe(self) -> str:
        return "nowhere"


class Slots:
    """A job's slots, which one thread steps."""

    def __init__(self, rows: int, slots: int, folder: str) -> None:
        self.clock = SimClock()
        source = FewRows(
            generator(
                Measurements(KEYS),
                splits=slots,
                schema=pa.schema([("k", pa.int64()), ("v", pa.float64())]),
            ),
            rows,
        )
        self.sink = Nowhere()
        env = rh.Environment(slots)
        totals = env.from_source(source).key_by("k")
        totals.running(count=rh.agg.count(), sum=rh.agg.sum("v")).sink_to(self.sink)
        plan = self.plan = replace(env.plan("job"), parallelism=slots)
        deployment = Deployment(
            plan=plan,
            job=JobId("job"),
            writer=JobId("job"),
            attempt=Attempt(1),
            config=TaskConfig(buffer_timeout_us=0),
            splits=enumerate_splits(plan),
            restore=None,
        )
        self.transports = self.connected(slots, folder)
        store = MemoryStore()
        self.engines: list[SubtaskEngine] = [
            open_slot(
                deployment,
                subtask,
                store=store,
                open_store=partial(StoreFolder, store),
                transport=transport,
                clock=self.clock,
                io=SimIo(self.clock.monotonic_us, lambda: 1),
                report=lambda message: None,
            )
            for subtask, transport in enumerate(self.transports)
        ]

    def connected(self, slots: int, folder: str) -> Sequence[Any]:
        """Return the transports of all slots, connected with each other."""
        transports = [
            LocalTransport(
                attempt=Attempt(1),
                subtask=subtask,
                token=b"0123456789abcdef",
                schemas=self.plan.edge_schemas(),
                initial_credits=TaskConfig.credits,
                parallelism=slots,
                path=f"{folder}/{subtask}",
            )
            for subtask in range(slots)
        ]
        for transport in transports:
            transport.connect([each.address for each in transports])
        return transports

    def turn(self) -> None:
        """All there is to do by this time, as each slot's loop would: a step that finds nothing more,
        and a wait, after those that work."""
        self.clock.advance(TURN_US)
        busy = True
        while busy:
            busy = False
            for engine, transport in zip(self.engines, self.transports, strict=True):
                step = engine.step()
                busy |= step.worked
                while step.wake_after_us is None:
                    step = engine.step()
                transport.wait(0)

    def steps(self, count: int) -> int:
        """So many steps of each slot, as at full load: there is always more to do. Gives how many rows
        have come to the sinks."""
        before = self.sink.came
        for _ in range(count):
            self.clock.advance(TURN_US)
            for engine, transport in zip(self.engines, self.transports, strict=True):
                engine.step()
                transport.wait(0)
        return self.sink.came - before

    def close(self) -> None:
        for engine in self.engines:
            engine.close()
        for transport in self.transports:
            transport.close()


class Form(Enum):
    """Form in which small batches are processed."""

    PYTHON = "pure Python"
    NATIVE = "native"

    def kernels(self) -> library.Kernels | None:
        return None if self is Form.PYTHON else native_library.compile_now()


def measured(
    rows: int, slots: int, pause_ms: float, forms: Sequence[Form], profile: cProfile.Profile | None
) -> dict[Form, list[float]]:
    """Return the microseconds of a turn of one slot, in each piece. Pieces of the forms alternate."""
    piece, pieces = (PIECE, PIECES) if not pause_ms else (1, PIECE)
    spent: dict[Form, list[float]] = {form: [] for form in forms}
    kernels = {form: form.kernels() for form in forms}
    with ExitStack() as open_slots:
        prefix = "rheos-turn-"
        folders = [open_slots.enter_context(tempfile.TemporaryDirectory(prefix=prefix)) for _ in forms]
        of_form = {
            form: Slots(rows, slots, folder) for form, folder in zip(forms, folders, strict=True)
        }
        for form, all_slots in of_form.items():
            open_slots.callback(all_slots.close)
            library.use(kernels[form])
            for _ in range(2 * PIECE):
                all_slots.turn()
        if profile is not None:
            profile.enable()
        for _ in range(pieces):
            for form, all_slots in of_form.items():
                library.use(kernels[form])
                time.sleep(pause_ms / 1000)
                began = time.process_time_ns()
                for _ in range(piece):
                    all_slots.turn()
                spent[form].append((time.process_time_ns() - began) / 1000 / piece / slots)
        if profile is not None:
            profile.disable()
    return spent


def main(
    sizes: Sequence[int], slots: int, pause_ms: float, forms: Sequence[Form], profiled: bool
) -> None:
    pa.set_cpu_count(1)
    profile = cProfile.Profile() if profiled else None
    for rows in sizes:
        spent = measured(rows, slots, pause_ms, forms, profile)
        for form, times in spent.items():
            turn_us = f"{median(times):8.1f} us a turn of a slot, {form.value}"
            print(f"{rows:>6} rows, {slots} slots: {turn_us}")
        if len(spent) > 1:
            pairs = list(zip(spent[Form.NATIVE], spent[Form.PYTHON], strict=True))
            print(f"{rows:>6} rows, {slots} slots: {ratio_cell(pairs)} of pure Python, native")
    if profile is not None:
        pstats.Stats(profile).sort_stats("tottime").print_stats(50)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("rows", nargs="*", type=int, default=[1, 8, 64])
    parser.add_argument("--slots", type=int, default=2)
    parser.add_argument("--pause-ms", type=float, default=0.0)
    parser.add_argument("--form", choices=[form.value for form in Form])
    parser.add_argument("--profile", action="store_true")
    given = parser.parse_args()
    forms = list(Form) if given.form is None else [Form(given.form)]
    main(given.rows or [1, 8, 64], given.slots, given.pause_ms, forms, given.profile)
