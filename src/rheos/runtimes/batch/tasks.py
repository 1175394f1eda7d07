"""Descriptions that the driver sends to the tasks of a batch job: their chain, its input and output."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import pyarrow as pa

from rheos.core.graph.job_context import JobContext
from rheos.core.graph.row_distribution import PartitionBy
from rheos.core.plan.physical import Chain, Edge, PlannedOperator
from rheos.core.protocol.ids import JobId
from rheos.core.protocol.state_config import StateConfig
from rheos.runtimes.batch.source_input import SourceInput


@dataclass(frozen=True)
class PackedInput:
    """Packed batches, by port."""


@dataclass(frozen=True)
class KeyedInput:
    """Shuffled rows, whole keys, one after the other. Packed batches for other ports come first."""

    schemas: Mapping[int, pa.Schema]
    """Schemas of the keyed ports."""
    in_turns: bool = True
    """Whether rows of several ports come by event time, or those of one port after those of another."""


@dataclass(frozen=True)
class CombinedInput:
    """The state of windows, as senders have combined it."""


@dataclass(frozen=True)
class PackedOutput:
    """Packed batches; the port says by which edge they leave."""

    results: Mapping[int, PlannedOperator] = field(default_factory=dict)
    """The ports by which rows go to the driver, and the sinks that collect them."""
    most_bytes: int = 0
    """So much the driver can collect."""
    dealt: Mapping[int, tuple[PartitionBy, int]] = field(default_factory=dict)
    """The edges whose rows the program deals out, and over how many tasks."""


@dataclass(frozen=True)
class RowsOutput:
    """Rows for a shuffle, by the one edge there is."""

    edge: Edge
    schema: pa.Schema
    bucket_bits: int
    """Hashes are cut into 2 to the power of this number of ranges."""


@dataclass(frozen=True)
class CombinedOutput:
    """State of the windows downstream of the chain's only edge."""

    windows: PlannedOperator


@dataclass(frozen=True)
class FrameOutput:
    """Rows for the user's own DataFrame: what comes to the chain's sink."""

    schema: pa.Schema


Input: TypeAlias = SourceInput | PackedInput | KeyedInput | CombinedInput
Output: TypeAlias = PackedOutput | RowsOutput | CombinedOutput | FrameOutput


@dataclass(frozen=True)
class Task:
    """Settings that all tasks receive."""

    job: JobId
    first_attempt: int
    """Added to Spark's number of the task attempt, so that the sum was never used before."""
    parallelism: int
    max_parallelism: int
    batch_rows: int
    context: JobContext
    limits: StateConfig
    """Limits of the state of one key. Batch jobs ignore its other fields."""
    output: Output


@dataclass(frozen=True)
class ChainTask(Task):
    """Runs a chain over a partition."""

    chain: Chain
    input: Input


@dataclass(frozen=True)
class UnpackTask(Task):
    """Makes of one edge's packed batches what its shuffle takes."""

    sender: PlannedOperator
