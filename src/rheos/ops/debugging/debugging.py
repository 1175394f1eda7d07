"""Copies one key of a job into this process, and replays it: `debug`.

It copies the job's checkpoint, as far as the key's operator and the operators upstream of it need it.
It records the subsequent input on tapes, as `fork` does. The upstream operators run over the tapes, and
everything that arrives at the key's operator for the key is recorded. Then that operator alone is
called, with the state of the key, as often as the caller requests. No file of the job is opened for
writing.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rheos.core.checkpoint.checkpoint_copies import CopiedCheckpoint, kept_checkpoint
from rheos.core.checkpoint.restored_state import RestoredByOperator
from rheos.core.errors import ConfigurationError, Site
from rheos.core.operators.contract import Restored
from rheos.core.operators.source_split import SPLITS
from rheos.core.plan.physical import PhysicalPlan
from rheos.core.protocol.elements import TS
from rheos.core.protocol.ids import JobId, OperatorId
from rheos.core.protocol.snapshots import IN_FLIGHT
from rheos.core.state.timers import TIMERS
from rheos.ops.control.started_program import StartedProgram
from rheos.ops.debugging.call_watcher import ReplayStoppedError
from rheos.ops.debugging.debugged_key import KeyOfOperator, chosen
from rheos.ops.debugging.deliveries import DeliveredBatch, delivered
from rheos.ops.debugging.key_filter import ahead_of
from rheos.ops.debugging.key_replay import DebugStep, KeyReplay, ReplayListener, watched_core
from rheos.ops.debugging.key_state import KeyState, StateChange, changes
from rheos.ops.debugging.replica import KeyBeginning, Replica, key_beginning
from rheos.ops.forks.bounded_reading import Positions
from rheos.ops.forks.input import state_of
from rheos.ops.forks.job_program import job_program, planned, working_as
from rheos.ops.forks.recording import record
from rheos.ops.forks.reservations import Reservation, reservations
from rheos.ops.forks.tape import Beginning, Tape, state_backend
from rheos.runtimes.driver.sources_and_sinks import sources
from rheos.runtimes.host.scratch import OwnedFolder
from rheos.runtimes.state_tables.entry_layouts import PROCESSING_DOMAIN


@dataclass
class Debugged:
    """One key of a job, to be replayed: `rh.debug`. Each iteration over it replays the key from the
    checkpoint again."""

    job: JobId
    operator: str
    """Id of the operator."""
    name: str
    site: Site
    """The operator's line in the program."""
    key: Mapping[str, Any]
    """Values of the key by column."""
    checkpoint: int
    until: int | None
    """Number of the checkpoint up to which input was read; None: all input at that time."""
    rows_read: Mapping[str, int]
    """Number of rows read from each source, by its name."""
    rows: int
    """Number of rows that arrived at the operator for the key."""
    state: KeyState
    """State of the key in the checkpoint."""
    inputs: int
    """Number of inputs of the operator."""
    calls: bool
    """Whether it calls a function for each row and timer, which a debugger can step into."""
    unread: list[str]
    """States of the operator that cannot be shown, with the reasons."""
    reservations: list[Reservation]
    """Reasons why the replay may differ from the job."""
    clock_ms: int
    """Wall-clock time that functions see: the time at which the checkpoint was completed."""
    clock_off_ms: int | None
    """Time by which the clock of the job may have been later; None if it is unknown."""
    deviation: tuple[StateChange, ...] | None = None
    """Difference between the replayed state, `before`, and that of the checkpoint `until`, `after`;
    empty if the replay equals the job. None before a replay has ended, and if there is nothing to
    compare."""
    clock_timers_ms: tuple[int, ...] = ()
    """Processing-time timers of the key at the end of the last replay. In a replay they do not fire."""
    origin: _Origin = field(repr=False, kw_only=True)
    """The parts of a replay."""

    def __iter__(self) -> Iterator[DebugStep]:
        """Yield the steps. Stop early if the user quits the debugger within the function."""
        with contextlib.suppress(ReplayStoppedError):
            yield from self.steps()

    def steps(self, listener: ReplayListener | None = None) -> Iterator[DebugStep]:
        """Yield the steps of the key, from the checkpoint on.

        An error of the function is part of the last step.

        Args:
            listener: Notified before and after each call of the function.

        Yields:
            The steps.

        Raises:
            ReplayStoppedError: The replay cannot continue, for example because an operator upstream
                failed.
        """
        origin = self.origin
        with working_as(origin.started):
            replica = Replica(origin.keyed, origin.plan, origin.begins)
            steps = KeyReplay(replica, origin.delivered, listener or ReplayListener()).steps()
        failed = False
        try:
            while True:
                # The caller stays in its own folder between steps.
                with working_as(origin.started):
                    step = next(steps, None)
                if step is None:
                    break
                failed = step.error is not None
                yield step
            if not failed:
                with working_as(origin.started):
                    self._compare(replica)
        finally:
            replica.close()

    def _compare(self, replica: Replica) -> None:
        state, end = replica.state(), self.origin.end
        self.clock_timers_ms = _by_clock(state)
        if end is None or _has_in_flight(end, self.origin.keyed):
            return
        origin = self.origin
        with_end = Replica(origin.keyed, origin.plan, key_beginning(origin.keyed, origin.plan, end))
        try:
            self.deviation = changes(state, with_end.state())
        finally:
            with_end.close()


