"""The Yahoo streaming benchmark as a user of Structured Streaming writes it, with the same keys in
Redis: counts by campaign and window in update mode, written once a micro-batch."""

from __future__ import annotations

import tempfile
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.streaming import StreamingQuery

from benchmarks.paper.ads import SCHEMA, WINDOW_MS, campaign_of_ad
from benchmarks.paper.structured_streaming import from_kafka
from benchmarks.paper.yahoo_program import FIELD
from benchmarks.paper.yahoo_redis import connect, key_of

_FIELDS = ", ".join(f"{name} string" for name in SCHEMA.names)


def _views_by_campaign(spark: SparkSession, events: DataFrame) -> DataFrame:
    table = spark.createDataFrame(list(campaign_of_ad().items()), "ad_id string, campaign string")
    views = events.where(fn.col("event_type") == "view").select("ad_id", "event_time")
    joined = views.join(fn.broadcast(table), "ad_id")
    at = fn.col("event_time").cast("long")
    window = (at - at % WINDOW_MS).alias("window")
    return joined.groupBy("campaign", window).agg(fn.count("*").alias("views"))


def start(
    spark: SparkSession,
    brokers: str,
    topic: str,
    url: str,
    *,
    parallelism: int,
    rows_per_batch: int | None = None,
) -> StreamingQuery:
    """With `rows_per_batch` it reads what is there in such micro-batches, and ends; without, it begins
    one each second."""
    spark.conf.set("spark.sql.shuffle.partitions", str(parallelism))
    counts = _views_by_campaign(spark, from_kafka(spark, brokers, topic, _FIELDS, rows_per_batch))

    def write(batch: DataFrame, _: int) -> None:
        rows = batch.collect()
        with connect(url) as redis, redis.pipeline(transaction=False) as pipeline:
            for row in rows:
                pipeline.hset(key_of(row.campaign, row.window), FIELD, row.views)
            pipeline.execute()

    folder = tempfile.mkdtemp(prefix="rheos-yahoo-")
    writer = counts.writeStream.outputMode("update").foreachBatch(write)
    writer = writer.option("checkpointLocation", folder)
    when: dict[str, Any] = {"availableNow": True} if rows_per_batch else {"processingTime": "1 second"}
    return writer.trigger(**when).start()


def rate_per_s(query: StreamingQuery) -> float:
    """Over all micro-batches but the first, which has to compile."""
    progress = [each for each in query.recentProgress if each["numInputRows"]][1:]
    took_ms = sum(each["durationMs"]["triggerExecution"] for each in progress)
    return sum(each["numInputRows"] for each in progress) * 1000 / max(took_ms, 1)
