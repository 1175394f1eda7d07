"""A plan as DataFrames that nothing has run yet: for the user's own queries, and for `explain`."""

from __future__ import annotations

import dataclasses
import time
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.storagelevel import StorageLevel

from rheos.core.operators.sink import SinkSpec
from rheos.core.plan.physical import Chain, PhysicalPlan
from rheos.core.protocol.ids import JobId
from rheos.core.protocol.state_config import StateConfig
from rheos.runtimes.batch.bounded_plans import bounded_plan
from rheos.runtimes.batch.dataframes import FRAME_EDGE, Translation
from rheos.runtimes.batch.execution import session_for
from rheos.runtimes.batch.results import PlanWithHandedRows, handed_over, passing
from rheos.runtimes.batch.shared_reads import with_shared_reads

_JOB = JobId("dataframe")


def to_dataframe(
    session: SparkSession,
    plan: PhysicalPlan,
    *,
    batch_rows: int = 16_384,
    limits: StateConfig | None = None,
) -> DataFrame:
    """Return the rows that reach the plan's one sink, as a DataFrame of the user's own session.

    The plan ends in exactly one sink operator, which is never opened: it marks the place where the rows
    leave. The DataFrame has the columns `connectors.spark.spark_types.spark_schema` of the visible
    columns there. Nothing runs before the DataFrame is read, with one exception: rows that several
    branches of the program read are computed once and kept (`localCheckpoint`) as long as the DataFrame
    is in use. If they are downstream of a shuffle, Spark runs that shuffle now. The message of Spark's
    exception contains the error of a task, with its place in the user's code.

    Raises:
        ConfigurationError: a source never ends.
    """
    plan = _open_ended(bounded_plan(plan))
    [(_, frame)] = Translation(
        session=session,
        handed=PlanWithHandedRows(plan, {}),
        job=_JOB,
        first_attempt=time.time_ns() // 1_000_000_000 * 1_000_000,
        batch_rows=batch_rows,
        limits=limits or StateConfig(),
        # Spark keeps a cached DataFrame until it is unpersisted; a checkpoint is removed with its
        # readers.
        keep=lambda _, frame: frame.localCheckpoint(eager=False),
        readable_errors=True,
    ).ends()
    return frame


def explained(session: SparkSession, plan: PhysicalPlan) -> str:
    """Return Spark's own plans of a batch job, as `DataFrame.explain` prints them: one for each chain
    that ends in sinks. Run nothing. Raise ConfigurationError for a source that never ends."""
    kept: list[DataFrame] = []

    def keep(_: Chain, frame: DataFrame) -> DataFrame:
        # `persist` only marks the plan, as nothing is run.
        kept.append(frame.persist(StorageLevel.MEMORY_AND_DISK))
        return kept[-1]

    handed = handed_over(with_shared_reads(bounded_plan(plan)))
    translation = Translation(session_for(session), handed, _JOB, 0, 1, keep)
    try:
        return "\n".join(
            f"Spark's plan of chain {chain.id}: {chain.name}\n{_explain(frame)}"
            for chain, frame in translation.ends()
        )
    finally:
        for frame in kept:
            frame.unpersist()


def _explain(frame: DataFrame) -> str:
    jvm: Any = frame.sparkSession._jvm
    return str(jvm.PythonSQLUtils.explainString(frame._jdf.queryExecution(), "formatted"))


def _open_ended(plan: PhysicalPlan) -> PhysicalPlan:
    """Return the plan without its sink: the sink's rows leave the plan."""
    sinks = [operator for operator in plan.operators() if isinstance(operator.spec, SinkSpec)]
    assert len(sinks) == 1, "a DataFrame belongs to one stream"
    return dataclasses.replace(plan, chains=tuple(_without_sink(chain) for chain in plan.chains))


def _without_sink(chain: Chain) -> Chain:
    last = chain.operators[-1]
    if not isinstance(last.spec, SinkSpec):
        return chain
    return dataclasses.replace(chain, operators=(*chain.operators[:-1], passing(last, FRAME_EDGE)))