@dataclass(frozen=True)
class _Origin:
    started: StartedProgram
    plan: PhysicalPlan
    keyed: KeyOfOperator
    begins: KeyBeginning
    end: CopiedCheckpoint | None
    delivered: DeliveredBatch


def debug(
    job: str,
    key: Any,
    *,
    operator: str | None = None,
    from_checkpoint: int | None = None,
    until: int | None = None,
    against: str | os.PathLike[str] | None = None,
    checkpoint_dir: str | None = None,
) -> Debugged:
    """Open one key of a job, to replay it step by step under a debugger.

    ```python
    for step in rh.debug("orders", "ada", checkpoint_dir="checkpoints"):
        print(step.kind.value, step.row, step.changes, step.out)
    ```

    The state of the key comes from a checkpoint, and its rows since then from the sources. The
    functions are the program's own: `breakpoint()` in one of them stops there. The job is not affected.

    Args:
        job: The id or name of a running job, as in `rheos jobs`, or of a job in `checkpoint_dir`.
        key: Its value, or the value as a string; for several columns, a dict of these. None: all rows
            of an operator without keys, which must be named.
        operator: The id or name of the keyed operator, if the key fits several.
        from_checkpoint: The number of a checkpoint that the job keeps, as in `rheos checkpoints`; None:
            the newest.
        until: The number of a later one, up to which input is read; None: all that exists now.
        against: The file of the running program, if the job does not report it.
        checkpoint_dir: The job's checkpoint directory, if the job does not run, or if it reports the
            directory without credentials.

    Returns:
        The key's replay; iterate over it for its steps.

    Raises:
        ConfigurationError: The job, checkpoint, operator or key does not exist, or the input cannot be
            read a second time.
        CheckpointError: The checkpoint does not fit the program.
    """
    found = job_program(job, checkpoint_dir, against)
    with working_as(found.started):
        plan = planned(found.started)
        keyed = chosen(plan, operator, key)
        before = ahead_of(plan, keyed.planned)
        own = keyed.planned.id
        begin = kept_checkpoint(found.store, found.job, from_checkpoint, {own, *before})
        end = None
        if until is not None:
            end = kept_checkpoint(found.store, found.job, until, {own, *before})
            _check_order(begin, end)
        came, tapes = _delivered(found.job, plan, keyed, before, begin, end)
        begins = key_beginning(keyed, plan, begin)
        replica = Replica(keyed, plan, begins)
        state = replica.state()
        replica.close()
        if not state and not came.rows:
            raise ConfigurationError(
                f"unknown key {_text(keyed)}: checkpoint {_number(begin)} has no state of it, "
                "and no row of it was read afterwards",
                site=keyed.planned.site,
                operator=keyed.planned.name,
                hint="check its spelling, and that its rows were not late or filtered out upstream; "
                "an earlier checkpoint for --from reads more input",
            )
        splits = sum(len(tape.splits) for tape in tapes.values())
        concerned = [each for each in plan.operators() if each.id in before or each.id == own]
        completed_ms = begin.savepoint.entry.completed_ms
        return Debugged(
            job=found.job,
            operator=own,
            name=keyed.planned.name,
            site=keyed.planned.site,
            key=keyed.values,
            checkpoint=_number(begin),
            until=None if end is None else _number(end),
            rows_read={each.name: tapes[each.id].rows for each in concerned if each.id in tapes},
            rows=came.rows,
            state=state,
            inputs=len(keyed.planned.ports),
            calls=watched_core(replica.operator) is not None,
            unread=replica.unread,
            reservations=[
                *reservations(concerned, splits),
                *_rhythm(keyed, splits),
                *(_in_flight(end, keyed) if end is not None else ()),
            ],
            clock_ms=completed_ms,
            clock_off_ms=None if end is None else end.savepoint.entry.completed_ms - completed_ms,
            origin=_Origin(found.started, plan, keyed, begins, end, came),
        )


