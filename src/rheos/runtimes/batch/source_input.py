"""How a source's operator gets its rows within a Spark task."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa

from rheos.connectors.contract import Split
from rheos.graph.nodes import SourceSpec
from rheos.operators.contract import OperatorContext
from rheos.operators.source import SourceOperator


@dataclass(frozen=True)
class SplitInput:
    """The source's own reader: the partition's one row is the number of its split."""

    splits: tuple[Split, ...]


SourceInput: TypeAlias = SplitInput
"""What the driver ships to tell a source's chain how its partition's rows are to be read."""


def source_operator(
    ctx: OperatorContext, spec: SourceSpec, feed: SourceInput, inbox: Iterator[pa.RecordBatch]
) -> SourceOperator:
    """The operator of the partition, not open yet. `inbox` is what Spark hands to the task."""
    numbers = [number for rows in inbox for number in rows.column(0).to_pylist()]
    return SourceOperator(ctx, spec, [feed.splits[number] for number in numbers])
