"""Compares the output of a job with that of a changed program: `fork`.

It copies the job's newest checkpoint into memory, and records the subsequent input on tapes. Both
programs, the running one and the changed one, continue from the same checkpoint over the same tapes,
with sinks that only collect. So the difference is exact, whatever the job has read meanwhile. No file
of the job is opened for writing.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import msgspec
import polars as pl
import pyarrow as pa

from rheos.connectors.collect import CollectSink
from rheos.connectors.urls import absolute
from rheos.core.checkpoint.checkpoint_copies import CopiedCheckpoint, newest_checkpoint
from rheos.core.checkpoint.config import CheckpointConfig
from rheos.core.checkpoint.upgrade import NOTHING_ALLOWED, Upgrade
from rheos.core.errors import ConfigurationError
from rheos.core.operators.sink import SinkSpec
from rheos.core.operators.source import SourceSpec
from rheos.core.plan.effect_checks import refuse_outside_effects
from rheos.core.plan.physical import Chain, PhysicalPlan, PlannedOperator
from rheos.core.protocol.durations import Duration, duration_ms
from rheos.core.protocol.ids import ChainId, JobId, OperatorId
from rheos.core.protocol.state_config import NewAggregates
from rheos.ops.forks.difference import OutputDifference, difference
from rheos.ops.forks.input import CheckpointInput
from rheos.ops.forks.job_program import job_program, planned, savepoint_of, working_as
from rheos.ops.forks.reservations import Reservation, reservations
from rheos.ops.forks.tape import Tape, TapedSource, state_backend
from rheos.runtimes.driver.sources_and_sinks import sources
from rheos.runtimes.job import JobConfig
from rheos.runtimes.simulated.faults import Requests
from rheos.runtimes.simulated.world import World

# --- one side: a program that continues from a checkpoint, over taped input ---------------------------


_WINDOW = ("window_start", "window_end")


@dataclass(frozen=True)
class SinkOutput:
    """The rows that a side's sink would have received."""

    name: str
    key: tuple[str, ...]
    """Columns that identify its rows: the last key upstream of the sink, and the ends of windows. Empty
    if its rows have no key."""
    rows: pa.Table


def run_side(
    plan: PhysicalPlan,
    checkpoint: CopiedCheckpoint,
    tapes: Mapping[OperatorId, Tape],
    upgrade: Upgrade = NOTHING_ALLOWED,
) -> dict[OperatorId, SinkOutput]:
    """Return the outputs, by sink. `tapes` has one for each source of the plan. Raise CheckpointError
    if the checkpoint does not fit the program, and the program's own errors."""
    result = world_of(_taped(plan, tapes), checkpoint, upgrade).run()
    return {
        sink.id: SinkOutput(sink.name, _key_of_sink(plan, chain, rows.column_names), rows)
        for chain in plan.chains
        for sink in _sinks(chain)
        for rows in [result.collected[sink.id]]
    }


def world_of(plan: PhysicalPlan, checkpoint: CopiedCheckpoint, upgrade: Upgrade) -> World:
    """Return a world in which the plan, whose sources are tapes, continues from the checkpoint until
    the tapes are read."""
    folder = checkpoint.savepoint.id
    config = JobConfig(
        job=checkpoint.savepoint.job,
        checkpoint=CheckpointConfig(interval_ms=None),
        from_savepoint=folder,
        allow_dropped=upgrade.allow_dropped,
        state=replace(state_backend(checkpoint), new_aggregates=upgrade.new_aggregates),
        history=None,
        until_now=True,
    )
    return World(
        plan,
        config,
        seed=0,
        # It stops once the tapes are read, and is not started again.
        requests=Requests(leave=1.0),
        files={f"{folder}/{path}": data for path, data in checkpoint.files.items()},
        max_turns=None,
    )


def _sinks(chain: Chain) -> list[PlannedOperator]:
    return [planned for planned in chain.operators if isinstance(planned.spec, SinkSpec)]


