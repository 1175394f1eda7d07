"""Processor time of the driver of a wide job: reports, heartbeats, checkpoints and new splits.

usage: python -m benchmarks.control_plane [SLOTS ...] [--seconds N] [--rounds N] [--profile]

The master, its coordinator, log and status are the real ones, and so are the frames, their decoding and
the leases of workers. Only the workers are simulated. Each reports the metrics of a slot of
`benchmarks/turn.py`, as often as a slot of such a job does, and sends a heartbeat twice a second. Every
10 s it takes part in a checkpoint and in an announcement of new splits. Messages are spread over time,
as they are in a real job.

The clock is virtual. It moves on by the processor time that the driver takes, and to the next message.
So a driver that is too slow gets more messages at once, as in a real job. Sockets are left out: a frame
of ZeroMQ costs 1 to 3 us more.

By default it measures 100 and 2,000 slots. If the growth of a part is above 1, it grows faster than the
number of slots. Every slot receives the plan, the addresses of all slots, and after a restart the
restored checkpoint. So what all slots receive together grows with the square of the slots. These
messages are measured as they are sent: compressed if they are large. Spark compresses the plan.
"""

from __future__ import annotations

import argparse
import cProfile
import heapq
import pstats
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import count, pairwise
from random import Random
from statistics import median
from unittest.mock import patch

import msgspec
import pyarrow as pa

import rheos as rh
from benchmarks.turn import Slots
from rheos.cli.benchmarks.intervals import MIN_ROUNDS, cell, ratio_cell
from rheos.core.checkpoint.config import CheckpointConfig
from rheos.core.checkpoint.events import AttemptRunning
from rheos.core.checkpoint.log import JobLog
from rheos.core.checkpoint.names import state_path
from rheos.core.checkpoint.savepoint import Restore
from rheos.core.connectors.contract import ReaderContext, Source, Split, SplitReader
from rheos.core.operators.source import SourceSpec
from rheos.core.plan.physical import PhysicalPlan
from rheos.core.protocol import control
from rheos.core.protocol.ids import Attempt, JobId
from rheos.core.protocol.snapshots import PartMode, StateHandle, StateKind
from rheos.core.task.config import TaskConfig
from rheos.core.task.slot import Deployment
from rheos.runtimes.continuous.control import (
    AHEAD,
    FromDriver,
    Heartbeat,
    Join,
    Left,
    RestoreAhead,
    RestoredAhead,
    Welcome,
    body_of,
    framed,
    from_worker,
)
from rheos.runtimes.continuous.leases import Leases
from rheos.runtimes.driver.launcher import LauncherEvent
from rheos.runtimes.driver.master import Master
from rheos.runtimes.host import pickling
from rheos.runtimes.job import JobConfig, JobState
from rheos.runtimes.simulated.clock import SimClock
from rheos.runtimes.simulated.io import SimIo
from rheos.runtimes.simulated.store import MemoryStore

WIDTHS = (100, 2_000)
TARGET_CORES = 0.5
BY_HOST = 16
"""Number of slots on each simulated host."""
INTERVAL_MS = 10_000
"""Between checkpoints, and between announcements of splits."""
HEARTBEAT_US = 500_000
ANSWER_US = 1_000_000
"""Most time that a slot takes for its part of a checkpoint."""
NEW_SPLITS = 100
TOKEN = b"0" * 32
"""Token with the size of a real one."""
JOB = JobId("wide")
SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.float64())])


class GrowingSource(Source):
    """Finds further splits each time it is asked."""

    schema = SCHEMA
    bounded = False
    discovery_ms = INTERVAL_MS

    def __init__(self, splits: int) -> None:
        self._count = splits

    def splits(self) -> Sequence[Split]:
        self._count += NEW_SPLITS
        return [Split(f"orders-{number}") for number in range(self._count)]

    def open(self, split: Split, position: bytes | None, ctx: ReaderContext) -> SplitReader:
        raise NotImplementedError


