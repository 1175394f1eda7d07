"""The rows that a job computes from a savepoint, over the input that a query has read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from rheos.core.checkpoint.checkpoint_copies import copied_savepoint
from rheos.core.operators.source import SourceSpec
from rheos.core.plan.effect_checks import refuse_outside_effects
from rheos.core.plan.physical import PhysicalPlan, PlannedOperator
from rheos.core.protocol.ids import OperatorId
from rheos.ops.forks.input import CheckpointInput
from rheos.ops.forks.reservations import Reservation, reservations
from rheos.ops.forks.side import CollectedOutput, run_side
from rheos.ops.forks.tape import Tape, TapeEnd
from rheos.ops.migration.positions import Positions, reading_until
from rheos.ops.migration.spark_checkpoint import SparkCheckpoint
from rheos.runtimes.driver.sources_and_sinks import sources
from rheos.runtimes.host.stores import open_store


@dataclass(frozen=True)
class JobTail:
    """The output of a job after its savepoint."""

    outputs: Mapping[OperatorId, CollectedOutput]
    rows_read: Mapping[str, int]
    """Number of rows of each source, by its name."""
    reservations: list[Reservation]
    """Reasons why the output may differ from another run's."""


def run_job_tail(plan: PhysicalPlan, savepoint: str, end: SparkCheckpoint) -> JobTail:
    """Run a job from a savepoint up to the positions of a checkpoint, into memory.

    At the end of the input, each source has the watermark with which the query has emitted its last
    rows. So the same windows and timers are due in both.

    Args:
        plan: The plan of the job. Its sinks receive nothing.
        savepoint: The folder of the savepoint.
        end: The checkpoint whose positions end the input. The sources correspond by their order.

    Returns:
        The rows of each sink.

    Raises:
        ConfigurationError: An operator of the job has effects outside it, or a source cannot be read.
        RheosError: An error of the program.
    """
    refuse_outside_effects(plan, "a proof")
    checkpoint = copied_savepoint(open_store(savepoint, make=False), savepoint)
    by_source = dict(zip((each.id for each, _ in sources(plan)), end.positions, strict=True))
    bounded = _bounded(plan, by_source)
    recorded = CheckpointInput(checkpoint, bounded, None)
    tapes = {
        planned.id: _ending(recorded.tapes[planned.id], _final_ms(planned, end))
        for planned, _ in sources(bounded)
    }
    names = {planned.id: planned.name for planned, _ in sources(bounded)}
    splits = sum(len(tape.splits) for tape in tapes.values())
    return JobTail(
        run_side(bounded, checkpoint, tapes),
        {names[id]: tape.rows for id, tape in tapes.items()},
        reservations(plan.operators(), splits),
    )


def _bounded(plan: PhysicalPlan, ends: Mapping[OperatorId, Positions | str]) -> PhysicalPlan:
    """Return the plan whose sources read only up to these positions."""

    def changed(planned: PlannedOperator) -> PlannedOperator:
        if not isinstance(planned.spec, SourceSpec):
            return planned
        positions = ends[planned.id]
        assert not isinstance(positions, str), "such a position was refused"
        source = reading_until(planned.spec.source, positions)
        return replace(planned, spec=replace(planned.spec, source=source))

    chains = [
        replace(chain, operators=tuple(changed(planned) for planned in chain.operators))
        for chain in plan.chains
    ]
    return replace(plan, chains=tuple(chains))


def _final_ms(planned: PlannedOperator, end: SparkCheckpoint) -> int | None:
    """Return the event time with which a source has the watermark of the query; None without one."""
    stamps = planned.spec.stamps
    return None if stamps is None or end.fired_ms <= 0 else end.fired_ms + stamps.bound_ms


def _ending(tape: Tape, final_ms: int | None) -> Tape:
    """Return the tape without the end of its input: the last split only pauses, because the query waits
    for more input, too."""
    last = len(tape.splits) - 1
    return Tape(
        tuple(
            replace(taped, end=TapeEnd.NOW, final_ms=final_ms)
            if at == last or taped.end is TapeEnd.NOW
            else taped
            for at, taped in enumerate(tape.splits)
        )
    )