def _number(checkpoint: CopiedCheckpoint) -> int:
    return checkpoint.savepoint.entry.checkpoint


def _text(keyed: KeyOfOperator) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in keyed.values.items())


def _check_order(begin: CopiedCheckpoint, end: CopiedCheckpoint) -> None:
    if _number(end) <= _number(begin):
        raise ConfigurationError(
            f"checkpoint {_number(end)} is not after checkpoint {_number(begin)}",
            hint="pass --from an earlier checkpoint than --until",
        )


def _delivered(
    job: JobId,
    plan: PhysicalPlan,
    keyed: KeyOfOperator,
    before: Collection[OperatorId],
    begin: CopiedCheckpoint,
    end: CopiedCheckpoint | None,
) -> tuple[DeliveredBatch, dict[OperatorId, Tape]]:
    """Return what arrives at the operator, and the tapes of the sources upstream of it. The files of
    the tapes are removed; their descriptions remain."""
    state = state_of(begin)
    later = {} if end is None else state_of(end)
    tapes: dict[OperatorId, Tape] = {}
    with contextlib.closing(OwnedFolder("rheos-debug-")) as owned:
        folder = owned.path
        for number, (each, _) in enumerate(sources(plan)):
            if each.id in before:
                place = Path(folder, str(number))
                place.mkdir()
                known = later.get(each.id, {})
                extent = None if end is None else Positions.of_state(_number(end), known)
                restored = state.get(each.id, {})
                tape = record(each, restored, place, extent, plan.max_parallelism)
                if extent is not None:
                    # Splits that were discovered later would hold the watermark back.
                    there = {*extent.splits, *_splits(restored)}
                    tape = Tape(tuple(taped for taped in tape.splits if taped.split.id in there))
                tapes[each.id] = tape
        begun = {id: _splits_with_position(state.get(id, {})) for id in tapes}
        beginning = Beginning(
            _state_before(state, keyed, before), state_backend(begin), owned.path + "/state"
        )
        return delivered(job, plan, keyed, beginning, tapes, begun), tapes


def _splits(restored: Restored) -> dict[str, bytes | None]:
    """Return the positions of the splits that a source knows, by their ids."""
    rows = [row for table in restored.get(SPLITS, ()) for row in table.to_pylist()]
    return {row["split"]: row["position"] for row in rows}


def _splits_with_position(restored: Restored) -> set[str]:
    return {id for id, position in _splits(restored).items() if position is not None}


def _state_before(
    state: RestoredByOperator, keyed: KeyOfOperator, before: Collection[OperatorId]
) -> RestoredByOperator:
    """Return the state of the upstream operators, and the rows in flight to the operator itself."""
    own = state.get(keyed.planned.id, {})
    in_flight = {name: of for name, of in own.items() if name.startswith(IN_FLIGHT)}
    return {keyed.planned.id: in_flight, **{id: state[id] for id in before if id in state}}


def _rhythm(keyed: KeyOfOperator, splits: int) -> Iterator[Reservation]:
    if splits > 1 and any(TS in port.schema.names for port in keyed.planned.ports):
        yield Reservation(
            keyed.planned.name,
            keyed.planned.site,
            f"in the job, {splits} splits may have interleaved differently: event-time timers "
            "and windows may fire between other rows",
        )


def _has_in_flight(checkpoint: CopiedCheckpoint, keyed: KeyOfOperator) -> bool:
    return any(
        handle.operator == keyed.planned.id and handle.state.startswith(IN_FLIGHT) and handle.rows
        for handle in checkpoint.savepoint.entry.handles
    )


def _in_flight(checkpoint: CopiedCheckpoint, keyed: KeyOfOperator) -> Iterator[Reservation]:
    if _has_in_flight(checkpoint, keyed):
        yield Reservation(
            keyed.planned.name,
            keyed.planned.site,
            f"checkpoint {_number(checkpoint)} overtook rows that were in flight to it: the "
            "replay processes them, but its state excludes them, so the two are not compared",
        )


def _by_clock(state: KeyState) -> tuple[int, ...]:
    rows = state[TIMERS].rows if TIMERS in state else ()
    due = (row["timestamp_ms"] for row in rows if row.get("domain") == PROCESSING_DOMAIN)
    return tuple(sorted(due))
