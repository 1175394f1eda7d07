"""The driver's own work at a job's sources and sinks: listing the input, and publishing on recovery the
output that the log promises."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from rheos.connectors.calls.bounded_calls import UNDER_WAY
from rheos.core.checkpoint.events import WatchedSource
from rheos.core.checkpoint.log_entries import CheckpointCompleted
from rheos.core.checkpoint.names import safe_name
from rheos.core.connectors import capabilities, sink_capabilities
from rheos.core.connectors.capabilities import StagesRows
from rheos.core.connectors.contract import Committer, Sink, Source, Split
from rheos.core.connectors.outages import unpublished
from rheos.core.connectors.sink_capabilities import StagesOutput
from rheos.core.errors import ConfigurationError, InputError, RheosError, UnavailableError
from rheos.core.operators.sink import SinkSpec
from rheos.core.operators.source import SourceSpec
from rheos.core.plan.physical import Chain, PhysicalPlan, PlannedOperator
from rheos.core.protocol.control import CommittableHandle
from rheos.core.protocol.elements import visible
from rheos.core.protocol.ids import Attempt, JobId, OperatorId
from rheos.core.protocol.shapes import TypeShape
from rheos.core.safe_strings import formatted_traceback, named_error

_USUAL_S = 60.0
"""Time that a connector's call on the driver may take before it counts as waiting for a server."""

LOGGER = logging.getLogger("rheos")


def sources(plan: PhysicalPlan) -> list[tuple[PlannedOperator, Source]]:
    return [
        (planned, planned.spec.source)
        for planned in plan.operators()
        if isinstance(planned.spec, SourceSpec)
    ]


def stages(plan: PhysicalPlan) -> bool:
    """Return whether a source of the plan stages rows, or may."""
    return any(isinstance(source, StagesRows) for _, source in sources(plan))


def runs_streaming_queries(plan: PhysicalPlan) -> bool:
    """Return whether Spark queries run alongside the job for as long as it runs."""
    return any(
        not stream.bounded for _, source in sources(plan) for stream in capabilities.queries(source)
    )


def as_of_now(plan: PhysicalPlan) -> PhysicalPlan:
    """Return the plan of a run that stops with the current input of its sources. If all sources are
    bounded, that is the plan itself. Raise RheosError, with the user's line."""
    if all(source.bounded for _, source in sources(plan)):
        return plan

    def until_now(planned: PlannedOperator, spec: SourceSpec) -> SourceSpec:
        return replace(spec, source=capabilities.until_now(spec.source), until_now=True)

    return replace(plan, chains=tuple(_with_source(chain, until_now) for chain in plan.chains))


def read_until_now(plan: PhysicalPlan) -> frozenset[OperatorId]:
    """Return all sources of a run that stops with its current input; none for another run."""
    return frozenset(
        planned.id
        for planned in plan.operators()
        if isinstance(planned.spec, SourceSpec) and planned.spec.until_now
    )


def staged_sources(plan: PhysicalPlan, folder: str) -> PhysicalPlan:
    """Return the plan with sources that can be read repeatedly, each staged below a folder of its own.
    The caller ends them with `release_sources`. Raise RheosError, with the user's line."""
    staged: list[Chain] = []
    try:
        for chain in plan.chains:
            ready = _staged_chain(chain, folder)
            staged.append(ready)
    except BaseException:
        release_sources(replace(plan, chains=tuple(staged)))
        raise
    return replace(plan, chains=tuple(staged))


def release_sources(plan: PhysicalPlan) -> None:
    """End everything that the sources have started next to the job. Called when the job has ended."""
    for _, source in sources(plan):
        with contextlib.suppress(Exception):
            capabilities.release(source)


def refuse_streams(plan: PhysicalPlan, hint: str) -> None:
    """Refuse sources with queries, for runtimes in which no query can run next to the job. Raise
    ConfigurationError, with the user's line."""
    for planned, source in sources(plan):
        if any(not stream.bounded for stream in capabilities.queries(source)):
            raise ConfigurationError(
                "a Spark stream is read by a query that runs in real time, alongside the job",
                site=planned.site,
                operator=planned.name,
                hint=hint,
            )


def _staged_chain(chain: Chain, folder: str) -> Chain:
    def staged(planned: PlannedOperator, spec: SourceSpec) -> SourceSpec:
        source = capabilities.staged(spec.source, f"{folder.rstrip('/')}/{safe_name(planned.id)}")
        return replace(spec, source=source)

    return _with_source(chain, staged)


