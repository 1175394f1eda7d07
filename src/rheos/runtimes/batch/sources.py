"""Where the rows of a batch job's sources come from, as Spark sees it."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from rheos.graph.nodes import SourceSpec
from rheos.plan.physical import Chain, PhysicalPlan
from rheos.runtimes.batch.source_input import SourceInput, SplitInput


@dataclass(frozen=True)
class SourceFrame:
    """What the chain of a source is mapped over."""

    frame: DataFrame
    feed: SourceInput


def source_frame(session: SparkSession, plan: PhysicalPlan, chain: Chain) -> SourceFrame:
    """The input of a chain whose head is a source; nothing is read yet. Raises InputError."""
    spec = chain.operators[0].spec
    assert isinstance(spec, SourceSpec)
    feed = SplitInput(tuple(spec.source.splits()))
    return SourceFrame(session.range(0, len(feed.splits), 1, max(1, len(feed.splits))), feed)
