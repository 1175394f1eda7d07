"""Operators with several ports, each defined in one file here, on every runtime."""

from __future__ import annotations

import pyarrow as pa

from rheos.api.streams import DataStream
from rheos.core.graph.nodes import MAIN, Input, Spec, StreamType
from rheos.core.site import call_site


def connected(
    spec: Spec, of: DataStream, *inputs: Input, schema: pa.Schema, event_time: bool
) -> DataStream:
    """Add a node with several inputs to the program, as a method of the API would."""
    node = of._program.add(
        spec,
        name=spec.kind,
        site=call_site(),
        inputs=inputs,
        outputs={MAIN: StreamType(schema, event_time)},
    )
    return DataStream(of._program, Input(node.id))
