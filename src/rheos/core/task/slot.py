"""Opens a slot: the engine of one subtask of every chain, with its initial state.

Every host of slots calls it: the worker of a Spark stage, the simulated worker, and the tests.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from rheos.core.checkpoint.restored_state import RestoredByOperator, restored_state
from rheos.core.checkpoint.resumed_chains import resumable_chains
from rheos.core.checkpoint.savepoint import Restore
from rheos.core.checkpoint.snapshot_writer import INLINE_BYTES, SnapshotWriter
from rheos.core.connectors.contract import Split
from rheos.core.operators.shapes import state_shapes
from rheos.core.plan.physical import PhysicalPlan
from rheos.core.protocol import control
from rheos.core.protocol.ids import Attempt, JobId, OperatorId
from rheos.core.protocol.ports import Clock, Store, TaskIo, ThreadTimes, Transport
from rheos.core.protocol.state_config import StateConfig
from rheos.core.state import format as state_format
from rheos.core.task.config import TaskConfig
from rheos.core.task.contexts import OperatorContexts
from rheos.core.task.engine import Assignment, SubtaskEngine
from rheos.core.task.prepared_slot import PreparedSlot, TakenState
from rheos.core.task.slot_metrics import ProcessReadings


@dataclass(frozen=True)
class Deployment:
    """The data that all slots of an attempt share, whichever process hosts them. Picklable."""

    plan: PhysicalPlan
    job: JobId
    writer: JobId
    """Id by which sinks know the job."""
    attempt: Attempt
    config: TaskConfig
    splits: Mapping[OperatorId, Sequence[Split]]
    """All splits of every source."""
    restore: Restore | None
    """Checkpoint that the attempt restores; None if it begins empty."""
    state: StateConfig = field(default_factory=StateConfig)


def prepare_slot(
    deployment: Deployment, subtask: int, store: Store, clock: Clock, io: TaskIo
) -> PreparedSlot:
    """Return a slot that restores checkpoints ahead of an attempt. `deployment` has the parallelism of
    that attempt. Its operators are made, and not opened."""
    plan = deployment.plan
    contexts = OperatorContexts(
        job=deployment.writer,
        attempt=deployment.attempt,
        max_parallelism=plan.max_parallelism,
        clock=clock,
        io=io,
        batch_rows=deployment.config.batch_rows,
        subtask=subtask,
        state=deployment.state,
        program=plan.context,
    )
    return PreparedSlot(plan, contexts, store, subtask)


def open_slot(
    deployment: Deployment,
    subtask: int,
    *,
    store: Store,
    open_store: Callable[[str], Store],
    transport: Transport,
    clock: Clock,
    io: TaskIo,
    report: Callable[[control.ToMaster], None],
    scratch: str | None = None,
    inline_bytes: int = INLINE_BYTES,
    process: ProcessReadings = list,
    thread: ThreadTimes = lambda: None,
    processor_ns: Callable[[], int] | None = None,
    works_for: Callable[[Callable[[], OperatorId | None]], None] = lambda at_work: None,
    prepared: PreparedSlot | None = None,
) -> SubtaskEngine:
    """Return the engine, ready for its first step. Raise RheosError; then nothing is left open.

    `store` is the store of the job's checkpoint directory. `open_store` opens the folder of a
    savepoint, and may be called on the I/O executor. `report` receives the messages for the master.
    `scratch` is a local folder of this slot alone, which need not exist yet; None if there is no disk.
    State of up to `inline_bytes` is stored in the log itself. `process` reads the metrics of the
    hosting process, and `thread` the processor time of this thread. `processor_ns` reads it more
    precisely, in ns, to compare the forms of functions. `works_for` is called first, with a
    function that returns the operator for which this thread is working. `prepared` has state that was
    restored ahead; the attempt takes it.
    """
    snapshots = SnapshotWriter(
        deployment.job, deployment.attempt, subtask, store, io, state_format.encode, inline_bytes
    )
    restored: RestoredByOperator = {}
    restore = deployment.restore
    taken = TakenState({}, {}) if prepared is None else prepared.take(restore)
    if restore is not None:
        home = store
        plan, parallelism = deployment.plan, deployment.plan.parallelism
        chains = resumable_chains(restore, subtask, parallelism, plan.widths())
        if restore.origin is None:
            snapshots.adopt(restore.entry.handles, chains)
        else:
            home = open_store(restore.origin.directory)
        restored = restored_state(
            restore.entry,
            subtask,
            parallelism,
            home,
            state_format.decode,
            plan.widths(),
            chains,
            taken.applied,
            taken.read_ahead,
            state_shapes(plan.operators()),
        )
    engine = SubtaskEngine(
        deployment.plan,
        Assignment(
            deployment.writer,
            deployment.attempt,
            subtask,
            deployment.splits,
            restored,
            deployment.state,
            scratch,
            taken.states,
        ),
        deployment.config,
        transport=transport,
        clock=clock,
        io=io,
        snapshots=snapshots,
        report=report,
        open_store=open_store,
        process=process,
        thread=thread,
        processor_ns=processor_ns,
    )
    works_for(engine.at_work)
    try:
        engine.open()
    except BaseException:
        with contextlib.suppress(Exception):
            engine.close()
        raise
    return engine
