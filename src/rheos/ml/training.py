"""`training_rows`: labels with the features that were known at their time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl
import pyarrow as pa

from rheos.api.streams import DataStream
from rheos.core.errors import ProgramError, SchemaError
from rheos.core.graph.validate import unknown_column
from rheos.core.safe_strings import shown
from rheos.core.site import call_site, located
from rheos.ml.feature_declarations import Features


def training_rows(labels: DataStream, features: Features | Sequence[Features]) -> DataStream:
    """Add to each label the features that were valid at its event time.

    A row gets the last version of its key whose time is at or before the time of the label, less the
    delay of the features. Of two versions with the same time the greater one is valid, compared column
    by column.

    ```python
    rows = rh.ml.training_rows(labels, [user_spend, shop_risk])
    rows.sink_to(rh.files.sink("training/", format="parquet"))
    env.execute("training")
    ```

    Args:
        labels: The labels, with event time and with the keys of the features.
        features: The features, from the environment of the labels.

    Returns:
        The labels, each once, with the features and their times (`NAME_at`, null without a valid
        version). Late labels are missing: they are counted as `late`.

    Raises:
        ProgramError: The labels have no event time, or `features` are not of their environment.
        SchemaError: The labels lack a key, or two columns would have one name.
    """
    with located(call_site(), "training_rows"):
        chosen = [features] if isinstance(features, Features) else list(features)
        if not isinstance(labels, DataStream):
            raise ProgramError(
                f"training_rows() takes a stream of labels, not {shown(labels)}",
                hint="read them with env.from_source(...) or env.from_dataframe(...)",
            )
        if not chosen or not all(isinstance(each, Features) for each in chosen):
            raise ProgramError(
                "training_rows() takes the results of rh.ml.features",
                hint="write training_rows(labels, [user_spend])",
            )
        rows = labels
        for each in chosen:
            rows = _with_features(rows, each)
        return rows


def _with_features(rows: DataStream, features: Features) -> DataStream:
    for key in features.keys:
        if key not in rows.schema.names:
            raise unknown_column(key, rows.schema, f": it is a key of the features {features.name!r}")
    added = (*features.columns, features.time)
    if taken := [name for name in added if name in rows.schema.names]:
        raise SchemaError(
            f"the rows already have a column {taken[0]!r}, and the features {features.name!r} add one",
            hint="rename or drop the column of the labels; or rename the feature before features()",
        )
    joined = rows.key_by(*features.keys).temporal_join(
        features.versions.key_by(*features.keys),
        "left",
        max_age=features.max_age,
        delay=features.delay,
    )
    joined = joined.name(f"features {features.name}")
    if not features.defaults:
        return joined
    filled = {
        name: pl.col(name).fill_null(_literal(value, joined.schema.field(name).type))
        for name, value in features.defaults.items()
    }
    return joined.with_columns(**filled)


def _literal(value: Any, kind: pa.DataType) -> pl.Expr:
    """Return a default as an expression of exactly the type of its column."""
    values = pl.from_arrow(pa.array([value], kind))
    assert isinstance(values, pl.Series)
    return pl.lit(value, dtype=values.dtype)