def _with_source(chain: Chain, changed: Callable[[PlannedOperator, SourceSpec], SourceSpec]) -> Chain:
    """Return the chain with its source changed, if it has one."""
    head = chain.operators[0]
    if not isinstance(head.spec, SourceSpec):
        return chain
    with _located(head):
        spec = changed(head, head.spec)
    return replace(chain, operators=(replace(head, spec=spec), *chain.operators[1:]))


def enumerate_splits(plan: PhysicalPlan) -> dict[OperatorId, Sequence[Split]]:
    """Return the splits of every source. Raise InputError, with the user's line, if input is missing.
    Log a warning for a source without splits that should have some now."""
    splits: dict[OperatorId, Sequence[Split]] = {}
    for planned, source in sources(plan):
        with _located(planned):
            found = splits[planned.id] = source.splits()
        if not found and (warning := _nothing_found(planned, source)) is not None:
            LOGGER.warning("%s", warning)
    return splits


def _nothing_found(planned: PlannedOperator, source: Source) -> RheosError | None:
    """Return the warning about a source without splits; None if it need not have any now."""
    warning = capabilities.nothing_found(source)
    return None if warning is None else warning.located(site=planned.site, operator=planned.name)


def watched_sources(
    plan: PhysicalPlan, splits: Mapping[OperatorId, Sequence[Split]]
) -> dict[OperatorId, WatchedSource]:
    """Return the sources that are listed again while the job runs. `splits` are the initial ones."""
    return {
        planned.id: WatchedSource(
            every_ms,
            frozenset(split.id for split in splits.get(planned.id, ())),
            planned.name,
            forgets=capabilities.forget_ms(source) is not None,
            nothing_found=_nothing_found(planned, source),
        )
        for planned, source in sources(plan)
        if (every_ms := capabilities.discovery_ms(source)) is not None
    }


def discovered(planned: PlannedOperator) -> tuple[Split, ...]:
    """Return the current splits of a watched source. May take long. Raise RheosError, with the user's
    line."""
    assert isinstance(planned.spec, SourceSpec)
    source = planned.spec.source
    with _located(planned):
        try:
            splits = tuple(capabilities.discovered(source))
        except RheosError:
            raise
        except Exception as error:
            raise InputError(
                f"new splits of {source.describe()} cannot be listed: {named_error(error)}",
                hint="several tries failed: check that the driver can reach the input",
                detail=formatted_traceback(error),
            ) from error
        for split in splits:
            if not isinstance(split, Split) or split.phase != capabilities.discovery_phase(source):
                raise InputError(
                    f"{source.describe()} discovered something that is not one of its splits: "
                    f"{split!r}",
                    hint="all splits that `discover` returns must have the phase `discovery_phase`",
                )
    return splits


def prepared_sinks(plan: PhysicalPlan) -> PhysicalPlan:
    """Return the plan with sinks prepared for writing. Raise RheosError, with the user's line."""

    def prepared(planned: PlannedOperator, sink: Sink) -> Sink:
        return sink_capabilities.prepared(
            sink, visible(planned.ports[0].schema), (plan.name, planned.id)
        )

    return _with_sinks(plan, prepared)


def _with_sinks(plan: PhysicalPlan, changed: Callable[[PlannedOperator, Sink], Sink]) -> PhysicalPlan:
    """Return the plan with each sink replaced by the result of `changed`."""

    def with_sink(planned: PlannedOperator) -> PlannedOperator:
        if not isinstance(planned.spec, SinkSpec):
            return planned
        with _located(planned):
            sink = changed(planned, planned.spec.sink)
        return replace(planned, spec=replace(planned.spec, sink=sink))

    chains = tuple(
        replace(chain, operators=tuple(map(with_sink, chain.operators))) for chain in plan.chains
    )
    return replace(plan, chains=chains)


def sinks_stage(plan: PhysicalPlan) -> bool:
    """Return whether a sink of the plan needs a folder for uncommitted output, or may."""
    sinks = (each.spec.sink for each in plan.operators() if isinstance(each.spec, SinkSpec))
    return any(isinstance(sink, StagesOutput) for sink in sinks)


def staged_sinks(plan: PhysicalPlan, folder: str) -> PhysicalPlan:
    """Return the plan in which each sink has a folder below `folder` for uncommitted output."""
    return _with_sinks(
        plan,
        lambda planned, sink: sink_capabilities.staged_sink(
            sink, f"{folder.rstrip('/')}/{safe_name(planned.id)}"
        ),
    )


