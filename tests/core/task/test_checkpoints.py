"""Answers of a subtask for the snapshots of its chains: written, aborted, or based on missing ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pyarrow as pa

from rheos.core.checkpoint.snapshot_writer import SnapshotWriter
from rheos.core.operators.contract import CommittingOperator
from rheos.core.protocol import control
from rheos.core.protocol.elements import BarrierKind
from rheos.core.protocol.ids import Attempt, ChainId, CheckpointId, JobId, OperatorId
from rheos.core.protocol.ports import IoExecutor, Store
from rheos.core.protocol.snapshots import PartMode, Snapshot, SnapshotPart, StateKind
from rheos.core.state import format as state_format
from rheos.core.task.chain_snapshot import ChainSnapshot
from rheos.core.task.checkpoints import SubtaskCheckpoints
from rheos.core.task.commits import Committing
from rheos.runtimes.simulated.io import SimIo
from rheos.runtimes.simulated.store import MemoryStore, StoreFolder
from tests.core.operators.contexts import AtOnce, StillClock

_FULL, _DELTA = PartMode.FULL, PartMode.DELTA
_GROUPS = pa.table({"key_group": pa.array([1, 2], pa.uint16()), "value": [10, 20]})


class _Told(CommittingOperator):
    """Records its calls."""

    def __init__(self) -> None:
        self.failed: list[int] = []

    def snapshot_failed(self, checkpoint: CheckpointId) -> None:
        self.failed.append(checkpoint)


@dataclass
class _Subtask:
    """Subtask of two chains, `a` and `b`, of one operator each."""

    store: MemoryStore = field(default_factory=MemoryStore)
    reports: list[control.ToMaster] = field(default_factory=list)
    released: list[int] = field(default_factory=list)
    io: IoExecutor = field(default_factory=AtOnce)

    def __post_init__(self) -> None:
        io = self.io
        self.operators = {OperatorId("a"): _Told(), OperatorId("b"): _Told()}
        self.checkpoints = SubtaskCheckpoints(
            Attempt(1),
            0,
            2,
            16,
            self.operators,
            Committing(self.operators, io, lambda: 0),
            snapshots=SnapshotWriter(
                JobId("job"), Attempt(1), 0, self.store, io, state_format.encode, inline_bytes=0
            ),
            open_store=self.open_store,
            io=io,
            clock=StillClock(),
            report=self.reports.append,
        )

    def open_store(self, folder: str) -> Store:
        if folder == "nowhere":
            raise OSError("no such place")
        return StoreFolder(self.store, folder)

    def takes(
        self, chain: str, checkpoint: int, mode: PartMode = _FULL, *, savepoint: bool = False
    ) -> ChainSnapshot:
        part = SnapshotPart("s", StateKind.KEYED, lambda: _GROUPS, mode)
        whole = SnapshotPart("s", StateKind.KEYED, lambda: iter([_GROUPS, _GROUPS]))
        id = OperatorId(chain)
        snapshot = Snapshot(
            [part], release=lambda: self.released.append(checkpoint), committables=[chain.encode()]
        )
        taken = ChainSnapshot(
            chain=ChainId(ord(chain)),
            checkpoint=CheckpointId(checkpoint),
            kind=BarrierKind.SAVEPOINT if savepoint else BarrierKind.CHECKPOINT,
            snapshots=[(id, snapshot)],
            savepoint=[(id, [whole])] if savepoint else [],
            totals=control.Totals(),
            sync_us=7,
            since_us=0,
            aligned_us=0,
            forwarded=True,
        )
        self.checkpoints.gather(taken)
        self.checkpoints.poll()
        self.checkpoints.poll()
        return taken

    def triggers(self, checkpoint: int, savepoint: str) -> None:
        self.checkpoints.triggered(
            control.TriggerCheckpoint(
                attempt=Attempt(1), checkpoint=CheckpointId(checkpoint), savepoint=savepoint
            )
        )
        self.checkpoints.poll()

    def aborts(self, checkpoint: int) -> None:
        self.checkpoints.aborted(CheckpointId(checkpoint))

    def of(self, kind: type[control.ToMaster]) -> list[int]:
        return [r.checkpoint for r in self.reports if isinstance(r, kind)]  # type: ignore[union-attr]

    @property
    def acknowledged(self) -> list[int]:
        return self.of(control.Acknowledge)

    @property
    def declined(self) -> list[int]:
        return self.of(control.Decline)

    def forced_full(self) -> list[list[int]]:
        return [operator.failed for operator in self.operators.values()]


def test_a_checkpoint_is_acknowledged_when_all_chains_have_taken_it() -> None:
    subtask = _Subtask()
    subtask.takes("a", 1)
    assert subtask.reports == []
    subtask.takes("b", 1)
    (answer,) = subtask.reports
    assert isinstance(answer, control.Acknowledge)
    assert {handle.operator for handle in answer.handles} == {"a", "b"}
    assert answer.cost.sync_us == 14
    assert answer.cost.written_bytes == sum(handle.size_bytes for handle in answer.handles)


def test_a_chain_that_waits_for_overtaken_rows_keeps_the_checkpoint_open() -> None:
    subtask = _Subtask()
    taken = subtask.takes("a", 1)
    taken.forwarded = False
    subtask.takes("b", 1)
    assert subtask.acknowledged == []
    taken.forwarded = True
    subtask.checkpoints.poll()
    subtask.checkpoints.poll()
    assert subtask.acknowledged == [1]


def test_a_delta_on_top_of_an_aborted_checkpoint_is_declined() -> None:
    subtask = _Subtask()
    subtask.takes("a", 1)
    subtask.takes("b", 1)
    # Chain a is ahead: it has taken 2 and 3 before 2 is aborted, which b never takes.
    subtask.takes("a", 2, _DELTA)
    subtask.takes("a", 3, _DELTA)
    subtask.aborts(2)
    assert subtask.forced_full() == [[2], [2]]
    subtask.takes("b", 3)
    assert subtask.declined == [3]
    assert subtask.forced_full() == [[2, 3], [2, 3]]
    subtask.takes("a", 4)
    subtask.takes("b", 4)
    assert subtask.acknowledged == [1, 4]


def test_a_delta_on_top_of_a_declined_one_is_declined_too() -> None:
    subtask = _Subtask()
    for checkpoint in (1, 2, 3, 4):
        subtask.takes("a", checkpoint, _FULL if checkpoint == 1 else _DELTA)
    subtask.takes("b", 1)
    subtask.aborts(2)
    subtask.takes("b", 3)
    subtask.takes("b", 4)
    assert subtask.acknowledged == [1]
    assert subtask.declined == [3, 4]


def test_a_full_snapshot_after_an_aborted_checkpoint_counts() -> None:
    subtask = _Subtask()
    subtask.takes("a", 1)
    subtask.takes("a", 2)
    subtask.aborts(1)
    subtask.takes("b", 2)
    assert subtask.acknowledged == [2]
    assert subtask.declined == []


def test_snapshots_of_another_chain_do_not_matter() -> None:
    """Check chain b, which has not taken the aborted checkpoint: its delta is based on a written
    one."""
    subtask = _Subtask()
    for chain in "ab":
        subtask.takes(chain, 1)
    subtask.takes("a", 2, _DELTA)
    subtask.takes("b", 3, _DELTA)
    subtask.aborts(2)
    subtask.takes("a", 3)
    assert subtask.acknowledged == [1, 3]


def test_later_barriers_may_arrive_before_an_abort() -> None:
    subtask = _Subtask()
    subtask.takes("a", 1)
    subtask.takes("b", 1)
    subtask.takes("a", 2, _DELTA)
    subtask.takes("a", 3, _DELTA)
    subtask.takes("b", 3, _DELTA)
    assert subtask.declined == [3]
    assert subtask.released == [1, 1, 2, 3, 3]
    subtask.aborts(2)
    assert subtask.forced_full() == [[2, 3], [2, 3]]


def test_committables_of_an_aborted_checkpoint_are_reported_with_the_next() -> None:
    subtask = _Subtask()
    subtask.takes("a", 1)
    subtask.aborts(1)
    subtask.takes("a", 2)
    subtask.takes("b", 2)
    (answer,) = subtask.reports
    assert isinstance(answer, control.Acknowledge)
    assert sorted(c.payload for c in answer.committables) == [b"a", b"a", b"b"]


def test_several_checkpoints_are_collected_at_a_time() -> None:
    subtask = _Subtask()
    for checkpoint in (1, 2, 3):
        subtask.takes("a", checkpoint, _FULL if checkpoint == 1 else _DELTA)
    for checkpoint in (1, 2, 3):
        subtask.takes("b", checkpoint, _FULL if checkpoint == 1 else _DELTA)
    assert subtask.acknowledged == [1, 2, 3]
    last = subtask.reports[-1]
    assert isinstance(last, control.Acknowledge)
    # The whole chain of each state.
    assert [h.mode for h in last.handles if h.operator == "a"] == [_FULL, _DELTA, _DELTA]


# --- savepoints -------------------------------------------------------------------------------------


def _with_savepoint(tell: Callable[[_Subtask], None]) -> _Subtask:
    subtask = _Subtask()
    subtask.takes("a", 1)
    subtask.takes("b", 1)
    tell(subtask)
    return subtask


def test_a_savepoint_is_written_alongside_its_checkpoint() -> None:
    subtask = _with_savepoint(lambda subtask: subtask.triggers(2, "my/savepoint"))
    for chain in "ab":
        subtask.takes(chain, 2, _DELTA, savepoint=True)
    answer = subtask.reports[-1]
    assert isinstance(answer, control.Acknowledge)
    assert [h.mode for h in answer.handles if h.operator == "a"] == [_FULL, _DELTA]
    assert answer.savepoint_error == ""
    assert [h.path for h in answer.savepoint_handles] == [
        f"state/{chain}/0-s-{piece}.arrow" for chain in "ab" for piece in (0, 1)
    ]
    for handle in answer.savepoint_handles:
        assert handle.mode is _FULL
        assert not handle.inline
        data = subtask.store.files[f"my/savepoint/{handle.path}"]
        assert len(data) == handle.size_bytes
        assert state_format.decode(data, None).equals(_GROUPS)


def test_savepoint_barriers_may_arrive_before_the_request() -> None:
    subtask = _with_savepoint(lambda _: None)
    for chain in "ab":
        subtask.takes(chain, 2, savepoint=True)
    assert subtask.acknowledged == [1]
    # What the snapshots hold may be needed for the savepoint.
    assert subtask.released == [1, 1]
    subtask.triggers(2, "my/savepoint")
    assert subtask.acknowledged == [1, 2]
    assert subtask.released == [1, 1, 2, 2]


def test_a_savepoint_that_cannot_be_written_harms_no_checkpoint() -> None:
    subtask = _with_savepoint(lambda subtask: subtask.triggers(2, "nowhere"))
    for chain in "ab":
        subtask.takes(chain, 2, savepoint=True)
    answer = subtask.reports[-1]
    assert isinstance(answer, control.Acknowledge)
    assert len(answer.handles) == 2
    assert answer.savepoint_handles == []
    assert "no such place" in answer.savepoint_error


def test_an_aborted_savepoint_is_waited_for_no_longer() -> None:
    subtask = _with_savepoint(lambda _: None)
    for chain in "ab":
        subtask.takes(chain, 2, savepoint=True)
    subtask.aborts(2)
    for chain in "ab":
        subtask.takes(chain, 3, _DELTA)
    assert subtask.acknowledged[-1] == 3
    assert subtask.released == [1, 1, 2, 2, 3, 3]
    assert not any(path.startswith("my/") for path in subtask.store.files)


def test_resources_of_a_snapshot_are_kept_while_it_is_written() -> None:
    later = SimIo(lambda: 0, lambda: 0)
    subtask = _Subtask(io=later)
    for chain in "ab":
        subtask.takes(chain, 1, savepoint=True)
    subtask.aborts(1)
    later.run_due()
    assert subtask.released == []
    subtask.checkpoints.poll()
    later.run_due()
    assert subtask.released == [1, 1]
