"""Checkpoints whose operators are unknown are refused, with the way to describe them."""

from __future__ import annotations

from unittest.mock import MagicMock

import pytest

from rheos.core.errors import CheckpointError
from rheos.ops.migration.spark_checkpoint import SparkCheckpoint
from rheos.ops.migration.spark_state import state_operators


def test_a_checkpoint_without_descriptions_of_operators_is_refused() -> None:
    spark = MagicMock()
    spark.read.format.return_value.load.return_value.collect.return_value = []
    checkpoint = SparkCheckpoint("/kept", 0, [], 0, 0, has_state=True)
    with pytest.raises(CheckpointError, match="has no description of its operators") as refused:
        state_operators(spark, checkpoint)
    assert "run the query on Spark 4 until it has committed a batch" in str(refused.value)
