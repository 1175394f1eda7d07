"""Compares the output of a job with that of a changed program: `fork`.

It copies the job's newest checkpoint into memory, and records the subsequent input on tapes. Both
programs, the running one and the changed one, continue from the same checkpoint over the same tapes,
with sinks that only collect. So the difference is exact, whatever the job has read meanwhile. No file
of the job is opened for writing.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

from rheos.connectors.urls import absolute
from rheos.core.checkpoint.checkpoint_copies import CopiedCheckpoint, newest_checkpoint
from rheos.core.checkpoint.upgrade import Upgrade
from rheos.core.errors import ConfigurationError
from rheos.core.protocol.durations import Duration, duration_ms
from rheos.core.protocol.ids import OperatorId
from rheos.core.protocol.state_config import NewAggregates
from rheos.ops.control.started_program import StartedProgram
from rheos.ops.forks.comparison import (
    ComparedProgram,
    ForkResult,
    compare_programs,
    sink_names,
)
from rheos.ops.forks.job_program import JobProgram, job_program, planned, savepoint_of, working_as


def fork(
    job: str,
    program: str | os.PathLike[str],
    *,
    arguments: Sequence[str] | None = None,
    for_: Duration | None = None,
    key: Sequence[str] = (),
    parameters: Mapping[str, str] | None = None,
    against: str | os.PathLike[str] | None = None,
    checkpoint_dir: str | None = None,
    from_savepoint: str | None = None,
    allow_dropped: bool = False,
    new_aggregates: Literal["null", "since"] | None = None,
    renamed: Mapping[str, str] | None = None,
) -> ForkResult:
    """Return how the outputs of a job would differ if it ran another program.

    ```python
    forked = rh.fork("orders", "orders_v2.py", for_="10m")
    print(forked["counts"])  # a Polars DataFrame: a row for each difference
    ```

    The running program and `program` both start from the job's newest checkpoint. They run in this
    process, one after the other, over the same input: up to now, or for the event time in `for_`.
    `fork` collects and compares their output. It does not touch the job's sinks, offsets or
    checkpoints.

    Args:
        job: the id or name of a running job, as in `rheos jobs`, or of a job in `checkpoint_dir`.
        program: the changed program's file.
        arguments: arguments of the changed program; None for those that the job was started with.
        for_: event time to process after the checkpoint in each split, such as "10m". A split that
            does not get that far is read for the same duration in processing time. None: all that the
            sources have now.
        key: the columns by which rows of the two programs are compared. By default, the key of the
            last `key_by` before the sink, with the ends of windows.
        parameters: override those that the job was started with, for the changed program only.
        against: the file of the running program, if the job does not report it.
        checkpoint_dir: the job's checkpoint directory, if the job does not run, or if it reports the
            directory without credentials.
        from_savepoint: the folder of a savepoint of the job to start from, instead of its checkpoint.
        allow_dropped: drop state that does not exist in the changed program.
        new_aggregates: the value of a new aggregate for windows that are open at the checkpoint:
            "null", or "since" for the value of the rows after the checkpoint.
        renamed: new uids of operators, by the uids in the checkpoint.

    Returns:
        The differences, by sink.

    Raises:
        ConfigurationError: The job or checkpoint does not exist, or the input cannot be read alongside
            the job.
        CheckpointError: The checkpoint does not fit the program.
        RheosError: An error of one of the programs.
    """
    found = job_program(job, checkpoint_dir, against)
    running = found.started
    changed = msgspec.structs.replace(
        running,
        file=str(Path(program).absolute()),
        arguments=running.arguments if arguments is None else list(arguments),
        parameters={**running.parameters, **(parameters or {})},
    )
    aggregates = None if new_aggregates is None else NewAggregates(new_aggregates)
    ids = {OperatorId(old): OperatorId(new) for old, new in (renamed or {}).items()}
    upgrade = Upgrade(allow_dropped, aggregates, ids)
    both = plan_fork(found, changed, for_=for_, from_savepoint=from_savepoint, upgrade=upgrade)
    return both.compare(tuple(key))


@dataclass(frozen=True)
class PlannedFork:
    """Two programs that can be compared. Neither has read any input."""

    checkpoint: CopiedCheckpoint
    running: ComparedProgram
    changed: ComparedProgram
    length_ms: int | None
    upgrade: Upgrade

    @property
    def sinks(self) -> frozenset[str]:
        """Names of the sinks of both programs, as in `ForkResult.outputs`."""
        plans = self.running.plan, self.changed.plan
        return frozenset(sink_names(*plans, self.upgrade.renamed).values())

    def compare(self, key: tuple[str, ...] = ()) -> ForkResult:
        """Run both programs. The key and the errors are those of `fork`."""
        return compare_programs(
            self.checkpoint,
            self.running,
            self.changed,
            length_ms=self.length_ms,
            key=key,
            upgrade=self.upgrade,
        )


def plan_fork(
    job: JobProgram,
    changed: StartedProgram,
    *,
    for_: Duration | None,
    from_savepoint: str | None,
    upgrade: Upgrade,
) -> PlannedFork:
    """Copy the checkpoint, and plan the job's program and the changed one.

    Args:
        job: the job and its program.
        changed: the changed program, as it is started.
        for_: event time to process, as in `fork`.
        from_savepoint: folder of a savepoint; None: the newest checkpoint.
        upgrade: treatment of state that does not fit the changed program.

    Raises:
        ConfigurationError: the checkpoint does not exist, or the duration is not positive.
        CheckpointError: the savepoint cannot be read.
        RheosError: an error of one of the programs.
    """
    length_ms = None if for_ is None else duration_ms(for_)
    if length_ms is not None and length_ms <= 0:
        raise ConfigurationError(
            f"the duration of a fork must be greater than 0, not {for_!r}",
            hint='pass a longer one, such as "10m"',
        )
    if from_savepoint is None:
        checkpoint = newest_checkpoint(job.store, job.job)
    else:
        checkpoint = savepoint_of(job.job, absolute(from_savepoint))
    # Relative paths in the programs must mean the same as in the running job.
    with working_as(job.started):
        old, new = (ComparedProgram(planned(one), one) for one in (job.started, changed))
    return PlannedFork(checkpoint, old, new, length_ms, upgrade)
