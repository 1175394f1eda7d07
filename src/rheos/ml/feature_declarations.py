"""`features`: values of an entity over event time, declared once for training and serving.

    stream ─ versions (key, features, time) ─┬─ training rows: the version valid at the time of a label
                                             └─ a view: the last version of each key

Both sides order the versions of a key by event time, and drop the same late rows. Of two versions with
the same time, both take the greater one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from rheos.api.joins import ages_of
from rheos.api.kept_views import keep_view
from rheos.api.streams import DataStream
from rheos.core.errors import ProgramError, SchemaError
from rheos.core.graph.nodes import MAIN
from rheos.core.graph.validate import check_keys, unknown_column
from rheos.core.operators.event_time_column import EventTimeColumnSpec, timed_type
from rheos.core.operators.view import ViewColumn, ViewSpec
from rheos.core.protocol.durations import Duration
from rheos.core.protocol.feature_terms import FeatureTerms, time_column
from rheos.core.safe_strings import shown
from rheos.core.site import call_site, located


@dataclass(frozen=True, eq=False)
class Features:
    """Features of an entity, which `rh.ml.features` returns.

    ```python
    print(user_spend.columns, user_spend.time)
    ```
    """

    name: str
    versions: DataStream
    """Rows with the keys, the features and the time from which they are valid."""
    keys: tuple[str, ...]
    columns: tuple[str, ...]
    """Names of the features."""
    max_age: Duration | None
    delay: Duration
    defaults: Mapping[str, Any]

    @property
    def time(self) -> str:
        """Name of the column with the event time of the values."""
        return time_column(self.name)

    def publish(self) -> None:
        """Let the job keep the newest values of each key, for look-ups by `rh.query(job).features`.

        ```python
        user_spend.publish()
        env.execute_async("shop")
        row = rh.query("shop").features("user_spend").get(user="ada")
        ```

        Values become visible when the watermark has passed them and a checkpoint contains them. Late
        values are dropped and counted, as in training.

        Raises:
            ProgramError: Features of this name are published already.
        """
        with located(call_site(), "publish"):
            _publish(self)


def features(
    name: str,
    stream: DataStream,
    keys: str | Sequence[str],
    *,
    columns: Sequence[str] | None = None,
    max_age: Duration | None = None,
    delay: Duration = "0s",
    defaults: Mapping[str, Any] | None = None,
) -> Features:
    """Declare features. Each row of the stream is a new version of the features of its key, valid from
    its event time.

    ```python
    spend = purchases.key_by("user").running(total=rh.agg.sum("amount"), n=rh.agg.count())
    user_spend = rh.ml.features(
        "user_spend", spend, keys="user", columns=["total", "n"], max_age="30d", defaults={"n": 0}
    )
    ```

    Args:
        name: Name of the features. The column `NAME_at` has the event time of the values.
        stream: The versions: a stream with event time, not a changelog.
        keys: The columns that identify the entity.
        columns: The features. By default all columns except the keys and the event time.
        max_age: Maximum time from the event time of the values to the time at which they are used,
            inclusive. Older values count as missing.
        delay: Delay with which serving sees new values. Training uses values that are at least this
            much older than the label.
        defaults: Values of features for missing and for null values: numbers, strings or booleans.

    Returns:
        The features.

    Raises:
        ProgramError: The stream has no event time or is a changelog, or an argument is invalid.
        SchemaError: A column does not exist, or a default has another type than its column.
    """
    with located(call_site(), "features"):
        if not isinstance(name, str) or not name.isidentifier():
            raise ProgramError(
                f"the name of features must be an identifier, not {shown(name)}",
                hint='write features("user_spend", ...)',
            )
        rows = _checked_versions(stream)
        key = (keys,) if isinstance(keys, str) else tuple(keys)
        check_keys(key, rows.schema)
        ages_of(max_age, delay)
        chosen = _feature_columns(rows, key, columns)
        wanted = {} if defaults is None else dict(defaults)
        _check_defaults(wanted, rows.schema, chosen)
        return Features(name, _versions(name, rows, key, chosen), key, chosen, max_age, delay, wanted)


def _publish(features: Features) -> None:
    latest = features.versions.key_by(*features.keys).dedup("last", order="event_time")
    latest = latest.name(f"latest {features.name}")
    schema = latest.schema
    columns = tuple(
        ViewColumn(name, name in features.keys, str(schema.field(name).type))
        for name in features.versions.schema.names
    )
    max_age_ms, _ = ages_of(features.max_age, features.delay)
    defaults = dict(features.defaults)
    terms = FeatureTerms(time=features.time, max_age_ms=max_age_ms, defaults=defaults)
    keep_view(features.name, latest, features.keys, ViewSpec(features.keys, columns, terms))


def _checked_versions(stream: Any) -> DataStream:
    """Check that the rows of a stream are versions. Raise ProgramError."""
    if not isinstance(stream, DataStream):
        raise ProgramError(
            f"features() takes a stream, not {shown(stream)}",
            hint="pass the stream before key_by(...), and name the keys: keys=",
        )
    if stream.transformation.type.changes is not None:
        raise ProgramError(
            "features() takes plain rows, not a changelog: a change has no time from which it is valid",
            hint="compute the features with .running(...) or with windows, instead of .table(...)",
        )
    stream.transformation.go_by_event_time("features()")
    return stream


def _feature_columns(
    stream: DataStream, keys: tuple[str, ...], columns: Sequence[str] | None
) -> tuple[str, ...]:
    schema, time = stream.schema, stream.transformation.type.time_column
    if columns is None:
        chosen = tuple(name for name in schema.names if name not in {*keys, time})
    else:
        chosen = (columns,) if isinstance(columns, str) else tuple(columns)
    for name in chosen:
        if name not in schema.names:
            raise unknown_column(name, schema, " in features()")
        if name in keys:
            raise SchemaError(
                f"the column {name!r} is a key, and cannot be a feature, too",
                hint="leave it out of columns=",
            )
    if not chosen or len({*chosen}) < len(chosen):
        raise SchemaError(
            "features() needs at least one feature, and each of them once",
            hint='name the features: columns=["total", "n"]',
        )
    return chosen


def _check_defaults(defaults: Mapping[str, Any], schema: pa.Schema, columns: Sequence[str]) -> None:
    """Check that each default fits its column exactly. Raise SchemaError."""
    for name, value in defaults.items():
        if name not in columns:
            raise SchemaError(
                f"the default {name!r} is no feature", hint=f"the features are {', '.join(columns)}"
            )
        kind = schema.field(name).type
        try:
            fits = type(value) in (bool, int, float, str) and pa.scalar(value, kind).as_py() == value
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            fits = False
        if not fits:
            raise SchemaError(
                f"the default of {name!r} is {shown(value)}, but the column is {kind}",
                hint="pass a number, a string or a boolean of the column's type",
            )


def _versions(
    name: str, stream: DataStream, keys: tuple[str, ...], columns: tuple[str, ...]
) -> DataStream:
    """Return the rows with the columns of versions alone."""
    time = stream.transformation.type.time_column
    read = [*keys, *columns, *([] if time is None else [time])]
    rows = stream.select(*dict.fromkeys(read)).transformation
    at = time_column(name)
    timed = rows.add(EventTimeColumnSpec(at), at, {MAIN: timed_type(rows.type, at)}).stream
    return timed.select(*keys, *columns, at)
