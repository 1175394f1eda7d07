"""Breaks the engine in one way after the other, and reports how many random worlds notice.

    python -m tests.simulation.mutations [--seeds 40] [--enough 2] [NAME ...]

A mutation that few worlds notice shows that the simulation is blind there. Each mutation breaks one
promise of the engine with the smallest possible change. It is tried in worlds of the climate in
which it would show, if there is one, otherwise in any. After `--enough` worlds have noticed, the
next mutation follows. The command fails if none of `--seeds` worlds notices a mutation.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np

from rheos.connectors.generator import GeneratorSource
from rheos.core.checkpoint import log, log_compaction, next_attempt, restored_state
from rheos.core.checkpoint.checkpointing import Checkpointing
from rheos.core.checkpoint.events import SendToAll, SweepFiles
from rheos.core.checkpoint.log import JobLog
from rheos.core.checkpoint.log_entries import CheckpointCompleted
from rheos.core.checkpoint.open_checkpoints import OpenCheckpoints
from rheos.core.checkpoint.publishing import Publishing
from rheos.core.checkpoint.retention import ExpiredFiles, Retention
from rheos.core.checkpoint.savepoint_requests import SavepointRequests
from rheos.core.checkpoint.snapshot_writer import SnapshotWriter
from rheos.core.checkpoint.source_phases import SourcePhases
from rheos.core.checkpoint.split_discovery import SplitDiscovery
from rheos.core.errors import CheckpointError, unexpected
from rheos.core.operators.process import ProcessOperator
from rheos.core.operators.reduce import ReduceOperator
from rheos.core.operators.running import RunningOperator
from rheos.core.operators.source import SourceOperator
from rheos.core.protocol.control import Acknowledge, CheckpointComplete
from rheos.core.protocol.snapshots import PartMode, StateKind
from rheos.core.state.columnar.column_table import ColumnTable
from rheos.core.state.columnar.expiring import ExpiringColumn
from rheos.core.task import checkpoints, inputs
from rheos.core.task.commits import Committing
from rheos.core.task.loop_end import LoopHead
from rheos.core.task.outputs import OutputEdge
from rheos.core.task.watermarks import WatermarkMerger
from rheos.runtimes.driver import publications, sources_and_sinks
from rheos.runtimes.driver.master import Master
from tests.worlds.compiled_program import COMPILED
from tests.worlds.expiring_programs import EXPIRING
from tests.worlds.loop_programs import MEETING, WALKING
from tests.worlds.programs import CheckedProgram
from tests.worlds.window_programs import TRIGGERED
from tests.worlds.worlds import Climate, draw_world

Function = Callable[..., Any]
Patch = tuple[object, str, Callable[[Function], Function]]
"""Where it is, its name there, and what makes the broken one of the right one."""


def _alignment_off(right: Function) -> Function:
    def broken(self: Any, channels: Any, *args: Any, **kwargs: Any) -> None:
        """Run the body with this defect in the engine."""
        right(self, channels, *args, **{**kwargs, "blocking": False})

    return broken


def _commit_before_log(right: Function) -> Function:
    def broken(self: Any, checkpoint: Any, *args: Any) -> None:
        right(self, checkpoint, *args)
        self.complete(checkpoint)

    return broken


def _committables_not_carried(right: Function) -> Function:
    def broken(self: Any, up_to: Any) -> Any:
        return list(self._staged.get(up_to, ()))

    return broken


def _position_ahead(right: Function) -> Function:
    def broken(self: Any, *args: Any) -> Any:
        reader = right(self, *args)
        at = reader.position
        reader.position = lambda: msgspec.msgpack.encode(msgspec.msgpack.decode(at()) + 1)
        return reader

    return broken


def _position_behind(right: Function) -> Function:
    def broken(self: Any, *args: Any) -> Any:
        reader = right(self, *args)
        at = reader.position
        reader.position = lambda: msgspec.msgpack.encode(max(msgspec.msgpack.decode(at()) - 1, 0))
        return reader

    return broken


def _without_state(*names: str) -> Callable[[Function], Function]:
    def mutation(right: Function) -> Function:
        def broken(self: Any, checkpoint: Any, snapshots: Any, *args: Any, **kwargs: Any) -> Any:
            for _, snapshot in snapshots:
                snapshot.parts = [part for part in snapshot.parts if part.state not in names]
            return right(self, checkpoint, snapshots, *args, **kwargs)

        return broken

    return mutation


def _deltas_skipped(right: Function) -> Function:
    def broken(entry: CheckpointCompleted, *args: Any) -> Any:
        whole = [share for share in right(entry, *args) if share.handle.mode is not PartMode.DELTA]
        return whole

    return broken


def _nothing(right: Function) -> Function:
    return lambda *args, **kwargs: None


def _always(right: Function) -> Function:
    return lambda *args, **kwargs: True


def _never(right: Function) -> Function:
    return lambda *args, **kwargs: False


def _not_staged_when_given_up(right: Function) -> Function:
    def broken(self: Any, checkpoint: Any) -> None:
        for taken in self._gathering[checkpoint]:
            for _, snapshot in taken.snapshots:
                snapshot.committables = []
        right(self, checkpoint)

    return broken


def _recorded_rows_lost(right: Function) -> Function:
    def broken(self: Any, checkpoint: Any) -> Any:
        recording = right(self, checkpoint)
        recording.batches.clear()
        return recording

    return broken


def _overtaken_rows_lost(right: Function) -> Function:
    def broken(self: Any, barrier: Any) -> list[Any]:
        right(self, barrier)
        return []

    return broken


def _recorded_twice(right: Function) -> Function:
    def broken(self: Any, checkpoint: Any) -> Any:
        recording = right(self, checkpoint)
        recording.batches += recording.batches
        return recording

    return broken


def _savepoint_of_changes(right: Function) -> Function:
    def broken(self: Any, snapshot: Any) -> Any:
        return [replace(part, mode=PartMode.FULL) for part in snapshot.parts]

    return broken


def _manifest_at_once(right: Function) -> Function:
    def broken(self: Any, open: Any, entry: Any) -> Any:
        return [*right(self, open, entry), *self.committed(entry.checkpoint)]

    return broken


def _from_nothing(right: Function) -> Function:
    return lambda view, from_savepoint: None


def _always_from_savepoint(right: Function) -> Function:
    return lambda view, from_savepoint: from_savepoint


def _goes_on_after_stop(right: Function) -> Function:
    return property(lambda self: False)  # type: ignore[return-value]


def _never_fenced(right: Function) -> Function:
    def broken(self: Any, number: int, entry: Any) -> bool:
        right(self, number, entry)
        return True

    return broken


def _zombies_heard(right: Function) -> Function:
    def broken(self: Any, event: Any) -> None:
        if isinstance(event, Acknowledge):
            event = msgspec.structs.replace(event, attempt=self._coordinator.attempt)
        right(self, event)

    return broken


def _all_groups(right: Function) -> Function:
    def broken(*args: Any) -> Any:
        return [replace(share, groups=None) for share in right(*args)]

    return broken


def _union_of_own(right: Function) -> Function:
    def broken(entry: CheckpointCompleted, subtask: int, *args: Any) -> Any:
        return [
            share
            for share in right(entry, subtask, *args)
            if share.handle.kind is not StateKind.UNION or share.handle.subtask == subtask
        ]

    return broken


def _retention_of_the_newest(right: Function) -> Function:
    def broken(self: Any, *args: Any) -> ExpiredFiles:
        self._retain = 1
        expired = right(self, *args)
        first = {h.path for h in (self.newest.handles if self.newest else ()) if h.path}
        return ExpiredFiles(tuple(sorted({*expired.paths, *first})), expired.numbers)

    return broken


def _recovery_without_commit(right: Function) -> Function:
    def broken(self: Any, action: Any) -> Any:
        entry = action.checkpoint
        if entry is not None:
            entry = msgspec.structs.replace(entry, committables=[])
        return right(self, replace(action, checkpoint=entry))

    return broken


@contextmanager
def _commit_errors_are_final() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        raise unexpected(error) from error


def _dropped_entries_deleted(right: Function) -> Function:
    def broken(self: Any, number: int) -> None:
        try:
            self._store.delete(self.path(number))
        except OSError as error:
            raise CheckpointError(str(error)) from error

    return broken


def _floor_at_the_end(right: Function) -> Function:
    return lambda number, block: number


def _ids_from_the_entry(right: Function) -> Function:
    def broken(self: Any, first: Any, parallelism: int) -> None:
        right(self, 1, parallelism)
        self._next = 1

    return broken


def _nothing_swept(right: Function) -> Function:
    def broken(self: Any, *args: Any) -> list[Any]:
        return [action for action in right(self, *args) if not isinstance(action, SweepFiles)]

    return broken


def _first_commit_is_enough(right: Function) -> Function:
    return lambda self: max(self._committed.values(), default=0)


def _watermark_of_the_fastest(right: Function) -> Function:
    def broken(self: Any) -> bool:
        most = max(lane.watermark_ms for lane in self._lanes)
        for lane in self._lanes:
            lane.watermark_ms = most
        return bool(right(self))

    return broken


def _all_phases_open(right: Function) -> Function:
    def broken(self: Any, restored: Any) -> None:
        right(self, restored)
        self.open_phase(self._last_phase)

    return broken


def _one_has_read(right: Function) -> Function:
    def broken(self: Any, attempt: Any, parallelism: int) -> None:
        right(self, attempt, 1)

    return broken


def _read_by_all(right: Function) -> Function:
    return lambda self, splits: splits if self.may_find else right(self, splits)


def _read_though_known(right: Function) -> Function:
    def broken(self: Any, splits: Any) -> None:
        self._known.clear()
        right(self, splits)

    return broken


def _remembered_by_the_driver(right: Function) -> Function:
    def broken(self: Any, *args: Any) -> None:
        before = [each.announced | each.source.listed for each in self._discoveries.values()]
        right(self, *args)
        for each, announced in zip(self._discoveries.values(), before, strict=True):
            each.announced = announced

    return broken


def _notified_then_published(right: Function) -> Function:
    def broken(self: Any, entry: Any) -> Any:
        told = SendToAll(CheckpointComplete(attempt=entry.attempt, checkpoint=entry.checkpoint))
        return [told, *right(self, entry)]

    return broken


def _answered_unpublished(right: Function) -> Function:
    return lambda plan, log, listed: None


class _Closed(list[Any]):
    """List that ignores appended items."""

    def append(self, item: Any) -> None:
        pass


def _recorded_at_once(right: Function) -> Function:
    def broken(self: Any, checkpoint: Any) -> Any:
        recording = right(self, checkpoint)
        recording.batches = _Closed(recording.batches)
        return recording

    return broken


def _no_changes(right: Function) -> Function:
    return lambda self: self._freeze(np.empty(0, np.int64))


def _updated_long_ago(right: Function) -> Function:
    return lambda self, slots, stored: right(self, slots, [(0, value) for _, value in stored])


MUTATIONS: dict[str, list[Patch]] = {
    "alignment off": [(inputs.InputGate, "__init__", _alignment_off)],
    "commit before the log": [(Committing, "stage", _commit_before_log)],
    "committables not carried": [(Committing, "staged", _committables_not_carried)],
    "source position one ahead": [(GeneratorSource, "open", _position_ahead)],
    "source position one behind": [(GeneratorSource, "open", _position_behind)],
    "source splits dropped": [(SnapshotWriter, "begin", _without_state("splits"))],
    "held rows dropped": [(SnapshotWriter, "begin", _without_state("held"))],
    "timers lost": [(SnapshotWriter, "begin", _without_state("timers"))],
    "deltas skipped": [(restored_state, "shares", _deltas_skipped)],
    "snapshot_failed ignored": [(checkpoints.SubtaskCheckpoints, "_forget", _nothing)],
    "building on what was given up": [(checkpoints, "_builds_on", _never)],
    "staged rows of an aborted checkpoint lost": [
        (checkpoints.SubtaskCheckpoints, "_give_up", _not_staged_when_given_up)
    ],
    "rows recorded before a barrier lost": [(inputs.InputGate, "overtake", _recorded_rows_lost)],
    "rows recorded before a barrier twice": [(inputs.InputGate, "overtake", _recorded_twice)],
    "rows overtaken on their way out lost": [(OutputEdge, "overtake", _overtaken_rows_lost)],
    "fencing off": [(JobLog, "append", _never_fenced)],
    "zombies are heard, and ids used again": [
        (Master, "_take", _zombies_heard),
        (OpenCheckpoints, "begin", _ids_from_the_entry),
    ],
    "all key groups restored": [(restored_state, "shares", _all_groups)],
    "union state of its own subtask": [(restored_state, "shares", _union_of_own)],
    "files deleted that are needed": [(Retention, "trim", _retention_of_the_newest)],
    "files that nothing needs stay": [(Checkpointing, "entered", _nothing_swept)],
    "recovery does not commit": [(publications.Publications, "recover", _recovery_without_commit)],
    "an error of a committer ends the job": [
        (sources_and_sinks, "_publishing", lambda right: _commit_errors_are_final)
    ],
    "entries deleted": [(JobLog, "drop", _dropped_entries_deleted)],
    "marks of the log deleted": [(log_compaction, "is_mark", _never)],
    "kept entries deleted": [(log, "floor_of", _floor_at_the_end)],
    "finished once one has committed": [
        (Checkpointing, "_committed_everywhere", _first_commit_is_enough)
    ],
    "notified before the driver has published": [(Publishing, "entered", _notified_then_published)],
    "the driver publishes nothing": [(publications, "publish_listed", _answered_unpublished)],
    "the fastest channel's watermark": [(WatermarkMerger, "_merge", _watermark_of_the_fastest)],
    "idle at once": [(SourceOperator, "idle", _always)],
    "savepoint of what has changed": [
        (operator, "savepoint", _savepoint_of_changes)
        for operator in (ProcessOperator, ReduceOperator, RunningOperator)
    ],
    "manifest before the commits": [(SavepointRequests, "entered", _manifest_at_once)],
    "started from nothing": [(next_attempt, "needed_savepoint", _from_nothing)],
    "checkpoints after a stop": [(SavepointRequests, "holds", _goes_on_after_stop)],
    "all phases open at once": [(SourceOperator, "open", _all_phases_open)],
    "a phase open when one subtask has read": [(SourcePhases, "begin", _one_has_read)],
    "a split that is found is read by all": [(SourceOperator, "_share_of", _read_by_all)],
    "a split that is known is found again": [(SourceOperator, "found", _read_though_known)],
    "what was found is the driver's to know": [(SplitDiscovery, "begin", _remembered_by_the_driver)],
    "rows that come round behind a snapshot lost": [(inputs.InputGate, "overtake", _recorded_at_once)],
    "a loop over while rows go round": [(LoopHead, "came_round", _nothing)],
    "state of a trigger lost": [(SnapshotWriter, "begin", _without_state("trigger_rows"))],
    "rows in windows of a count lost": [(SnapshotWriter, "begin", _without_state("rows"))],
    "changes of a compiled function lost": [(ColumnTable, "freeze_changes", _no_changes)],
    "times of updates lost": [(ExpiringColumn, "load", _updated_long_ago)],
}

CLIMATES: dict[str, Climate] = {
    "snapshot_failed ignored": Climate.STALLS,
    "building on what was given up": Climate.STALLS,
    "staged rows of an aborted checkpoint lost": Climate.STALLS,
    "rows recorded before a barrier lost": Climate.STALLS,
    "rows recorded before a barrier twice": Climate.STALLS,
    "rows overtaken on their way out lost": Climate.STALLS,
    "files that nothing needs stay": Climate.STALLS,
    "state of a trigger lost": Climate.STALLS,
    "rows in windows of a count lost": Climate.STALLS,
    "changes of a compiled function lost": Climate.STALLS,
    "rows that come round behind a snapshot lost": Climate.STALLS,
    "fencing off": Climate.RIVALS,
    "savepoint of what has changed": Climate.MOVES,
    "started from nothing": Climate.MOVES,
    "checkpoints after a stop": Climate.MOVES,
    "all phases open at once": Climate.PHASES,
    "a phase open when one subtask has read": Climate.PHASES,
    "a split that is found is read by all": Climate.APPEARS,
    "a split that is known is found again": Climate.APPEARS,
    "what was found is the driver's to know": Climate.APPEARS,
}
"""Where a mutation is to show. Those that are not named show in any climate."""


PROGRAMS: dict[str, CheckedProgram] = {
    "rows that come round behind a snapshot lost": MEETING,
    "a loop over while rows go round": WALKING,
    "state of a trigger lost": TRIGGERED,
    "rows in windows of a count lost": TRIGGERED,
    "changes of a compiled function lost": COMPILED,
    "times of updates lost": EXPIRING,
}
"""The programs of worlds in which a mutation is to show; of others, any that is drawn."""


@contextmanager
def broken(name: str) -> Iterator[None]:
    """Within it, the engine has the defect."""
    with ExitStack() as stack:
        for where, what, mutation in MUTATIONS[name]:
            right = getattr(where, what)
            setattr(where, what, mutation(right))
            stack.callback(setattr, where, what, right)
        yield


def catches(name: str, seed: int) -> str | None:
    """Return the error found in the world of the seed; None if there is none."""
    drawn = draw_world(seed, CLIMATES.get(name))
    if name in PROGRAMS:
        drawn = drawn.of(PROGRAMS[name])
    try:
        drawn.check(drawn.run())
    except Exception as error:
        return f"{type(error).__name__}: {error}".splitlines()[0][:160]
    return None


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--seeds", type=int, default=40)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--enough", type=int, default=2)
    chosen = parser.parse_args(arguments)
    blind = []
    for name in chosen.names or MUTATIONS:
        caught: dict[int, str] = {}
        seed = chosen.first
        with broken(name):
            while seed < chosen.first + chosen.seeds and len(caught) < chosen.enough:
                found = catches(name, seed)
                if found is not None:
                    caught[seed] = found
                seed += 1
        shown = "".join(f"\n    {seed}: {found}" for seed, found in list(caught.items())[:3])
        print(f"{name}: {len(caught)} of {seed - chosen.first}{shown}", flush=True)
        blind += [] if caught else [name]
    if blind:
        print(f"nothing has noticed: {', '.join(blind)}")
    return 1 if blind else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