def _taped(plan: PhysicalPlan, tapes: Mapping[OperatorId, Tape]) -> PhysicalPlan:
    """Return the plan with tapes and collecting sinks, in one subtask, so that rows have one order."""

    def changed(planned: PlannedOperator) -> PlannedOperator:
        if isinstance(planned.spec, SourceSpec):
            source = TapedSource(planned.spec.source, tapes[planned.id])
            return replace(planned, spec=replace(planned.spec, source=source))
        if isinstance(planned.spec, SinkSpec):
            # Collected rows are identified by the sink's name, and names need not be unique.
            return replace(planned, name=planned.id, spec=SinkSpec(CollectSink()))
        return planned

    chains = [
        replace(chain, operators=tuple(changed(planned) for planned in chain.operators))
        for chain in plan.chains
    ]
    return replace(plan, chains=tuple(chains), parallelism=1)


def _key_of_sink(plan: PhysicalPlan, chain: Chain, columns: Sequence[str]) -> tuple[str, ...]:
    """Return the columns that identify the rows of a chain; empty if they have no single key."""
    found = _keys_before(plan, chain.id)
    if len(found) != 1:
        return ()
    (keys,) = found
    known = (*keys, *(name for name in _WINDOW if name not in keys and name in columns))
    return known if all(name in columns for name in known) else ()


def _keys_before(plan: PhysicalPlan, chain: ChainId) -> set[tuple[str, ...]]:
    """Return the keys of the last shuffles upstream of the chain, one for each path."""
    found: set[tuple[str, ...]] = set()
    for edge in plan.edges:
        if edge.target == chain and not edge.feedback:
            found |= {edge.keys} if edge.keys else _keys_before(plan, edge.source)
    return found


# --- the comparison -----------------------------------------------------------------------------------


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

    @property
    def alike(self) -> bool:
        """Whether no output differs."""
        return all(output.alike for output in self.outputs.values())

    def __getitem__(self, sink: str) -> pl.DataFrame:
        """Return the differences of one sink's rows: see `OutputDifference.rows`."""
        return self.outputs[sink].rows


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

    Returns:
        The differences, by sink.

    Raises:
        ConfigurationError: The job or checkpoint does not exist, or the input cannot be read alongside
            the job.
        CheckpointError: The checkpoint does not fit the program.
        RheosError: An error of one of the programs.
    """
    found = job_program(job, checkpoint_dir, against)
    if from_savepoint is None:
        checkpoint = newest_checkpoint(found.store, found.job)
    else:
        checkpoint = savepoint_of(found.job, absolute(from_savepoint))
    length_ms = None if for_ is None else duration_ms(for_)
    if length_ms is not None and length_ms <= 0:
        raise ConfigurationError(
            f"the duration of a fork must be greater than 0, not {for_!r}",
            hint='pass a longer one, such as "10m"',
        )
    running = found.started
    changed = msgspec.structs.replace(
        running,
        file=str(Path(program).absolute()),
        arguments=running.arguments if arguments is None else list(arguments),
        parameters={**running.parameters, **(parameters or {})},
    )
    upgrade = Upgrade(allow_dropped, None if new_aggregates is None else NewAggregates(new_aggregates))
    # Relative paths in the programs must mean the same as in the running job.
    with working_as(running):
        old, new = planned(running), planned(changed)
        for plan in (old, new):
            refuse_outside_effects(plan, "a fork")
        return _compared(checkpoint, old, new, length_ms, tuple(key), upgrade)


# --- the comparison of both sides -----------------------------------------------------------------


def _compared(
    checkpoint: CopiedCheckpoint,
    old: PhysicalPlan,
    new: PhysicalPlan,
    length_ms: int | None,
    key: tuple[str, ...],
    upgrade: Upgrade,
) -> ForkResult:
    input = CheckpointInput(checkpoint, old, length_ms)
    tapes, notes = input.of(new)
    before = run_side(old, checkpoint, input.tapes)
    after = run_side(new, checkpoint, tapes, upgrade)
    names = _names({**before, **after})
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
    )


_Outputs = Mapping[OperatorId, SinkOutput]


def _names(outputs: _Outputs) -> dict[OperatorId, str]:
    """Return the label of each sink: its name, or its id if several have the same name."""
    often = Counter(output.name for output in outputs.values())
    return {id: output.name if often[output.name] == 1 else str(id) for id, output in outputs.items()}


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
