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
    """Shuffled rows, one whole key after the other. Packed batches for other ports come first."""

    schemas: Mapping[int, pa.Schema]
    """Schemas of the keyed ports."""
    in_turns: bool = True
    """Whether rows of several ports are delivered by event time, or port by port."""


@dataclass(frozen=True)
class CombinedInput:
    """The state of windows, as senders have combined it."""


@dataclass(frozen=True)
class PackedOutput:
    """Packed batches. The port identifies the edge by which they leave."""

    results: Mapping[int, PlannedOperator] = field(default_factory=dict)
    """The collecting sinks, by the ports of their rows."""
    most_bytes: int = 0
    """Maximum size in bytes of the rows that the driver can collect."""
    custom: Mapping[int, tuple[PartitionBy, int]] = field(default_factory=dict)
    """The edges whose rows the program distributes, each with its function and the number of tasks."""


@dataclass(frozen=True)
class RowsOutput:
    """Rows for a shuffle, which leave by the chain's only edge."""

    edge: Edge
    schema: pa.Schema
    bucket_bits: int
    """Number of bits: hashes are divided into 2 to the power of this number of ranges."""


@dataclass(frozen=True)
class CombinedOutput:
    """State of the windows downstream of the chain's only edge."""

    windows: PlannedOperator


@dataclass(frozen=True)
class FrameOutput:
    """Rows for the user's own DataFrame: those that reach the chain's sink."""

    schema: pa.Schema


Input: TypeAlias = SourceInput | PackedInput | KeyedInput | CombinedInput
Output: TypeAlias = PackedOutput | RowsOutput | CombinedOutput | FrameOutput


@dataclass(frozen=True)
class Task:
    """Settings that all tasks receive."""

    job: JobId
    first_attempt: int
    """Number added to Spark's number of the task attempt, so that the sum is unique."""
    parallelism: int
    max_parallelism: int
    batch_rows: int
    context: JobContext
    limits: StateConfig
    """Limits of the state of one key. Batch jobs ignore its other fields."""
    output: Output


@dataclass(frozen=True)
class ChainTask(Task):
    """A task that runs a chain over a partition."""

    chain: Chain
    input: Input


@dataclass(frozen=True)
class UnpackTask(Task):
    """A task that converts one edge's packed batches for its shuffle."""

    sender: PlannedOperator
