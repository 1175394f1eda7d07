"""The plan of a sample: the job's plan with sinks that discard, and sources that are read safely."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from rheos.connectors.blackhole import BlackholeSink
from rheos.connectors.generator import GeneratorSource
from rheos.connectors.source_wrapper import WrappedSource
from rheos.core.connectors import capabilities
from rheos.core.connectors.contract import ReaderContext, Source, SourceClient, Split, SplitReader
from rheos.core.errors import ConfigurationError
from rheos.core.graph.nodes import MAIN
from rheos.core.operators.contract import PortType
from rheos.core.operators.sink import SinkSpec
from rheos.core.operators.source import SourceSpec
from rheos.core.plan.effect_checks import refuse_outside_effects
from rheos.core.plan.physical import (
    Chain,
    Edge,
    Exchange,
    PhysicalPlan,
    PlannedOperator,
    Route,
    ToEdge,
    ToOperator,
)
from rheos.core.protocol import wire
from rheos.core.protocol.ids import OperatorId
from rheos.ops.planning.key_counts import KeyCountSpec
from rheos.ops.planning.measurement import CostedChain, ExchangedEdge
from rheos.ops.planning.paced_source import PacedSource

_COUNTER = "key-count-"


@dataclass(frozen=True)
class SourcePace:
    """The rate of a source in a sample."""

    rate_per_s: float
    """Rows per second of all splits."""
    splits: int
    """Number of splits that emit rows at the same time."""


def sampled_plan(
    plan: PhysicalPlan, *, counts_keys: bool = False, paces: Mapping[str, SourcePace] | None = None
) -> PhysicalPlan:
    """Return the plan that the sample runs.

    Args:
        plan: The job's plan.
        counts_keys: Whether operators are added that count the keys of keyed edges.
        paces: Rates of the sources, by the id of the operator. All others are read without a limit.

    Raises:
        ConfigurationError: only one reader may use a source, or an operator acts on another system.
            The error has the line of the source or operator.
    """
    refuse_outside_effects(plan, "a sample")
    chains = [
        replace(chain, operators=tuple(_sampled(each, paces or {}) for each in chain.operators))
        for chain in plan.chains
    ]
    if counts_keys:
        keyed = {edge.id: edge for edge in plan.edges if edge.exchange is Exchange.HASH and edge.keys}
        chains = [_with_counters(chain, keyed) for chain in chains]
    return replace(plan, chains=tuple(chains))


def counted_edge(operator: str) -> int | None:
    """Return the edge whose keys an operator of the sample counts, by the operator's id; None for the
    operators of the job."""
    return int(operator.removeprefix(_COUNTER)) if operator.startswith(_COUNTER) else None


def planned_chains(
    plan: PhysicalPlan, splits: Mapping[str, int], compiled: Collection[int] = ()
) -> tuple[CostedChain, ...]:
    """Return the chains of a job's plan.

    Args:
        plan: The plan.
        splits: Fixed number of splits of sources, by the id of the operator.
        compiled: Chains that call compiled functions.
    """
    keyed = {edge.target for edge in plan.edges if edge.exchange is Exchange.HASH}
    return tuple(
        CostedChain(
            id=chain.id,
            operators=tuple(operator.name for operator in chain.operators),
            site=str(chain.operators[0].site),
            keyed=chain.id in keyed,
            compiled=chain.id in compiled,
            widest=chain.widest,
            splits=splits.get(str(chain.operators[0].id)),
        )
        for chain in plan.chains
    )


def planned_edges(plan: PhysicalPlan) -> tuple[ExchangedEdge, ...]:
    schemas = plan.edge_schemas()
    return tuple(
        ExchangedEdge(
            id=edge.id,
            source=edge.source,
            target=edge.target,
            remote=edge.exchange is not Exchange.FORWARD,
            broadcast=edge.exchange is Exchange.BROADCAST,
            frame_bytes=_frame_bytes(schemas[edge.id]) if edge.id in schemas else 0.0,
        )
        for edge in plan.edges
    )


def _frame_bytes(schema: pa.Schema) -> float:
    """Return the bytes of a batch without rows, as slots send it to each other."""
    empty = pa.RecordBatch.from_pylist([], schema=schema)
    return float(wire.HEADER_BYTES + wire.encode_batch(empty).size)


# --- sources and sinks ------------------------------------------------------------------------------


def _sampled(planned: PlannedOperator, paces: Mapping[str, SourcePace]) -> PlannedOperator:
    spec = planned.spec
    if isinstance(spec, SinkSpec):
        return replace(planned, spec=replace(spec, sink=BlackholeSink()))
    if isinstance(spec, SourceSpec):
        source = _readable(spec.source, planned, paces.get(str(planned.id)))
        return replace(planned, spec=replace(spec, source=source))
    return planned


def _readable(source: Source, planned: PlannedOperator, pace: SourcePace | None) -> Source:
    if (why := capabilities.reads_alone(source)) is not None:
        raise ConfigurationError(
            f"{source.describe()} cannot be read for a sample: {why}",
            hint="pass a program whose source has recorded rows, such as files",
        ).located(site=planned.site, operator=planned.name)
    unpaced = capabilities.unpaced(source)
    if isinstance(unpaced, GeneratorSource):
        return replace(unpaced, rate_per_s=None if pace is None else pace.rate_per_s)
    silent = _SilentSource(unpaced) if isinstance(unpaced, capabilities.SharesClient) else unpaced
    return silent if pace is None else PacedSource(silent, pace.rate_per_s / pace.splits)


@dataclass(frozen=True, eq=False)
class _SilentSource(WrappedSource):
    """A source whose client is not notified of checkpoints, so that it confirms no rows of the job."""

    def client(self, ctx: ReaderContext) -> SourceClient | None:
        client = capabilities.shared_client(self.source, ctx)
        return None if client is None else _SilentClient(client)

    def open(self, split: Split, position: bytes | None, ctx: ReaderContext) -> SplitReader:
        if isinstance(ctx.client, _SilentClient):
            ctx = replace(ctx, client=ctx.client.client)
        return self.source.open(split, position, ctx)


class _SilentClient(SourceClient):
    def __init__(self, client: SourceClient) -> None:
        self.client = client

    def close(self) -> None:
        self.client.close()


# --- counters of keys -------------------------------------------------------------------------------


def _with_counters(chain: Chain, keyed: Mapping[int, Edge]) -> Chain:
    """Return the chain with a counter before each of its keyed edges."""
    operators = list(chain.operators)
    for place, planned in enumerate(chain.operators):
        routes: dict[str, tuple[Route, ...]] = {}
        for tag, targets in planned.routes.items():
            changed: list[Route] = []
            for target in targets:
                edge = keyed.get(target.edge) if isinstance(target, ToEdge) else None
                if edge is None:
                    changed.append(target)
                else:
                    changed.append(ToOperator(len(operators)))
                    operators.append(_counter(planned, tag, edge))
            routes[tag] = tuple(changed)
        operators[place] = replace(planned, routes=routes)
    return replace(chain, operators=tuple(operators))


def _counter(planned: PlannedOperator, tag: str, edge: Edge) -> PlannedOperator:
    output = planned.outputs[tag]
    return PlannedOperator(
        id=OperatorId(f"{_COUNTER}{edge.id}"),
        name=f"{_COUNTER}{edge.id}",
        site=planned.site,
        spec=KeyCountSpec(edge.keys),
        ports=(PortType(output.type, (), output.schema),),
        outputs={MAIN: output},
        routes={MAIN: (ToEdge(edge.id),)},
    )
