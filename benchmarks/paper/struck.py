"""A job between topics that is struck while a producer goes on: then all of it has to come out.

The producer is a process of its own, with a record of its own. When the strikes are over it is asked to
end (SIGTERM), writes its record, and the job goes on until everything in it has come out.
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

from rheos.testing.chaos import Fault, Plan, Report, run

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
        producer: its command. It writes its record, as JSON, when it is asked to end.
        record: where that is.
        is_out: asked once the record is there: whether the job has brought all of it out.
        quiet: called once, when the strikes are over.

    Raises RuntimeError where the producer leaves no record.
    """
    producing = subprocess.Popen(producer)
    drain = _Drain(producing, record, is_out, quiet)
    plan = Plan(
        [sys.executable, "-m", "rheos", "run", *job],
        faults=strikes.faults,
        kill_every_s=strikes.every_s or 10 * strikes.for_s,
        for_s=strikes.for_s,
        seed=strikes.seed,
        drained=drain.is_over,
    )
    began_s = time.time()
    try:
        report = run(plan, log=lambda line: print(line, file=sys.stderr, flush=True))
    finally:
        if producing.poll() is None:
            producing.kill()
        producing.wait()
    if drain.record is None:
        raise RuntimeError(
            f"the producer has left no record (exit code {producing.returncode}), and the job: "
            f"{report.failure or 'sound'}"
        )
    return Struck(report, began_s, drain.record)


class _Drain:
    def __init__(
        self,
        producing: subprocess.Popen[bytes],
        record: Path,
        is_out: Callable[[Record], bool],
        quiet: Callable[[], None],
    ) -> None:
        self.record: Record | None = None
        self._producing = producing
        self._path = record
        self._is_out = is_out
        self._quiet = quiet
        self._until_s: float | None = None

    def is_over(self) -> bool:
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
