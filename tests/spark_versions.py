"""Tests on several versions of Spark: what only some of them have."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from rheos.connectors.spark import versions


def is_since(version: str) -> bool:
    """Return whether the installed Spark is of this version, such as 4.0, or of a later one."""
    return _numbers(versions.installed()) >= _numbers(version)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")[:2]))


def needs_spark(version: str, feature: str) -> pytest.MarkDecorator:
    """Return a mark that skips a test on versions of Spark without the feature that it needs."""
    return pytest.mark.skipif(not is_since(version), reason=f"{feature}: since Spark {version}")


def frame_of(spark: Any, table: pa.Table) -> Any:
    """Return an Arrow table as a DataFrame: versions before 4.0 create none from Arrow."""
    if is_since("4.0"):
        return spark.createDataFrame(table)
    schema = from_arrow_schema(table.schema)
    rows = table.cast(to_arrow_schema(schema)).to_batches()
    return spark.range(0, 1, 1, 1).mapInArrow(lambda _: iter(rows), schema)
