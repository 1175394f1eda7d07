"""Rows of state that are deleted along with their keys."""

from __future__ import annotations

import pyarrow as pa

from rheos.core.graph.nodes import StreamType
from rheos.core.operators.contract import PortType
from rheos.core.operators.rows_by_time import held_shapes
from rheos.core.protocol.ids import OperatorId
from rheos.ops.savepoints.deleting import DeletedKeys


def test_rows_of_a_stream_with_other_key_names_are_deleted() -> None:
    first = pa.schema([("id", pa.int64()), ("shop", pa.string())])
    second = pa.schema([("of", pa.string()), ("order", pa.int64())])
    ports = [
        PortType(StreamType(schema, event_time=True), keys, schema)
        for schema, keys in ((first, ("id", "shop")), (second, ("order", "of")))
    ]
    shapes = held_shapes(ports)
    of_second = pa.table({"of": ["rom", "ulm", "rom"], "order": [1, 1, 2]})
    for places, keys, left in (
        ([0], {1}, [2]),
        ([1], {"rom"}, [1]),
        ([0, 1], {(1, "rom")}, [1, 2]),
    ):
        deleted = DeletedKeys(OperatorId("match"), places, frozenset(keys))
        assert deleted.left(of_second, shapes["held 2"])["order"].to_pylist() == left