def published_here(plan: PhysicalPlan) -> frozenset[OperatorId]:
    """Return the sinks whose output the driver publishes."""
    return frozenset(
        planned.id
        for planned, committer in _committers(plan)
        if sink_capabilities.commits_on_driver(committer)
    )


def publishes(plan: PhysicalPlan) -> bool:
    """Return whether a sink of the plan commits what it has staged."""
    return bool(_committers(plan))


def targets(plan: PhysicalPlan) -> dict[OperatorId, TypeShape]:
    """Return the column types of the targets of sinks that do not own their target."""
    return {
        planned.id: target
        for planned in plan.operators()
        if isinstance(planned.spec, SinkSpec)
        and (target := sink_capabilities.target_shape(planned.spec.sink)) is not None
    }


def check_targets(plan: PhysicalPlan) -> None:
    """Check the targets of a job without earlier state. Raise ConfigurationError, with the user's line,
    if a sink must not add to existing output."""
    for planned, committer in _committers(plan):
        with _located(planned):
            sink_capabilities.check_target(committer)


def begin_targets(plan: PhysicalPlan) -> None:
    """Prepare the sinks' targets for the rows of a job without earlier state, before any row is
    published. Raise RheosError, with the user's line."""
    for planned, committer in _committers(plan):
        with _located(planned), _publishing():
            sink_capabilities.begin_target(committer)


def publish_listed(plan: PhysicalPlan, log: str, listed: Iterable[CommittableHandle]) -> None:
    """Commit what sinks have staged. A sink whose target is unavailable does not hold up the others.

    Args:
        plan: the job's plan.
        log: the identity of the job's log.
        listed: the committables that a checkpoint lists.

    Raise RheosError, with the place of the first sink that could not commit.
    """
    payloads = _by_operator(listed)
    unavailable: RheosError | None = None
    for planned, committer in _committers(plan):
        if planned.id not in payloads:
            continue
        try:
            with _located(planned), _publishing():
                sink_capabilities.of_log(committer, log).commit(payloads[planned.id])
        except UnavailableError as error:
            unavailable = unavailable or error
    if unavailable is not None:
        raise unavailable


def publish(
    plan: PhysicalPlan, job: JobId, log: str, attempt: Attempt, checkpoint: CheckpointCompleted | None
) -> None:
    """Commit the checkpoint's committables, and abort other output that earlier attempts have staged.
    Raise RheosError, with the sink's place."""
    # Sinks may share a target: so all of them commit before any aborts stale output.
    publish_listed(plan, log, checkpoint.committables if checkpoint else [])
    abort_stale(plan, job, attempt, checkpoint)


def abort_stale(
    plan: PhysicalPlan, job: JobId, attempt: Attempt, checkpoint: CheckpointCompleted | None
) -> None:
    """Abort what attempts before `attempt` staged, except what the checkpoint lists. Raise RheosError,
    with the sink's place."""
    payloads = _by_operator(checkpoint.committables if checkpoint else [])
    for planned, committer in _committers(plan):
        with _located(planned), _publishing():
            committer.abort_stale(job, attempt, payloads.get(planned.id, []))


def _committers(plan: PhysicalPlan) -> list[tuple[PlannedOperator, Committer]]:
    return [
        (planned, committer)
        for planned in plan.operators()
        if isinstance(planned.spec, SinkSpec)
        and (committer := planned.spec.sink.committer()) is not None
    ]


def _by_operator(listed: Iterable[CommittableHandle]) -> dict[OperatorId, list[bytes]]:
    payloads: dict[OperatorId, list[bytes]] = {}
    for handle in listed:
        payloads.setdefault(handle.operator, []).append(handle.payload)
    return payloads


@contextlib.contextmanager
def _publishing() -> Iterator[None]:
    """Turn an error of a committer in the block into a RheosError."""
    try:
        yield
    except RheosError:
        raise
    except Exception as error:
        raise unpublished(error, "the last checkpoint") from error


@contextlib.contextmanager
def _located(planned: PlannedOperator) -> Iterator[None]:
    """Add the operator's place to errors of the block, and report a call that does not return."""
    try:
        with UNDER_WAY.watched(f"the connector of {planned.name!r}", _USUAL_S):
            yield
    except RheosError as error:
        error.located(site=planned.site, operator=planned.name)
        raise
