"""`process` of a stream without a key."""

from __future__ import annotations

from typing import Any

from rheos.api.function_checks import check_function, check_outputs, emitted_type, side_types
from rheos.api.streams import DataStream, operator_name
from rheos.api.typing_of_functions import Declared, input_record
from rheos.core.graph.connected_functions import ProcessFunction
from rheos.core.graph.nodes import MAIN, Input, StreamType
from rheos.core.operators.plain_process import PlainProcessSpec
from rheos.core.site import call_site


def processed(stream: DataStream, fn: Any, returns: Any) -> DataStream:
    """The stream that leaves the function. Raises ProgramError."""
    methods = ["process_element"]
    instead = "; for a plain function use .map(...) or .flat_map(...)"
    check_function(fn, ProcessFunction, methods, instead=instead)
    declared = emitted_type(fn, ProcessFunction, methods, returns)
    sides = side_types(fn)
    check_outputs(fn, declared, sides, methods[0])
    before = stream._type

    def like(of: Declared) -> StreamType:
        return StreamType(of.schema, before.event_time, of.record, time_changed=before.time_changed)

    spec = PlainProcessSpec(fn, input_record(fn.process_element, stream.schema), tuple(sides))
    node = stream._program.add(
        spec,
        name=operator_name("process", fn),
        site=call_site(),
        inputs=(stream._port,),
        outputs={MAIN: like(declared), **{tag: like(side) for tag, side in sides.items()}},
    )
    return DataStream(stream._program, Input(node.id))
