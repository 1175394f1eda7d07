"""A job between topics that is struck while a producer goes on: then all of it has to come out.

The producer is a process of its own, with a record of its own, and begins when the job runs. When the
strikes are over it is asked to end (SIGTERM), writes its record, and the job goes on until everything
in it has come out.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.paper.clock import ClockWatch
from rheos.ops.chaos import Fault, Plan, Report, run

_DRAIN_WITHIN_S = 180.0
"""How long it may take to come out once the strikes are over."""

Record = dict[str, Any]


@dataclass(frozen=True)
class Strikes:
    """What is done to the job."""

    for_s: float
    every_s: float | None
    """None leaves it alone."""
    faults: frozenset[Fault] = frozenset({Fault.WORKERS})
    seed: int = 0


@dataclass(frozen=True)
class Struck:
    report: Report
    began_s: float
    """The wall-clock time from which the report counts."""
    began_up_s: float
    """The same by the machine's monotonic clock."""
    clock_moved_ms: int
    """See `ClockWatch`."""
    record: Record
    """The producer's own."""


def strike(
    job: Sequence[str],
    producer: Sequence[str],
    record: Path,
    strikes: Strikes,
    is_out: Callable[[Record], bool],
    quiet: Callable[[], None] = lambda: None,
) -> Struck:
    """Starts both and strikes at the job's processes.

    Args:
        job: the arguments of `rheos run`.
        producer: its command. It says a line when it begins, and writes its record, as JSON, when it is
            asked to end.
        record: where that is.
        is_out: asked once the record is there: whether the job has brought all of it out.
        quiet: called once, when the strikes are over.

    Raises RuntimeError where the producer leaves no record.
    """
    produced = Produced(producer, record, is_out, quiet)
    plan = Plan(
        [sys.executable, "-m", "rheos", "run", *job],
        faults=strikes.faults,
        kill_every_s=strikes.every_s or 10 * strikes.for_s,
        for_s=strikes.for_s,
        seed=strikes.seed,
        runs=produced.begin,
        drained=produced.is_over,
    )
    clock, began_s, began_up_s = ClockWatch(), time.time(), time.monotonic()
    try:
        report = run(plan, log=lambda line: print(line, file=sys.stderr, flush=True))
    finally:
        produced.end()
    if produced.record is None:
        raise RuntimeError(f"the producer has left no record; the job: {report.failure or 'sound'}")
    return Struck(report, began_s, began_up_s, clock.moved_ms(), produced.record)


class Produced:
    """A producer, and whether all that it has sent has come out."""

    def __init__(
        self,
        producer: Sequence[str],
        record: Path,
        is_out: Callable[[Record], bool],
        quiet: Callable[[], None] = lambda: None,
    ) -> None:
        self.record: Record | None = None
        self._producer = producer
        self._producing: subprocess.Popen[bytes] | None = None
        self._path = record
        self._is_out = is_out
        self._quiet = quiet
        self._until_s: float | None = None

    def begin(self) -> None:
        """Returns when it produces: before, it may not yet know what to do when it is asked to end."""
        self._producing = subprocess.Popen(self._producer, stdout=subprocess.PIPE)
        assert self._producing.stdout is not None
        self._producing.stdout.readline()

    def end(self) -> None:
        if self._producing is not None and self._producing.poll() is None:
            self._producing.kill()
            self._producing.wait()
        if self._producing is not None and self._producing.stdout is not None:
            self._producing.stdout.close()

    def is_over(self) -> bool:
        """Asks the producer to end when it is called first; to be called again until it is true."""
        assert self._producing is not None, "it begins when the job runs"
        if self._until_s is None:
            self._quiet()
            self._until_s = time.monotonic() + _DRAIN_WITHIN_S
            self._producing.send_signal(signal.SIGTERM)
        if self.record is None and self._producing.poll() is not None:
            if self._producing.returncode != 0:
                return True
            self.record = json.loads(self._path.read_text())
        if time.monotonic() > self._until_s:
            return True
        return self.record is not None and self._is_out(self.record)
