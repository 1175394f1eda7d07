"""Statistics of a data file, as a manifest has them, from the footer of the Parquet file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow.parquet as pq

from rheos.connectors.iceberg.library import library


def file_statistics(
    footer: pq.FileMetaData, schema: Any, settings: dict[str, str]
) -> dict[str, object]:
    """Return the number of rows, and the bounds and sizes of columns.

    Args:
        footer: The footer of the file.
        schema: The table's schema, of PyIceberg.
        settings: The table's properties, which say how much is known of each column.
    """
    files = library("io.pyarrow")
    plan = files.compute_statistics_plan(schema, settings)
    ids = files.parquet_path_to_id_mapping(schema)
    counts = files.MetricsMode(files.MetricModeTypes.COUNTS)
    for path in _without_python_bounds(footer):
        plan[ids[path]] = replace(plan[ids[path]], mode=counts)
    statistics = files.data_file_statistics_from_parquet_metadata(footer, plan, ids)
    return dict(statistics.to_serialized_dict())


def _without_python_bounds(footer: pq.FileMetaData) -> Iterator[str]:
    """Yield the columns with a bound that Python has no date for, such as one in the year 20000."""
    for group in range(footer.num_row_groups):
        for at in range(footer.num_columns):
            column = footer.row_group(group).column(at)
            try:
                if column.is_stats_set and column.statistics.has_min_max:
                    _ = column.statistics.min, column.statistics.max
            except (OverflowError, ValueError):
                yield column.path_in_schema
