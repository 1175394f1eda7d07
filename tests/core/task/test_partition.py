"""Partitioning by hash: complete, in order, and by the owners of the key groups."""

from __future__ import annotations

from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rheos.core.errors import InputError, Site
from rheos.core.state.key_groups import key_groups, subtask_of
from rheos.core.task import partition
from rheos.core.task.partition import Partitioner


def batch_of(keys: list[int]) -> pa.RecordBatch:
    return pa.record_batch(
        {
            "k": pa.array(keys, pa.int64()),
            "name": pa.array([None if key % 3 == 0 else f"n{key}" for key in keys], pa.string()),
            "view": pa.array([f"view of {key}" for key in keys], pa.string_view()),
            "tags": pa.array([[key] * (key % 3) for key in keys], pa.list_(pa.int64())),
            "__ts": pa.array(range(len(keys)), pa.int64()),
        }
    )


KEYS = st.lists(st.integers(0, 20), max_size=60)


@given(
    KEYS,
    st.sampled_from([1, 2, 3, 5, 8]),
    st.sampled_from([8, 100, 128]),
    st.integers(0, 5),
    st.booleans(),
)
def test_each_row_goes_to_its_owner_once_and_in_order(
    keys: list[int], parallelism: int, max_parallelism: int, skip: int, many: bool
) -> None:
    batch = batch_of(keys).slice(min(skip, len(keys)))
    owners = subtask_of(key_groups(batch, ["k"], max_parallelism), parallelism, max_parallelism)
    with patch.object(partition, "SEARCH_FROM_ROWS", 0 if many else len(keys) + 1):
        parts = Partitioner(["k"], parallelism, max_parallelism).split(batch)
    assert len(parts) == parallelism
    rows = batch.to_pylist()
    for subtask, part in enumerate(parts):
        expected = [row for row, owner in zip(rows, owners, strict=True) if owner == subtask]
        if part is None:
            assert not expected
        else:
            assert part.to_pylist() == expected
            assert part.schema == batch.schema
            part.validate(full=True)


def test_a_batch_of_one_key_is_passed_unchanged() -> None:
    batch = batch_of([7] * 10)
    parts = Partitioner(["k"], 4, 128).split(batch)
    assert [part for part in parts if part is not None] == [batch]


def test_several_columns_form_a_key() -> None:
    batch = batch_of([1, 2, 3, 1, 2, 3])
    parts = [part for part in Partitioner(["k", "view"], 3, 128).split(batch) if part is not None]
    homes = [set(part.column("k").to_pylist()) for part in parts]
    assert sum(len(home) for home in homes) == 3


def test_a_null_key_names_column_and_record() -> None:
    batch = batch_of([1, 2, 3, 4])
    with pytest.raises(InputError) as caught:
        Partitioner(["k", "name"], 2, 128, Site("job.py", 4)).split(batch)
    error = caught.value
    assert (error.site, error.operator) == (Site("job.py", 4), "key_by")
    assert error.what == "the key column 'name' is null"
    assert error.record is not None
    assert "'k': 3" in error.record
    assert "__ts" not in error.record
    assert error.hint is not None
    assert "key_by" in error.hint
