"""The engines of one job without a master: the test triggers, aborts and loses checkpoints. Everything
below the control messages is real: chains, gates, edges, frames, state files. `Cluster` runs one
attempt; `Job` runs successive attempts as a master does, from the newest checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random

from rheos.api.environment import Environment
from rheos.api.streams import DataStream
from rheos.core.checkpoint.log_entries import CheckpointCompleted
from rheos.core.checkpoint.savepoint import Restore
from rheos.core.operators.shapes import state_shapes
from rheos.core.operators.sink import SinkSpec
from rheos.core.plan.physical import PhysicalPlan
from rheos.core.protocol import control
from rheos.core.protocol.ids import Attempt, CheckpointId, JobId
from rheos.core.task.config import TaskConfig
from rheos.core.task.contexts import OperatorContexts
from rheos.core.task.engine import Lifecycle, SubtaskEngine
from rheos.core.task.prepared_slot import PreparedSlot
from rheos.core.task.slot import Deployment, open_slot
from rheos.runtimes.driver.sources_and_sinks import enumerate_splits
from rheos.runtimes.simulated.clock import SimClock
from rheos.runtimes.simulated.io import SimIo
from rheos.runtimes.simulated.network import SimNetwork, SimTransport
from rheos.runtimes.simulated.store import MemoryStore, StoreFolder
from rheos.testing.memory import MemorySink

JOB = JobId("job")


def planned(build: Callable[[Environment], Mapping[str, DataStream]]) -> PhysicalPlan:
    """Return the plan of a program; every returned stream gets a MemorySink with its name."""
    env = Environment(1, max_parallelism=16)
    for name, stream in build(env).items():
        stream.sink_to(MemorySink(), name=name)
    return env.plan("job")


class HeldNetwork(SimNetwork):
    """Network with backpressure on demand: while `held`, no credit is returned."""

    held = False

    def take_credits(self, sender: int) -> dict[object, int]:  # type: ignore[override]
        return {} if self.held else super().take_credits(sender)  # type: ignore[return-value]


@dataclass
class _Slot:
    engine: SubtaskEngine
    io: SimIo
    inbox: list[tuple[int, control.ToTask]] = field(default_factory=list)


class Cluster:
    """One attempt. `seed` determines the order of steps, and durations."""

    def __init__(
        self,
        plan: PhysicalPlan,
        task: TaskConfig,
        *,
        parallelism: int = 2,
        attempt: int = 1,
        restore: CheckpointCompleted | None = None,
        store: MemoryStore | None = None,
        clock: SimClock | None = None,
        seed: int = 0,
        prepared: Sequence[PreparedSlot] = (),
    ) -> None:
        self.rng = Random(seed)
        self.plan = replace(plan, parallelism=parallelism)
        self.attempt = Attempt(attempt)
        self.store = store or MemoryStore()
        self.clock = clock or SimClock()
        self.acknowledged: dict[int, dict[int, control.Acknowledge]] = {}
        self.declined: dict[int, str] = {}
        self.committed: dict[int, int] = {}
        self.drained: set[int] = set()
        self.network = HeldNetwork(
            self.attempt, plan.edge_schemas(), task.credits, self.clock.monotonic_us, self._delay_us
        )
        deployment = Deployment(
            plan=self.plan,
            job=JOB,
            writer=JOB,
            attempt=self.attempt,
            config=task,
            splits=enumerate_splits(plan),
            restore=None if restore is None else Restore(entry=restore),
        )
        self.slots: list[_Slot] = []
        for subtask in range(parallelism):
            io = SimIo(self.clock.monotonic_us, self._delay_us)
            engine = open_slot(
                deployment,
                subtask,
                store=self.store,
                open_store=partial(StoreFolder, self.store),
                transport=SimTransport(self.network, subtask),
                clock=self.clock,
                io=io,
                report=self._reported,
                inline_bytes=0,
                prepared=prepared[subtask] if prepared else None,
            )
            self.slots.append(_Slot(engine, io))

    def _delay_us(self) -> int:
        return self.rng.randrange(1, 2000)

    def _reported(self, message: control.ToMaster) -> None:
        match message:
            case control.Acknowledge():
                self.acknowledged.setdefault(message.checkpoint, {})[message.subtask] = message
            case control.Decline():
                self.declined[message.checkpoint] = message.reason
            case control.Committed():
                self.committed[message.subtask] = message.checkpoint
            case control.Drained():
                self.drained.add(message.subtask)

    # --- what the test does -----------------------------------------------------------------------

    def tell(
        self, message: control.ToTask, subtask: int | None = None, *, at_once: bool = False
    ) -> None:
        """Send the message, which arrives at each subtask after a delay, in order."""
        for number, slot in enumerate(self.slots):
            if subtask in (None, number):
                at_us = self.clock.monotonic_us() + (0 if at_once else self._delay_us())
                slot.inbox.append((max([at_us, *(t for t, _ in slot.inbox)]), message))

    def trigger(self, checkpoint: int, savepoint: str | None = None) -> None:
        self.tell(
            control.TriggerCheckpoint(
                attempt=self.attempt, checkpoint=CheckpointId(checkpoint), savepoint=savepoint
            )
        )

    def abort(self, checkpoint: int) -> None:
        self.tell(control.CheckpointAborted(attempt=self.attempt, checkpoint=CheckpointId(checkpoint)))

    def complete(self, checkpoint: int) -> None:
        self.tell(control.CheckpointComplete(attempt=self.attempt, checkpoint=CheckpointId(checkpoint)))

    def drain(self) -> None:
        self.tell(control.Drain(attempt=self.attempt))

    def turn(self, slot: int | None = None) -> bool:
        """Run a step of one subtask; return whether it did anything."""
        chosen = self.slots[self.rng.randrange(len(self.slots)) if slot is None else slot]
        worked = chosen.io.run_due()
        while chosen.inbox and chosen.inbox[0][0] <= self.clock.monotonic_us():
            chosen.engine.deliver(chosen.inbox.pop(0)[1])
            worked = True
        worked |= chosen.engine.step().worked
        self.clock.advance(self.rng.randrange(1, 200))
        return worked

    def run(self, turns: int) -> None:
        for _ in range(turns):
            self.turn()

    def run_until(self, holds: Callable[[], bool], turns: int = 20_000) -> None:
        for _ in range(turns):
            if holds():
                return
            self.turn()
        raise AssertionError(f"it does not come to {holds}")

    # --- what has come of it ----------------------------------------------------------------------

    def is_acknowledged(self, checkpoint: int) -> bool:
        return len(self.acknowledged.get(checkpoint, ())) == len(self.slots)

    def cost(self, checkpoint: int) -> control.Cost:
        total = control.Cost()
        for message in self.acknowledged[checkpoint].values():
            total = total.plus(message.cost)
        return total

    def entry(self, checkpoint: int, *, savepoint: bool = False) -> CheckpointCompleted:
        """Return the entry of the log once all have acknowledged."""
        messages = [self.acknowledged[checkpoint][subtask] for subtask in range(len(self.slots))]
        return CheckpointCompleted(
            attempt=self.attempt,
            owner="test",
            reserved_to=CheckpointId(checkpoint),
            checkpoint=CheckpointId(checkpoint),
            final=False,
            parallelism=len(self.slots),
            max_parallelism=self.plan.max_parallelism,
            operators={planned.id: planned.name for planned in self.plan.operators()},
            widths=self.plan.widths(),
            states=state_shapes(self.plan.operators()),
            handles=[
                handle for m in messages for handle in (m.savepoint_handles if savepoint else m.handles)
            ],
            committables=[] if savepoint else [c for m in messages for c in m.committables],
        )

    @property
    def is_drained(self) -> bool:
        return all(slot.engine.lifecycle is Lifecycle.DRAINED for slot in self.slots)

    def close(self) -> None:
        for slot in self.slots:
            slot.engine.close()


AT_ONCE = TaskConfig(batch_rows=8, credits=1, buffer_timeout_us=0, unaligned_after_us=0)
"""Rows wait everywhere, and barriers overtake them at once."""


class Job:
    """A job over its attempts."""

    def __init__(
        self, plan: PhysicalPlan, task: TaskConfig, *, parallelism: int = 2, seed: int = 0
    ) -> None:
        self.plan = plan
        self.task = task
        self.store = MemoryStore()
        self.clock = SimClock()
        self.seed = seed
        self.newest: CheckpointCompleted | None = None
        self.last_checkpoint = 0
        self.attempts = 0
        self._prepared: list[PreparedSlot] = []
        """Slots of the next attempt, which restore checkpoints ahead."""
        self.cluster = self._start(parallelism)

    def _start(self, parallelism: int) -> Cluster:
        self.attempts += 1
        return Cluster(
            self.plan,
            self.task,
            parallelism=parallelism,
            attempt=self.attempts,
            restore=self.newest,
            store=self.store,
            clock=self.clock,
            seed=self.seed * 1000 + self.attempts,
            prepared=self._taken(parallelism),
        )

    def _taken(self, parallelism: int) -> list[PreparedSlot]:
        prepared, self._prepared = self._prepared, []
        assert not prepared or len(prepared) == parallelism
        return prepared

    def prepare(self, parallelism: int) -> None:
        """Let slots of the next attempt restore the newest checkpoint ahead."""
        assert self.newest is not None
        if not self._prepared:
            plan = replace(self.plan, parallelism=parallelism)
            io = SimIo(self.clock.monotonic_us, lambda: 1)
            self._prepared = [
                PreparedSlot(
                    plan,
                    OperatorContexts(
                        job=JOB,
                        attempt=Attempt(0),
                        max_parallelism=plan.max_parallelism,
                        clock=self.clock,
                        io=io,
                        batch_rows=self.task.batch_rows,
                        subtask=subtask,
                    ),
                    self.store,
                    subtask,
                )
                for subtask in range(parallelism)
            ]
        for slot in self._prepared:
            slot.catch_up(Restore(entry=self.newest))

    @property
    def sinks(self) -> dict[str, MemorySink]:
        return {
            planned.name: planned.spec.sink
            for planned in self.plan.operators()
            if isinstance(planned.spec, SinkSpec) and isinstance(planned.spec.sink, MemorySink)
        }

    def under_back_pressure(self, steps: int = 200) -> None:
        """Create backpressure: rows are in all buffers, and nothing moves."""
        self.cluster.run(steps)
        self.cluster.network.held = True
        self.cluster.run(400)

    def trigger(self, savepoint: str | None = None) -> int:
        self.last_checkpoint += 1
        self.cluster.trigger(self.last_checkpoint, savepoint)
        return self.last_checkpoint

    def enter(self, checkpoint: int) -> None:
        """Write the checkpoint to the log."""
        self.newest = self.cluster.entry(checkpoint)
        self.cluster.complete(checkpoint)

    def take(self) -> control.Cost:
        """Take a complete checkpoint, up to its entry."""
        checkpoint = self.trigger()
        self.cluster.run_until(lambda: self.cluster.is_acknowledged(checkpoint))
        self.enter(checkpoint)
        return self.cluster.cost(checkpoint)

    def restart(self, parallelism: int) -> None:
        """Lose the attempt, and begin the next one from the newest checkpoint."""
        self._recover()
        self.cluster = self._start(parallelism)

    def restart_from_savepoint(self, parallelism: int, folder: str) -> None:
        """Begin from the newest entry, that of a savepoint, whose files are in its folder."""
        whole, self.store = self.store, StoreFolder(self.store, folder)  # type: ignore[assignment]
        self.restart(parallelism)
        self.store = whole

    def _recover(self) -> None:
        listed = [] if self.newest is None else self.newest.committables
        for planned in self.plan.operators():
            if isinstance(planned.spec, SinkSpec):
                committer = planned.spec.sink.committer()
                assert committer is not None
                own = [c.payload for c in listed if c.operator == planned.id]
                committer.commit(own)
                committer.abort_stale(JOB, Attempt(self.attempts + 1), own)

    def finish(self) -> dict[str, list[dict[str, object]]]:
        """Run to the end of the input and the final checkpoint. Return what each sink has committed."""
        self.cluster.run_until(lambda: self.cluster.is_drained)
        self.take()
        self._recover()
        for sink in self.sinks.values():
            assert sink.target.violations == []
        return {name: sink.target.table().to_pylist() for name, sink in self.sinks.items()}
