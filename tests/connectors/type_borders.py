"""Outcomes of values of each type at each border: a format, a table, a database.

A border writes a column of one type and reads it back. The outcome says whether the type is
refused, which type the reader finds, which values are errors, and which are other values behind it.
"""

from __future__ import annotations

import datetime as dt
import math
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa

import rheos as rh
from rheos.core.connectors.contract import Sink, Source
from rheos.core.errors import InternalError, RheosError

Border: TypeAlias = Callable[[pa.Table], pa.Table]
"""Function that writes a table with the columns `n` and `v`, and returns what a reader finds. It
raises a RheosError if it refuses the type of `v` or a value."""


@dataclass(frozen=True)
class Sample:
    """Values of one type. Outcomes name them by their keys."""

    type: pa.DataType
    values: Mapping[str, Any]

    def table(self, names: Sequence[str]) -> pa.Table:
        """Return the values of these names and a null, numbered in `n`."""
        column = pa.array([*(self.values[name] for name in names), None], self.type)
        return pa.table({"n": pa.array(range(len(column)), pa.int64()), "v": column})


def _integers(kind: pa.DataType) -> Sample:
    signed = pa.types.is_signed_integer(kind)
    greatest: int = 2 ** (kind.bit_width - signed) - 1
    return Sample(kind, {"the least": -greatest - 1 if signed else 0, "the greatest": greatest})


def _floats(kind: pa.DataType) -> Sample:
    fraction = 0.1 if pa.types.is_float64(kind) else 0.5
    values = {"a fraction": fraction, "-0.0": -0.0, "NaN": math.nan, "infinity": math.inf}
    return Sample(kind, {**values, "a tiny number": 2.0**-140})


def _times(unit: str, zone: str | None) -> Sample:
    per_s = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    values = {"a second": per_s, "one unit": 1}
    if unit != "ns":
        values |= {
            "the year 1": -62_135_596_800 * per_s,
            "the year 9999": 253_402_300_799 * per_s,
            "the year 20000": 568_971_820_800 * per_s,
        }
    return Sample(pa.timestamp(unit, zone), values)


_TEXT = {"a word": "a", "an empty string": "", "emoji": "é\U0001f600", "a quote": "\"\n'", "NUL": "a\0"}
_BYTES = {"a byte": b"a", "no bytes": b"", "bytes that are not UTF-8": b"\xff\x00"}
_PAIR = pa.struct({"x": pa.int64(), "s": pa.string()})
_INTEGERS = (f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))

SAMPLES: dict[str, Sample] = {
    "bool": Sample(pa.bool_(), {"true": True, "false": False}),
    **{name: _integers(pa.type_for_alias(name)) for name in _INTEGERS},
    "float32": _floats(pa.float32()),
    "float64": _floats(pa.float64()),
    "decimal(10, 2)": Sample(pa.decimal128(10, 2), {"the least": Decimal("-99999999.99")}),
    "decimal(38, 18)": Sample(
        pa.decimal128(38, 18), {"the greatest": Decimal("9" * 20 + "." + "9" * 18)}
    ),
    "decimal(50, 2)": Sample(pa.decimal256(50, 2), {"the greatest": Decimal("9" * 48 + ".99")}),
    "string": Sample(pa.string(), _TEXT),
    "large string": Sample(pa.large_string(), _TEXT),
    "dictionary of strings": Sample(pa.dictionary(pa.int32(), pa.string()), {"a word": "a"}),
    "binary": Sample(pa.binary(), _BYTES),
    "binary of 2 bytes": Sample(pa.binary(2), {"bytes that are not UTF-8": b"\xff\x00"}),
    "UUID": Sample(
        pa.uuid(), {"one": b"\x12\x3e\x45\x67\xe8\x9b\x12\xd3\xa4\x56\x42\x66\x14\x17\x40\x00"}
    ),
    "JSON": Sample(pa.json_(), {"an object": '{"a": [1, null]}', "spaces": "[ 1 ]"}),
    "date": Sample(
        pa.date32(),
        {"the year 1": dt.date.min, "the year 9999": dt.date.max, "the year 20000": 6_585_322},
    ),
    **{
        f"time of day in {unit}": Sample(kind, {"noon": dt.time(12), "one unit": 1})
        for unit, kind in (("ms", pa.time32("ms")), ("us", pa.time64("us")), ("ns", pa.time64("ns")))
    },
    **{f"timestamp in {unit}": _times(unit, None) for unit in ("s", "ms", "us", "ns")},
    **{f"timestamp in {unit}, UTC": _times(unit, "UTC") for unit in ("s", "ms", "us", "ns")},
    "timestamp in us, Europe/Berlin": _times("us", "Europe/Berlin"),
    "duration in us": Sample(pa.duration("us"), {"a second": 10**6, "146,000 years": -(2**62)}),
    "list": Sample(pa.list_(pa.int64()), {"a list with a null": [1, None], "an empty list": []}),
    "list of lists": Sample(pa.list_(pa.list_(pa.string())), {"a list with a null": [["a"], None, []]}),
    "struct": Sample(
        _PAIR, {"a pair": {"x": 1, "s": "a"}, "a struct of nulls": {"x": None, "s": None}}
    ),
    "list of structs": Sample(pa.list_(_PAIR), {"a list": [{"x": 1, "s": "a"}, None]}),
    "vector of 2 floats": Sample(
        pa.list_(pa.float32(), 2), {"a vector": [0.5, -0.0], "NaN": [math.nan, 1.0]}
    ),
    "map of strings": Sample(
        pa.map_(pa.string(), pa.int64()), {"a map": [("a", 1), ("b", None)], "an empty map": []}
    ),
    "map of integers": Sample(pa.map_(pa.int64(), pa.string()), {"a map": [(1, "a")]}),
}


