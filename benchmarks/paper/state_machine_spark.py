"""The state machine as a user of Structured Streaming writes it: a Python function with state, and the
same topics. `state_machine.py` runs it until it is asked to end (SIGTERM).

usage: python -m benchmarks.paper.state_machine_spark BROKERS SOURCE TARGET FOLDER
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

from benchmarks.paper.structured_streaming import from_kafka, session
from rheos.cli.benchmarks.state_machine import INITIAL, RULES

CORES = 2
_EVENT = "user long, number long, kind string"
_ALERT = "user long, number long, state string, kind string, there_ms long"


def validate(
    key: tuple[int], batches: Iterator[pd.DataFrame], state: GroupState
) -> Iterator[pd.DataFrame]:
    """Called for each user that a micro-batch has events of."""
    at = state.get[0] if state.exists else INITIAL
    alerts: list[tuple[Any, ...]] = []
    for batch in batches:
        for event in batch.sort_values("number").itertuples(index=False):
            following = RULES.get((at, event.kind))
            if following is None:
                alerts.append((key[0], event.number, at, event.kind, event.there_ms))
            at = following or INITIAL
    state.update((at,))
    yield pd.DataFrame(alerts, columns=["user", "number", "state", "kind", "there_ms"])


def alerts(spark: SparkSession, brokers: str, topic: str) -> DataFrame:
    read = from_kafka(spark, brokers, topic, _EVENT, None, "timestamp")
    events = read.withColumn("there_ms", fn.unix_millis("timestamp")).drop("timestamp")
    return events.groupBy("user").applyInPandasWithState(
        validate, _ALERT, "state string", "append", GroupStateTimeout.NoTimeout
    )


def main() -> None:
    brokers, source, target, folder = sys.argv[1:]
    asked_to_end = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: asked_to_end.set())
    spark = session(CORES, kafka=True)
    spark.conf.set("spark.sql.shuffle.partitions", str(CORES))
    rows = alerts(spark, brokers, source)
    given = rows.select(
        fn.col("user").cast("string").alias("key"), fn.to_json(fn.struct("*")).alias("value")
    )
    writer = given.writeStream.format("kafka").option("kafka.bootstrap.servers", brokers)
    writer = writer.option("topic", target).option("checkpointLocation", folder)
    query = writer.outputMode("append").start()
    print("runs", flush=True)
    while query.isActive and not asked_to_end.wait(0.2):
        pass
    error = query.exception()
    if error is not None:
        raise error
    query.stop()


if __name__ == "__main__":
    main()
