"""The comparison of two programs that continue from one checkpoint, over the same input."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import polars as pl
import pyarrow as pa

from rheos.core.checkpoint.checkpoint_copies import CopiedCheckpoint
from rheos.core.checkpoint.upgrade import Upgrade
from rheos.core.operators.sink import SinkSpec
from rheos.core.plan.effect_checks import refuse_outside_effects
from rheos.core.plan.physical import PhysicalPlan
from rheos.core.protocol.ids import JobId, OperatorId
from rheos.ops.control.started_program import StartedProgram
from rheos.ops.forks.difference import OutputDifference, difference
from rheos.ops.forks.first_difference import FirstDifference, first_difference
from rheos.ops.forks.input import CheckpointInput
from rheos.ops.forks.job_program import working_as
from rheos.ops.forks.reservations import Reservation, reservations
from rheos.ops.forks.side import CollectedOutput, observe_side, run_side
from rheos.runtimes.driver.sources_and_sinks import sources


@dataclass(frozen=True)
class ForkResult:
    """The result of a fork: `rh.fork`."""

    job: JobId
    checkpoint: int
    """Number of the checkpoint from which both programs continued."""
    rows_read: Mapping[str, int]
    """Number of rows of each source that both have read, by its name."""
    outputs: Mapping[str, OutputDifference]
    """Differences between the rows of each sink, by the sink's name, or by its id if names are
    equal."""
    notes: Sequence[str]
    """Changes apart from those of outputs, such as a changed source."""
    reservations: Sequence[Reservation]
    """Reasons for a difference other than the change."""
    old: Mapping[str, pa.Table] = field(repr=False)
    """All rows that the running program's sinks would have received, by the sink's name."""
    new: Mapping[str, pa.Table] = field(repr=False)
    first: FirstDifference | None = None
    """First operator of the plan whose rows differ; None if no rows differ."""

    @property
    def alike(self) -> bool:
        """Whether no output differs."""
        return all(output.alike for output in self.outputs.values())

    def __getitem__(self, sink: str) -> pl.DataFrame:
        """Return the differences of one sink's rows: see `OutputDifference.rows`."""
        return self.outputs[sink].rows


@dataclass(frozen=True)
class ComparedProgram:
    """One of the two programs."""

    plan: PhysicalPlan
    started: StartedProgram
    """Its file, and the folder in which its relative paths are found."""


def compare_programs(
    checkpoint: CopiedCheckpoint,
    running: ComparedProgram,
    changed: ComparedProgram,
    *,
    length_ms: int | None,
    key: tuple[str, ...],
    upgrade: Upgrade,
) -> ForkResult:
    """Run both programs from the checkpoint, and compare the rows of their sinks.

    Args:
        checkpoint: the checkpoint from which both continue.
        running: the job's program.
        changed: the program that is compared with it.
        length_ms: length of the input in ms of event time; None: what the sources have now.
        key: columns by which rows are compared, for sinks that have all of them.
        upgrade: treatment of state that does not fit the changed program.

    Raises:
        ConfigurationError: the input cannot be read alongside the job.
        CheckpointError: the checkpoint does not fit a program.
        RheosError: an error of one of the programs.
    """
    old, new, renamed = running.plan, changed.plan, upgrade.renamed
    for plan in (old, new):
        refuse_outside_effects(plan, "a fork")
    with working_as(running.started):
        input = CheckpointInput(checkpoint, old, length_ms)
        kept = run_side(old, checkpoint, input.tapes)
    with working_as(changed.started):
        tapes, notes = input.of(new, renamed)
        after = run_side(new, checkpoint, tapes, upgrade)
    before = {renamed.get(id, id): output for id, output in kept.items()}
    names = sink_names(old, new, renamed)
    notes += [
        f"only the {which} program has the sink {names[id]!r}: all of its rows are differences"
        for which, here, there in (("running", before, after), ("changed", after, before))
        for id in here
        if id not in there
    ]
    outputs = {
        name: difference(name, _asked(key, one, other) or _key(before, after, id), one, other)
        for id, name in names.items()
        for one, other in [(_rows(before, after, id), _rows(after, before, id))]
    }
    first = None
    if any(output.rows.height for output in outputs.values()):
        with working_as(running.started):
            observed = observe_side(old, checkpoint, input.tapes)
        with working_as(changed.started):
            first = first_difference(observed, observe_side(new, checkpoint, tapes, upgrade), renamed)
    splits = sum(len(tape.splits) for tape in tapes.values())
    doubts = [*reservations(old.operators(), splits), *reservations(new.operators(), splits)]
    return ForkResult(
        checkpoint.savepoint.job,
        checkpoint.savepoint.entry.checkpoint,
        {planned.name: tapes[planned.id].rows for planned, _ in sources(new)},
        outputs,
        notes,
        list(dict.fromkeys(doubts)),
        {names[id]: output.rows for id, output in before.items()},
        {names[id]: output.rows for id, output in after.items()},
        first,
    )


_Outputs = Mapping[OperatorId, CollectedOutput]


def sink_names(
    old: PhysicalPlan, new: PhysicalPlan, renamed: Mapping[OperatorId, OperatorId]
) -> dict[OperatorId, str]:
    """Return the label of each sink of two programs: its name, or its id if several have the same name.
    `renamed` has new ids by old ids; the result has the new ones."""
    sinks = {
        renamed.get(each.id, each.id) if plan is old else each.id: each.name
        for plan in (old, new)
        for each in plan.operators()
        if isinstance(each.spec, SinkSpec)
    }
    often = Counter(sinks.values())
    return {id: name if often[name] == 1 else str(id) for id, name in sinks.items()}


def _rows(side: _Outputs, other: _Outputs, id: OperatorId) -> pa.Table:
    return side[id].rows if id in side else other[id].rows.schema.empty_table()


def _asked(key: tuple[str, ...], *tables: pa.Table) -> tuple[str, ...]:
    """Return the requested columns if the sink has all of them; otherwise no columns."""
    return key if all(name in table.column_names for table in tables for name in key) else ()


def _key(before: _Outputs, after: _Outputs, id: OperatorId) -> tuple[str, ...]:
    """Return the key of the changed program if both outputs have its columns, or else that of the
    running program."""
    for one, other in ((after, before), (before, after)):
        if id in one and (id not in other or set(one[id].key) <= set(other[id].rows.column_names)):
            return one[id].key
    return ()