class Workers:
    """Launcher whose slots only answer, each after some time. It counts what the driver's thread of the
    control channel would do: frames and leases."""

    def __init__(self, plan: PhysicalPlan, sample: control.Progress, clock: SimClock) -> None:
        self._plan = plan
        self._sample = sample
        self._clock = clock
        self._random = Random(1)
        self._order = count()
        self._due: list[tuple[int, int, bytes]] = []
        """Time in us, order, and frame, or nothing for AttemptRunning."""
        self._attempt = Attempt(0)
        self._leases = Leases(10.0)
        self._states = [
            operator.id for operator in plan.operators() if isinstance(operator.spec, SourceSpec)
        ]
        self._all = [operator.id for operator in plan.operators()]
        self._arrived: list[bytes] = []
        self._taken: list[LauncherEvent] = []
        self._report_us = TaskConfig().report_interval_us(plan.parallelism)
        self._reports_us: dict[int, int] = {}
        """Time of the next report, by subtask."""
        self._beat = framed(TOKEN, Heartbeat(Attempt(1)))
        self._sent: list[tuple[control.ToTask, int | None]] = []

    # --- the simulated slots --------------------------------------------------------------------------

    def _later(self, within_us: int, message: control.ToMaster | Heartbeat) -> None:
        at_us = self._clock.monotonic_us() + self._random.randrange(within_us)
        self._put(at_us, framed(TOKEN, message))

    def _put(self, at_us: int, frame: bytes) -> None:
        heapq.heappush(self._due, (at_us, next(self._order), frame))

    def next_us(self) -> int | None:
        """Return the time at which the next message arrives."""
        return self._due[0][0] if self._due else None

    def _begin(self) -> None:
        now_us = self._clock.monotonic_us()
        for subtask in range(self._plan.parallelism):
            self._leases.heard(str(subtask).encode(), now_us / 1e6)
            self._reports_us[subtask] = now_us + self._random.randrange(self._report_us)
            self._put(self._reports_us[subtask], framed(TOKEN, self._report(subtask, 1)))
            self._put(now_us + self._random.randrange(HEARTBEAT_US), self._beat)
            for operator in self._states:
                empty = control.SplitsRead(
                    attempt=self._attempt, subtask=subtask, operator=operator, splits=[]
                )
                self._later(self._report_us, empty)

    def _report(self, subtask: int, number: int) -> control.Progress:
        changed = {
            "attempt": self._attempt,
            "subtask": subtask,
            "step_us": number * self._report_us,
            "busy_us": number * self._report_us // 2,
            "records_in": dict.fromkeys(self._sample.records_in, 1000 * number),
            "records_out": dict.fromkeys(self._sample.records_out, 1000 * number),
        }
        return msgspec.structs.replace(self._sample, **changed)

    def _share(self, subtask: int, trigger: control.TriggerCheckpoint) -> control.Acknowledge:
        handles = [
            StateHandle(
                operator=operator,
                subtask=subtask,
                state="state",
                kind=StateKind.LIST,
                mode=PartMode.FULL,
                size_bytes=1_000_000,
                rows=10_000,
                checksum=subtask,
                path=state_path(JOB, self._attempt, trigger.checkpoint, operator, subtask, "state"),
            )
            for operator in self._all
        ]
        totals = control.Totals(self._sample.records_in, self._sample.records_out)
        return control.Acknowledge(
            attempt=self._attempt,
            subtask=subtask,
            checkpoint=trigger.checkpoint,
            handles=handles,
            committables=[control.CommittableHandle(self._all[-1], b"0" * 64)],
            totals=totals,
        )

    # --- the launcher ---------------------------------------------------------------------------------

    def stage(self) -> str | None:
        return None

    def free_slots(self) -> int:
        return self._plan.parallelism

    def joined(self) -> int:
        return self._plan.parallelism

    def strangers(self) -> int:
        return 0

    def launch(self, attempt: Attempt, restore: Restore | None, parallelism: int) -> None:
        self._attempt = attempt
        self._put(self._clock.monotonic_us(), b"")

    def send(self, message: control.ToTask, subtask: int | None = None) -> None:
        framed(TOKEN, message)
        self._sent.append((message, subtask))

    def prepare_state(self, restore: Restore, parallelism: int) -> None:
        raise AssertionError("no attempt is awaited here")

    def is_prepared(self) -> bool:
        return True

    def stop(self, attempt: Attempt) -> None:
        raise AssertionError("no attempt fails here")

    def poll(self) -> Sequence[LauncherEvent]:
        now_s = self._clock.monotonic_us() / 1e6
        events: list[LauncherEvent] = []
        arrived, self._arrived = self._arrived, []
        for frame in arrived:
            if not frame:
                events.append(AttemptRunning(self._attempt))
                continue
            body = body_of(TOKEN, frame, "a worker")
            assert body is not None
            message = from_worker.decode(body)
            self._leases.heard(str(getattr(message, "subtask", 0)).encode(), now_s)
            if not isinstance(message, Heartbeat | Join | RestoredAhead | Left):
                events.append(message)
        assert not list(self._leases.silent(now_s))
        self._taken = events
        return events

    # --- around a turn of the driver, and not measured ------------------------------------------------

    def deliver(self) -> None:
        """Let the messages arrive that are due."""
        now_us = self._clock.monotonic_us()
        while self._due and self._due[0][0] <= now_us:
            at_us, _, frame = heapq.heappop(self._due)
            self._arrived.append(frame)
            if frame == self._beat:
                self._put(at_us + HEARTBEAT_US, frame)

    def answer(self) -> None:
        """Send what follows from the last turn: the next reports, and the answers of the slots."""
        for event in self._taken:
            if isinstance(event, AttemptRunning):
                self._begin()
            elif isinstance(event, control.Progress):
                number = event.step_us // self._report_us + 1
                self._reports_us[event.subtask] += self._report_us
                report = framed(TOKEN, self._report(event.subtask, number))
                self._put(self._reports_us[event.subtask], report)
        for message, subtask in self._sent:
            everyone = range(self._plan.parallelism) if subtask is None else [subtask]
            for each in everyone:
                if (answer := self._answer(each, message)) is not None:
                    self._later(ANSWER_US, answer)
        self._taken, self._sent = [], []

    def _answer(self, subtask: int, message: control.ToTask) -> control.ToMaster | None:
        match message:
            case control.TriggerCheckpoint():
                return self._share(subtask, message)
            case control.CheckpointComplete(checkpoint=checkpoint):
                return control.Committed(attempt=self._attempt, subtask=subtask, checkpoint=checkpoint)
            case control.SplitsFound(operator=operator, before=before, splits=splits):
                taken = before + len(splits)
                return control.SplitsTaken(
                    attempt=self._attempt, subtask=subtask, operator=operator, taken=taken
                )
            case _:
                return None


