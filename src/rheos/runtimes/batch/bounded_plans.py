"""Checks and changes to a plan before it runs on bounded input."""

from __future__ import annotations

import dataclasses

import pyarrow as pa

from rheos.core.connectors import capabilities
from rheos.core.errors import ConfigurationError, ProgramError, RheosError
from rheos.core.operators.source import SourceSpec
from rheos.core.plan.physical import Chain, PhysicalPlan, PlannedOperator
from rheos.core.protocol.elements import SWM


def bounded_plan(plan: PhysicalPlan) -> PhysicalPlan:
    """Return the plan for bounded input. Its replays have no pace: a batch job reads as fast as it can.
    Its rows carry no event-time progress (`__swm`), as it has all rows of a key before it delivers any.

    Raise ConfigurationError for a source that never ends, and ProgramError for something that has no
    meaning in a batch job.
    """
    for operator in plan.operators():
        try:
            operator.spec.check_bounded()
        except RheosError as error:
            raise error.located(site=operator.site, operator=operator.name) from None
    for edge in plan.edges:
        if edge.feedback:
            head = plan.chains[edge.target].operators[0]
            raise ProgramError(
                "the program has a loop, which a batch job does not support",
                site=head.site,
                operator=head.name,
                hint='use runtime="continuous": the job ends when its input has ended and the '
                "loop is empty",
            )
    return dataclasses.replace(plan, chains=tuple(_chain(chain) for chain in plan.chains))


def _chain(chain: Chain) -> Chain:
    chain = dataclasses.replace(chain, operators=tuple(map(_without_swm, chain.operators)))
    head = chain.operators[0]
    if not isinstance(head.spec, SourceSpec):
        return chain
    if not head.spec.source.bounded:
        raise ConfigurationError(
            "this source never ends, but the batch runtime needs its whole input",
            site=head.site,
            operator=head.name,
            hint='use runtime="continuous", or leave out the runtime',
        )
    watermark = head.spec.watermark
    if watermark is not None and watermark.on is None:
        raise ProgramError(
            "ingestion time is not available in a batch job, which reads all rows at once, and "
            "some of them again",
            site=head.site,
            operator=head.name,
            hint='use runtime="continuous", or a column: '
            'rh.Watermark.bounded_out_of_orderness("5s", on="at")',
        )
    spec = dataclasses.replace(head.spec, source=capabilities.unpaced(head.spec.source))
    return dataclasses.replace(
        chain, operators=(dataclasses.replace(head, spec=spec), *chain.operators[1:])
    )


def _without_swm(operator: PlannedOperator) -> PlannedOperator:
    ports = tuple(dataclasses.replace(port, schema=_drop_swm(port.schema)) for port in operator.ports)
    outputs = {
        tag: dataclasses.replace(output, schema=_drop_swm(output.schema))
        for tag, output in operator.outputs.items()
    }
    return dataclasses.replace(operator, ports=ports, outputs=outputs)


def _drop_swm(schema: pa.Schema) -> pa.Schema:
    return schema if SWM not in schema.names else schema.remove(schema.get_field_index(SWM))
