"""Breaks the engine in one way after the other, and tells how many drawn worlds notice.

    python tests/simulation/mutations.py [SEEDS [NAME ...]]

A mutation that few worlds catch says that the simulation is blind there. Each is written against what
the engine promises, in the fewest words that break it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import msgspec

from rheos.checkpoint import restoring
from rheos.checkpoint.coordinator import Coordinator
from rheos.checkpoint.log import CheckpointCompleted, JobLog
from rheos.checkpoint.retention import Expired, Retention
from rheos.checkpoint.snapshot_writer import SnapshotWriter
from rheos.connectors.generator import GeneratorSource
from rheos.errors import CheckpointError, InternalError
from rheos.operators.source import SourceOperator
from rheos.protocol.control import Acknowledge
from rheos.protocol.snapshots import PartMode, StateKind
from rheos.runtimes import master
from rheos.runtimes.master import Master
from rheos.task import inputs
from rheos.task.commits import Committing
from rheos.task.engine import SubtaskEngine
from rheos.task.watermarks import WatermarkMerger
from rheos.testing.worlds import draw_world

Function = Callable[..., Any]
Mutation = tuple[object, str, Callable[[Function], Function]]
"""Where it is, its name there, and what makes the broken one of the right one."""


def _alignment_off(right: Function) -> Function:
    def broken(self: Any, channels: Any, *args: Any, **kwargs: Any) -> None:
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


def _not_staged_when_abandoned(right: Function) -> Function:
    def broken(self: Any, checkpoint: Any) -> None:
        for taken in self._gathering[checkpoint]:
            for _, snapshot in taken.snapshots:
                snapshot.committables = []
        right(self, checkpoint)

    return broken


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
    def broken(self: Any, *args: Any) -> Expired:
        self._retain = 1
        expired = right(self, *args)
        first = {h.path for h in (self.newest.handles if self.newest else ()) if h.path}
        return Expired(tuple(sorted({*expired.paths, *first})), expired.numbers)

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
        raise InternalError.of(error) from error


def _dropped_entries_deleted(right: Function) -> Function:
    def broken(self: Any, number: int) -> None:
        try:
            self._store.delete(self.path(number))
        except OSError as error:
            raise CheckpointError(str(error)) from error

    return broken


def _ids_not_reserved(right: Function) -> Function:
    def broken(self: Any) -> Any:
        right(self)
        return self._next_checkpoint - 1

    return broken


def _finished_before_commits(right: Function) -> Function:
    def broken(self: Any, event: Any) -> Any:
        self._uncommitted.clear()
        self._uncommitted.add(event.subtask)
        return right(self, event)

    return broken


def _watermark_of_the_fastest(right: Function) -> Function:
    def broken(self: Any) -> bool:
        most = max(lane.watermark_ms for lane in self._lanes)
        for lane in self._lanes:
            lane.watermark_ms = most
        return bool(right(self))

    return broken


def _no_failures(right: Function) -> Function:
    return lambda self: []


MUTATIONS: dict[str, Mutation] = {
    "alignment off": (inputs.InputGate, "__init__", _alignment_off),
    "commit before the log": (Committing, "stage", _commit_before_log),
    "committables not carried": (Committing, "staged", _committables_not_carried),
    "source position one ahead": (GeneratorSource, "open", _position_ahead),
    "source position one behind": (GeneratorSource, "open", _position_behind),
    "source splits dropped": (SnapshotWriter, "begin", _without_state("splits")),
    "held rows dropped": (SnapshotWriter, "begin", _without_state("held")),
    "timers lost": (SnapshotWriter, "begin", _without_state("timers")),
    "deltas skipped": (restoring, "shares", _deltas_skipped),
    "snapshot_failed ignored": (SubtaskEngine, "_forget", _nothing),
    "staged rows of an aborted checkpoint lost": (
        SubtaskEngine,
        "_abandon",
        _not_staged_when_abandoned,
    ),
    "fencing off": (JobLog, "append", _never_fenced),
    "zombies are heard": (Master, "_take", _zombies_heard),
    "all key groups restored": (restoring, "shares", _all_groups),
    "union state of its own subtask": (restoring, "shares", _union_of_own),
    "files deleted that are needed": (Retention, "trim", _retention_of_the_newest),
    "recovery does not commit": (Master, "_recover", _recovery_without_commit),
    "an error of a committer ends the job": (master, "_publishing", lambda _: _commit_errors_are_final),
    "entries deleted": (JobLog, "drop", _dropped_entries_deleted),
    "checkpoint ids not reserved": (Coordinator, "_reserve", _ids_not_reserved),
    "finished before all have committed": (Coordinator, "_committed", _finished_before_commits),
    "the fastest channel's watermark": (WatermarkMerger, "_merge", _watermark_of_the_fastest),
    "idle ended": (SourceOperator, "idle", lambda right: lambda self: True),
}


@contextmanager
def broken(name: str) -> Iterator[None]:
    """Within it, the engine has the defect."""
    where, what, mutation = MUTATIONS[name]
    right = getattr(where, what)
    setattr(where, what, mutation(right))
    try:
        yield
    finally:
        setattr(where, what, right)


def catches(seed: int) -> str | None:
    """What the world of the seed finds wrong; None where it finds nothing."""
    drawn = draw_world(seed)
    try:
        drawn.check(drawn.run())
    except Exception as error:
        return f"{type(error).__name__}: {error}".splitlines()[0][:160]
    return None


def main(arguments: Sequence[str]) -> int:
    seeds = int(arguments[0]) if arguments else 60
    for name in arguments[1:] or MUTATIONS:
        with broken(name):
            caught = {seed: found for seed in range(seeds) if (found := catches(seed))}
        print(f"{name}: {len(caught)} of {seeds}, such as {list(caught.items())[:2]}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