def overhead_ns() -> int:
    """Return what reading the processor time costs by itself; it is slow in some sandboxes."""
    reads = [time.process_time_ns() for _ in range(201)]
    return round(median(after - before for before, after in pairwise(reads)))


@dataclass
class Measured:
    """Measurements of one width."""

    slots: int
    seconds: float = 0.0
    """Virtual time."""
    spent_s: float = 0.0
    """Processor time of the driver."""
    steps: int = 0
    sizes: dict[str, int] = field(default_factory=dict)
    """Sizes in bytes, by what has them."""

    @property
    def cores(self) -> float:
        return self.spent_s / self.seconds


class WideJob:
    """The driver of one job, stepped as the continuous runtime does."""

    def __init__(self, slots: int, plan: PhysicalPlan, sample: control.Progress) -> None:
        self.plan = replace(plan, parallelism=slots, max_parallelism=max(plan.max_parallelism, slots))
        self.clock = SimClock()
        self.workers = Workers(self.plan, sample, self.clock)
        self.store = MemoryStore()
        self.io = SimIo(self.clock.monotonic_us, lambda: 1_000)
        self.config = JobConfig(JOB, CheckpointConfig(interval_ms=INTERVAL_MS), checkpoint_dir="DIR")
        self.splits = {
            operator.id: GrowingSource(slots).splits()
            for operator in plan.operators()
            if isinstance(operator.spec, SourceSpec)
        }
        self.master = Master(
            self.plan,
            self.config,
            store=self.store,
            clock=self.clock,
            launcher=self.workers,
            io=self.io,
            listing=self.io,
            splits=self.splits,
            owner="driver",
        )

    def run(self, seconds: float) -> tuple[float, int]:
        """Run for this time. Return the processor time in seconds, and the number of steps."""
        spent_ns, steps, reading_ns = 0, 0, overhead_ns()
        until_us = self.clock.monotonic_us() + int(seconds * 1e6)
        while (now_us := self.clock.monotonic_us()) < until_us:
            self.workers.deliver()
            began_ns = time.process_time_ns()
            self.master.step()
            self.master.status()
            # The driver also does the work of its I/O threads.
            self.io.run_due()
            turn_ns = max(time.process_time_ns() - began_ns - reading_ns, 0)
            spent_ns, steps = spent_ns + turn_ns, steps + 1
            self.clock.advance(turn_ns // 1000)
            self.workers.answer()
            due = [self.workers.next_us(), self.master.next_step_us()]
            soonest_us = min((each for each in due if each is not None), default=until_us)
            soonest_us = max(soonest_us, now_us + self.master.gather_us())
            self.clock.advance(max(min(soonest_us, until_us) - self.clock.monotonic_us(), 0))
        status = self.master.status()
        assert status.state is JobState.RUNNING, status
        return spent_ns / 1e9, steps


def wide_plan(folder: str) -> tuple[PhysicalPlan, control.Progress]:
    """Return a plan, and what a slot of it reports."""
    slots = Slots(64, 2, folder)
    try:
        for _ in range(3):
            slots.turn()
        reports: list[control.Progress] = []
        engine = slots.engines[0]
        with patch.object(engine, "_report", reports.append):
            engine.report_progress()
    finally:
        slots.close()
    env = rh.Environment(2)
    totals = env.from_source(GrowingSource(2)).key_by("k")
    totals.running(count=rh.agg.count(), sum=rh.agg.sum("v")).sink_to(slots.sink)
    plan = env.plan("job")
    known = {operator.id for operator in plan.operators()}
    assert {operator.id for operator in slots.plan.operators()} == known
    return plan, reports[0]


def measure(slots: int, seconds: float, folder: str) -> Measured:
    """Measure a job of this many slots, after the first checkpoint."""
    job = WideJob(slots, *wide_plan(folder))
    job.run(1.2 * INTERVAL_MS / 1000)
    found = Measured(slots, seconds)
    found.spent_s, found.steps = job.run(seconds)
    status, metrics = job.master.status(), job.master.metrics()
    deployment = Deployment(
        plan=job.plan,
        job=JOB,
        writer=JOB,
        attempt=Attempt(1),
        config=TaskConfig(),
        splits=job.splits,
        restore=None,
    )
    checkpoint = JobLog(job.store, JOB).read().completed[-1].entry
    addresses = [f"tcp://10.20.{slot // BY_HOST}.1:{30_000 + slot}" for slot in range(slots)]
    entries = {path: len(data) for path, data in job.store.files.items() if "/log/" in path}
    found.sizes = {
        "plan": len(pickling.pack(deployment, job.plan.operators())),
        "addresses of all slots": _sent(Welcome(Attempt(1), addresses)),
        "restored checkpoint": _sent(RestoreAhead(AHEAD, Restore(entry=checkpoint))),
        "checkpoint manifest": max(entries.values(), default=0),
        "status answer": len(msgspec.json.encode(status)),
        "metrics answer": len(msgspec.json.encode(metrics)),
    }
    return found


def _sent(message: FromDriver) -> int:
    """Return the size of a message that every slot receives."""
    return len(framed(TOKEN, message, to_all=True))


def table(found: Sequence[Sequence[Measured]]) -> str:
    """Return the measurements as Markdown: the rounds of each width, and the growth by slot.

    The growth is the ratio of the last width to the first one, divided by that of the slots.
    """
    first, last = found[0], found[-1]
    wider = last[0].slots / first[0].slots

    def row(name: str, read: Callable[[Measured], float], form: Callable[[float], str]) -> str:
        cells = [cell([read(each) for each in rounds], form) for rounds in found]
        pairs = [(read(b) / wider, read(a)) for a, b in zip(first, last, strict=True)]
        return f"| {name} | {' | '.join(cells)} | {ratio_cell(pairs)} |"

    def size(name: str) -> str:
        cells = [f"{rounds[0].sizes[name]:,}" for rounds in found]
        growth = last[0].sizes[name] / first[0].sizes[name] / wider
        return f"| {name}, bytes | {' | '.join(cells)} | {growth:.2f} |"

    return "\n".join(
        [
            f"| | {' | '.join(f'{rounds[0].slots:,} slots' for rounds in found)} | growth by slot |",
            f"|---|{'---:|' * (len(found) + 1)}",
            row("cores of the driver", lambda each: each.cores, "{:.3f}".format),
            row("steps/s", lambda each: each.steps / each.seconds, "{:,.0f}".format),
            *map(size, first[0].sizes),
        ]
    )


def profiled(slots: int, seconds: float, folder: str) -> None:
    """Print where the time goes."""
    with cProfile.Profile() as profile:
        measure(slots, seconds, folder)
    pstats.Stats(profile).sort_stats("cumtime").print_stats("rheos|msgspec", 45)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("slots", nargs="*", type=int, default=WIDTHS, metavar="SLOTS")
    parser.add_argument("--seconds", type=float, default=10.0, help="virtual time of each run")
    parser.add_argument("--rounds", type=int, default=MIN_ROUNDS)
    parser.add_argument("--profile", action="store_true", help="profile the widest job instead")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rheos-wide-") as folder:
        if given.profile:
            profiled(given.slots[-1], given.seconds, folder)
            return
        found: list[list[Measured]] = [[] for _ in given.slots]
        for number in range(given.rounds):
            runs = list(zip(given.slots, found, strict=True))
            for slots, rounds in runs if number % 2 == 0 else reversed(runs):
                print(f"round {number + 1} of {given.rounds}: {slots} slots", file=sys.stderr)
                rounds.append(measure(slots, given.seconds, folder))
    print(table(found))
    widest = found[-1]
    cores = cell([each.cores for each in widest], "{:.2f}".format)
    print(f"\n{widest[0].slots:,} slots: {cores} cores; the target is under {TARGET_CORES:g}")


if __name__ == "__main__":
    main()
