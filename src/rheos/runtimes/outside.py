"""What the driver does by itself at a job's sources and sinks: look what input there is, and publish on
recovery what the log promises."""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import replace

from rheos.checkpoint.log import CheckpointCompleted, safe_name
from rheos.connectors.contract import Split
from rheos.errors import CheckpointError, RheosError
from rheos.graph.nodes import SinkSpec, SourceSpec
from rheos.plan.physical import Chain, PhysicalPlan, PlannedOperator
from rheos.protocol.ids import Attempt, JobId, OperatorId


def staged_sources(plan: PhysicalPlan, folder: str) -> PhysicalPlan:
    """The plan with its sources made ready to be read again, each below a folder of its own. Raises
    RheosError, with the user's line."""
    return replace(plan, chains=tuple(_staged_chain(chain, folder) for chain in plan.chains))


def _staged_chain(chain: Chain, folder: str) -> Chain:
    head = chain.operators[0]
    if not isinstance(head.spec, SourceSpec):
        return chain
    with _located(head):
        source = head.spec.source.staged(f"{folder.rstrip('/')}/{safe_name(head.id)}")
    spec = replace(head.spec, source=source)
    return replace(chain, operators=(replace(head, spec=spec), *chain.operators[1:]))


def enumerate_splits(plan: PhysicalPlan) -> dict[OperatorId, Sequence[Split]]:
    """The splits of every source. Raises InputError, with the user's line, where input is missing."""
    splits: dict[OperatorId, Sequence[Split]] = {}
    for planned in plan.operators():
        if isinstance(planned.spec, SourceSpec):
            with _located(planned):
                splits[planned.id] = planned.spec.source.splits()
    return splits


def publish(
    plan: PhysicalPlan, job: JobId, attempt: Attempt, checkpoint: CheckpointCompleted | None
) -> None:
    """Commits what the checkpoint lists and aborts what attempts before `attempt` staged beside it.

    Raises RheosError, with the sink's place.
    """
    committables: dict[OperatorId, list[bytes]] = {}
    for handle in checkpoint.committables if checkpoint else ():
        committables.setdefault(handle.operator, []).append(handle.payload)
    sinks = [
        (planned, committer, committables.get(planned.id, []))
        for planned in plan.operators()
        if isinstance(planned.spec, SinkSpec)
        and (committer := planned.spec.sink.committer()) is not None
    ]
    # Sinks may share a place: so all of them commit before any clears what is stale.
    for planned, committer, payloads in sinks:
        if payloads:
            with _located(planned), _publishing():
                committer.commit(payloads)
    for planned, committer, payloads in sinks:
        with _located(planned), _publishing():
            committer.abort_stale(job, attempt, payloads)


@contextlib.contextmanager
def _publishing() -> Iterator[None]:
    """Within it, what a committer raises becomes a CheckpointError."""
    try:
        yield
    except RheosError:
        raise
    except Exception as error:
        raise CheckpointError(
            f"the sink could not publish what the last checkpoint staged: {error}",
            hint="it is tried again by the restart strategy; look to the sink's target",
            detail=traceback.format_exc(),
        ) from error


@contextlib.contextmanager
def _located(planned: PlannedOperator) -> Iterator[None]:
    try:
        yield
    except RheosError as error:
        error.located(site=planned.site, operator=planned.name)
        raise
