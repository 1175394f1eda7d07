"""Rows with which operators are tested: a key, a value, and an event time in milliseconds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

SCHEMA = pa.schema([("k", pa.string()), ("v", pa.int64()), ("at", pa.int64())])


@dataclass
class Row:
    k: str
    v: int
    at: int


def row(k: str, v: int, at: int) -> dict[str, Any]:
    return {"k": k, "v": v, "at": at}


def values(rows: Iterable[Mapping[str, Any]], *names: str) -> list[tuple[Any, ...]]:
    """Return these columns of the rows, sorted."""
    return sorted(tuple(row[name] for name in names) for row in rows)
