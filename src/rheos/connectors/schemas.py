"""What the connectors share about schemas and times."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rheos.errors import SchemaError
from rheos.protocol.types import schema_of

_UNIT_NS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
_DAY_NS = 86_400_000_000_000


def resolve(schema: Any) -> tuple[pa.Schema, type | None]:
    """The Arrow schema of a dataclass (which is returned too), or of what is one already."""
    if isinstance(schema, pa.Schema):
        return schema, None
    if isinstance(schema, type):
        return schema_of(schema), schema
    raise SchemaError(
        f"{schema!r} is not a schema",
        hint="give a dataclass, or a pyarrow.Schema, that describes a row",
    )


def is_time(type_: pa.DataType) -> bool:
    """Whether a column of the type can say when a row happened: timestamp, date, or int of ms."""
    return bool(pa.types.is_timestamp(type_) or pa.types.is_date(type_) or pa.types.is_integer(type_))


def epoch_ms(times: pa.Array) -> npt.NDArray[np.int64]:
    """Times (see `is_time`) in ms since the epoch, rounded down. Where a time is null, any number."""
    return _scaled(times, 1_000_000)


def epoch_us(times: pa.Array) -> npt.NDArray[np.int64]:
    """Times (see `is_time`) in us since the epoch, rounded down. Where a time is null, any number."""
    return _scaled(times, 1_000)


def _scaled(times: pa.Array, unit_ns: int) -> npt.NDArray[np.int64]:
    type_ = times.type
    given_ns = 1_000_000
    if pa.types.is_timestamp(type_):
        given_ns = _UNIT_NS[type_.unit]
    elif pa.types.is_date32(type_):
        given_ns = _DAY_NS
    if not pa.types.is_integer(type_):
        times = times.view(pa.int32() if pa.types.is_date32(type_) else pa.int64())
    if times.null_count:
        times = times.fill_null(0)
    values: npt.NDArray[np.int64] = times.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    if given_ns > unit_ns:
        return values * (given_ns // unit_ns)
    if given_ns < unit_ns:
        return values // (unit_ns // given_ns)
    return values


def shorten(text: str, limit: int = 200) -> str:
    """Text that fits into an error message."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
