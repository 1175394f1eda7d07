"""The rows and watermarks that arrive at one operator for one key, in the order of arrival.

The operators upstream of it run from the checkpoint over the recorded input. The operator itself is
replaced by one that records the rows of the key. All other operators take their rows and emit nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, TypeAlias, assert_never

import pyarrow as pa

from rheos.core.errors import ConfigurationError, RheosError
from rheos.core.operators.contract import Operator, OperatorContext, OperatorSpec, Out
from rheos.core.operators.source import SourceSpec
from rheos.core.plan.physical import PhysicalPlan, PlannedOperator
from rheos.core.protocol.elements import Batch
from rheos.core.protocol.ids import JobId, OperatorId
from rheos.core.state.keys import Key
from rheos.ops.debugging.debugged_key import KeyOfOperator, rows_of_key
from rheos.ops.debugging.key_filter import ahead_of, early
from rheos.ops.debugging.tapes_by_time import Turns, in_time
from rheos.ops.forks.tape import Beginning, Tape, TapedRun, TapedSource

_ROWS_AT_ONCE = 1024
"""Maximum number of rows in one poll of a source."""


@dataclass(frozen=True)
class Rows:
    """Rows of the key, or of a port without keys."""

    port: int
    batch: Batch
    in_flight: bool
    """Whether they were in flight when the checkpoint was taken."""
    stays: bool = field(default=False, compare=False)
    """Whether a search for fewer rows keeps them."""


@dataclass(frozen=True)
class WatermarkAdvance:
    """A new watermark of the operator."""

    watermark_ms: int
    stays: bool = field(default=False, compare=False)
    """Whether a search for fewer watermarks keeps it."""


Delivery: TypeAlias = Rows | WatermarkAdvance


def deliver(operator: Operator, delivery: Delivery) -> Iterator[Out]:
    """Pass a delivery to the operator, and yield what it emits."""
    match delivery:
        case Rows(in_flight=True):
            return operator.on_in_flight(delivery.port, delivery.batch)
        case Rows():
            return operator.on_batch(delivery.port, delivery.batch)
        case WatermarkAdvance():
            return operator.on_watermark(delivery.watermark_ms)
        case _:
            assert_never(delivery)


def pieces(delivery: Delivery) -> Iterator[Delivery]:
    """Yield the rows of a delivery one by one."""
    if isinstance(delivery, Rows):
        for place in range(delivery.batch.num_rows):
            yield replace(delivery, batch=delivery.batch.slice(place, 1))
    else:
        yield delivery


@dataclass(frozen=True)
class DeliveredBatch:
    deliveries: list[Delivery]
    error: RheosError | None
    """Error that ended the program upstream of the operator; None if there was no error."""

    @property
    def rows(self) -> int:
        return sum(each.batch.num_rows for each in self.deliveries if isinstance(each, Rows))


def delivered(
    job: JobId,
    plan: PhysicalPlan,
    keyed: KeyOfOperator,
    beginning: Beginning,
    tapes: Mapping[OperatorId, Tape],
    begun: Mapping[OperatorId, Collection[str]],
) -> DeliveredBatch:
    """Return what arrives at the operator for its key.

    Args:
        job: the job.
        plan: its program.
        keyed: the operator, and the key.
        beginning: the state of the upstream operators.
        tapes: the tapes of the sources among them.
        begun: the splits of each source for which the checkpoint has a position.

    Raise CheckpointError if the state does not fit the program.
    """
    taken = _TakenDeliveries()
    tap = _TapSpec(taken, keyed.key)
    before = ahead_of(plan, keyed.planned)
    others: dict[OperatorId, OperatorSpec] = dict(early(plan, keyed, before))
    turns = Turns()
    for each in plan.operators():
        if each.id in before and isinstance(each.spec, SourceSpec):
            spec = in_time(each.spec, each.id, tapes[each.id], begun[each.id], turns)
            others[each.id] = replace(spec, until_now=not spec.source.bounded)

    def changed(planned: PlannedOperator) -> PlannedOperator:
        if planned.id == keyed.planned.id:
            return replace(planned, spec=tap)
        if planned.id in others:
            return replace(planned, spec=others[planned.id])
        if planned.id in before or planned.spec.loop_capacity is not None:
            return planned
        return replace(planned, spec=without_rows(planned.spec))

    chains = [
        replace(chain, operators=tuple(changed(planned) for planned in chain.operators))
        for chain in plan.chains
    ]
    run = TapedRun(job, replace(plan, chains=tuple(chains)), beginning, _ROWS_AT_ONCE)
    error: RheosError | None = None
    try:
        run.run()
    except ConfigurationError:
        raise
    except RheosError as raised:
        if not taken.deliveries:
            raise
        error = raised
    finally:
        run.close()
    return DeliveredBatch(taken.deliveries, error)


def without_rows(spec: OperatorSpec) -> OperatorSpec:
    """Return the spec that replaces an operator which is not upstream. Loops stay, so rows iterate."""
    if isinstance(spec, SourceSpec):
        source = TapedSource(spec.source, Tape(()))
        return replace(spec, source=source, until_now=not source.bounded)
    return _IdleSpec()


@dataclass
class _TakenDeliveries:
    """The deliveries so far, which the run adds."""

    deliveries: list[Delivery] = field(default_factory=list)

    def add(self, delivery: Delivery) -> None:
        """Add a delivery. Between two rows only the last watermark counts."""
        if (
            isinstance(delivery, WatermarkAdvance)
            and self.deliveries
            and isinstance(self.deliveries[-1], WatermarkAdvance)
        ):
            self.deliveries.pop()
        self.deliveries.append(delivery)


@dataclass(frozen=True)
class _TapSpec(OperatorSpec):
    taken: _TakenDeliveries
    key: Key

    kind: ClassVar[str] = "tap"

    def operator(self, ctx: OperatorContext) -> Operator:
        return _Tap(ctx, self)


class _Tap(Operator):
    def __init__(self, ctx: OperatorContext, spec: _TapSpec) -> None:
        super().__init__(ctx)
        self._spec = spec

    def on_batch(self, port: int, batch: Batch) -> Iterator[Out]:
        return self._take(port, batch, in_flight=False)

    def on_in_flight(self, port: int, batch: Batch) -> Iterator[Out]:
        return self._take(port, batch, in_flight=True)

    def _take(self, port: int, batch: Batch, *, in_flight: bool) -> Iterator[Out]:
        rows = rows_of_key(batch, self.ctx.ports[port], self._spec.key)
        if rows.num_rows:
            # A filter that drops nothing returns the batch itself, with the memory of all keys.
            rows = pa.RecordBatch.from_arrays(
                [column.take(pa.array(range(rows.num_rows))) for column in rows.columns],
                schema=rows.schema,
            )
            self._spec.taken.add(Rows(port, rows, in_flight))
        return iter(())

    def on_watermark(self, timestamp_ms: int) -> Iterator[Out]:
        self._spec.taken.add(WatermarkAdvance(timestamp_ms))
        return iter(())


@dataclass(frozen=True)
class _IdleSpec(OperatorSpec):
    kind: ClassVar[str] = "nothing"

    def operator(self, ctx: OperatorContext) -> Operator:
        return _IdleOperator(ctx)


class _IdleOperator(Operator):
    def on_batch(self, port: int, batch: Batch) -> Iterator[Out]:
        return iter(())
