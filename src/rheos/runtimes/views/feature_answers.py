"""Features from the rows of a view: one answer for each key, with defaults for what is missing.

    key ─ row of the view ─ younger than the maximum age? ─ yes: fresh, its values
                                                          └ no:  stale, the defaults
        └ no row: missing, the defaults

Ages are compared in whole ms, as in the join that makes rows for training.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import msgspec
import polars as pl
import pyarrow as pa

from rheos.core.errors import ConfigurationError
from rheos.core.protocol.feature_terms import ASKED_AT, FeatureTerms, status_column
from rheos.core.protocol.moments import moment_ms, parsed_moment
from rheos.core.safe_strings import shown
from rheos.runtimes.views.values import key_values

MAX_KEYS = 1_000
"""Maximum number of keys of one request."""

_NUMBER = "__number"


def asked_ms(at: str | None) -> int:
    """Return a time in ISO 8601 in ms since the epoch; the current time for None. Raise
    ConfigurationError if it is invalid."""
    if at is None:
        return time.time_ns() // 1_000_000
    try:
        return moment_ms(parsed_moment(at))
    except ValueError:
        raise ConfigurationError(
            f"{shown(at)} is not a time", hint="pass a time such as 2026-03-01T09:30:00Z"
        ) from None


def keys_of(view: str, written: str, columns: Mapping[str, pa.DataType]) -> pa.Table:
    """Return the keys of a request, in its order.

    Args:
        view: Name of the features, for errors.
        written: JSON array of keys. A key is its value; or, with several columns, an array or object.
        columns: Columns of the key with their types.

    Raises:
        ConfigurationError: The string is not such an array, or a key does not fit.
    """
    try:
        keys = msgspec.json.decode(written, type=list)
    except (msgspec.DecodeError, RecursionError):
        raise ConfigurationError(
            f"{shown(written)} is not a list of keys",
            hint='pass a JSON array such as \'["ada", "bo"]\'',
        ) from None
    if not 1 <= len(keys) <= MAX_KEYS:
        raise ConfigurationError(
            f"a look-up has from 1 to {MAX_KEYS} keys, not {len(keys)}", hint="ask several times"
        )
    rows = [
        key_values(f"the view {view!r}", msgspec.json.encode(_with_brackets(key)).decode(), columns)
        for key in keys
    ]
    by_column = zip(*rows, strict=True)
    arrays = [
        pa.array([value.as_py() for value in values], kind)
        for values, kind in zip(by_column, columns.values(), strict=True)
    ]
    return pa.table(arrays, names=[*columns])


def _with_brackets(key: object) -> object:
    return key if isinstance(key, list | dict) else [key]


def feature_rows(
    features: str, keys: pa.Table, rows: pa.Table, terms: FeatureTerms, asked_ms: int
) -> pa.Table:
    """Return a row for each key: its columns, the features, their time, status and `asked_at`.

    Args:
        features: Name of the features.
        keys: The keys, in the order of the answer. They may repeat.
        rows: Rows of the view with these keys, at most one for each key.
        terms: Terms of the features.
        asked_ms: Time of the look-up, in ms since the epoch.
    """
    values = [name for name in rows.column_names if name not in {*keys.column_names, terms.time}]
    asked = pl.DataFrame(pl.from_arrow(keys)).with_row_index(_NUMBER)
    known = pl.DataFrame(pl.from_arrow(rows))
    found = asked.join(known, on=keys.column_names, how="left").sort(_NUMBER)
    since_ms = pl.col(terms.time).dt.epoch("ms")
    stale = pl.lit(False)
    if terms.max_age_ms is not None:
        stale = asked_ms - since_ms > terms.max_age_ms
    status = (
        pl.when(pl.col(terms.time).is_null())
        .then(pl.lit("missing"))
        .when(stale)
        .then(pl.lit("stale"))
        .otherwise(pl.lit("fresh"))
    )
    found = found.with_columns(status.cast(pl.String).alias(status_column(features)))
    fresh = pl.col(status_column(features)) == "fresh"
    answers = found.select(
        *keys.column_names,
        *(_filled(name, terms, fresh, found.schema[name]) for name in values),
        terms.time,
        status_column(features),
        pl.lit(asked_ms).cast(pl.Datetime("ms", "UTC")).alias(ASKED_AT),
    ).to_arrow()
    return answers.cast(_schema(features, keys, rows, [*values, terms.time]))


def _filled(name: str, terms: FeatureTerms, fresh: pl.Expr, kind: pl.DataType) -> pl.Expr:
    """Return a feature, which is its default or null if it is missing."""
    value: pl.Expr = pl.when(fresh).then(pl.col(name))
    if name in terms.defaults:
        value = value.fill_null(pl.lit(terms.defaults[name], dtype=kind))
    return value.alias(name)


def _schema(features: str, keys: pa.Table, rows: pa.Table, names: Sequence[str]) -> pa.Schema:
    return pa.schema(
        [
            *keys.schema,
            *(pa.field(name, rows.schema.field(name).type) for name in names),
            pa.field(status_column(features), pa.string()),
            pa.field(ASKED_AT, pa.timestamp("ms", "UTC")),
        ]
    )