def write(rows: pa.Table, sink: Sink) -> None:
    """Write rows by a job."""
    env = rh.Environment(1, runtime="simulated")
    env.from_source(rh.collection(rows)).sink_to(sink, name="out")
    env.execute("write")


def read(source: Source) -> pa.Table:
    """Read rows by a job."""
    env = rh.Environment(1, runtime="simulated")
    env.from_source(source).collect("rows")
    return env.execute("read").collected["rows"]


def of_table(sink: Callable[[Path], Sink], source: Callable[[Path], Source]) -> Border:
    """Return the border of tables: a job writes one, and another job reads it."""

    def border(rows: pa.Table) -> pa.Table:
        with tempfile.TemporaryDirectory() as folder:
            write(rows, sink(Path(folder)))
            return read(source(Path(folder)))

    return border


def outcome(border: Border, sample: Sample) -> str:
    """Return how a type and its values cross a border, in the words of the page."""
    names = [*sample.values]
    behind = _behind(border, sample, names)
    errors: list[str] = []
    if behind is None:
        if _behind(border, sample, []) is None:
            return "refused"
        errors = [name for name in names if _behind(border, sample, [name]) is None]
        names = [name for name in names if name not in errors]
        behind = _behind(border, sample, names)
        assert behind is not None, f"values of {sample.type} cross one by one, but not together"
    told = ["kept" if behind.type == sample.type else f"as `{behind.type}`"]
    given = _comparable(sample.table(names)["v"].combine_chunks())
    for name, one, other in zip([*names, "null"], given, _comparable(behind), strict=True):
        if one != other:
            told.append(f"{name} becomes {other}")
    if errors:
        told.append(f"error: {', '.join(errors)}")
    return "; ".join(told)


def _behind(border: Border, sample: Sample, names: Sequence[str]) -> pa.Array | None:
    """Return what a reader finds, or None if the border refuses it."""
    try:
        found = border(sample.table(names))
    except InternalError:
        raise
    except RheosError:
        return None
    return found.sort_by("n")["v"].combine_chunks()


def _comparable(column: pa.Array) -> list[str]:
    """Return texts that are equal for values that mean the same in columns of unlike types."""
    kind = column.type
    if isinstance(kind, pa.BaseExtensionType):
        return _comparable(column.storage)
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind) or pa.types.is_time(kind):
        per_unit = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}[kind.unit]
        whole = column.view(pa.int32() if kind.bit_width == 32 else pa.int64()).to_pylist()
        return ["null" if each is None else str(each * per_unit) for each in whole]
    if pa.types.is_date(kind):
        return _comparable(column.cast(pa.date32()).view(pa.int32()))
    values = column.to_pylist()
    return [
        str(each) if isinstance(each, Decimal) else repr(each).replace("None", "null")
        for each in values
    ]
