"""Times in other zones: AT TIME ZONE, FROM_UTC_TIMESTAMP and similar functions."""

from __future__ import annotations

from functools import partial

import polars as pl
from sqlglot import exp

from rheos.core.graph.row_functions import of_columns
from rheos.sql import types
from rheos.sql.expressions.table import (
    CONSTANT_TEXT,
    MOMENT,
    TEXT,
    Compiler,
    Takes,
    Typed,
    computes,
    computes_named,
)
from rheos.sql.text_times import is_zone, local_times, utc_times

_LOCAL = pl.Datetime("us")
_NAIVE = Takes("a TIMESTAMP_NTZ", types.is_timestamp, _LOCAL)


def zone_name(compiler: Compiler, value: Typed) -> str:
    """Return the name of a time zone. Raise ProgramError if it is unknown."""
    if not isinstance(value.constant, str) or not is_zone(value.constant):
        raise compiler.sql.error(
            "this is not the constant name of a time zone",
            value.node,
            "write 'Europe/Berlin', 'UTC' or '+02:00'",
        )
    return value.constant


def in_zone(moment: pl.Expr, zone: str) -> pl.Expr:
    """Return what clocks of a zone show at a time, as TIMESTAMP_NTZ."""
    micros = types.dated(moment, types.TIMESTAMP).dt.epoch("us")
    made = of_columns(partial(local_times, zone=zone), [micros], types.BIGINT)
    return made.cast(_LOCAL)


def of_zone(local: pl.Expr, zone: str) -> pl.Expr:
    """Return the time at which clocks of a zone show a TIMESTAMP_NTZ."""
    micros = types.dated(local, _LOCAL).dt.epoch("us")
    made = of_columns(partial(utc_times, zone=zone), [micros], types.BIGINT)
    return types.moment(made)


@computes_named("from_utc_timestamp", "to_utc_timestamp")
def shifted(compiler: Compiler, node: exp.Anonymous) -> Typed:
    """Compile FROM_UTC_TIMESTAMP and TO_UTC_TIMESTAMP, which return TIMESTAMP, as Spark has them."""
    moment, name = compiler.given(node, [MOMENT, CONSTANT_TEXT])
    zone = zone_name(compiler, name)
    if node.name.casefold().startswith("from"):
        return Typed(in_zone(moment.expr, zone).dt.replace_time_zone("UTC"), types.TIMESTAMP, node)
    return Typed(of_zone(moment.expr.dt.replace_time_zone(None), zone), types.TIMESTAMP, node)


@computes(exp.AtTimeZone)
def at_time_zone(compiler: Compiler, node: exp.AtTimeZone) -> Typed:
    """Compile ts AT TIME ZONE 'z': of a TIMESTAMP what clocks show there, as TIMESTAMP_NTZ; of a
    TIMESTAMP_NTZ the TIMESTAMP at which they show it.
    """
    compiler.sql.only(node, ("this", "zone"))
    value = compiler.compile(node.this)
    zone = zone_name(compiler, compiler.compile(node.args["zone"]))
    if not types.is_timestamp(value.type):
        raise compiler.wrong_type(
            "AT TIME ZONE takes a TIMESTAMP", value, "write CAST(... AS TIMESTAMP)", at=node
        )
    if isinstance(value.type, pl.Datetime) and value.type.time_zone is None:
        return Typed(of_zone(compiler.cast(value, _LOCAL).expr, zone), types.TIMESTAMP, node)
    return Typed(in_zone(compiler.cast(value, types.TIMESTAMP).expr, zone), _LOCAL, node)


@computes_named("convert_timezone")
def convert_timezone(compiler: Compiler, node: exp.Anonymous) -> Typed:
    """Compile CONVERT_TIMEZONE([from,] to, ts) of TIMESTAMP_NTZ. Without `from` it is UTC."""
    takes = [CONSTANT_TEXT] * (2 if len(node.expressions) == 3 else 1)
    *names, local = compiler.given(node, [*takes, _NAIVE])
    source, target = ("UTC", *(zone_name(compiler, name) for name in names))[-2:]
    return Typed(in_zone(of_zone(local.expr, source), target), _LOCAL, node)


@computes_named("convert_tz")
def convert_tz(compiler: Compiler, node: exp.Anonymous) -> Typed:
    """Compile Flink's CONVERT_TZ(string, from, to), which returns a string."""
    text, *names = compiler.given(node, [TEXT, CONSTANT_TEXT, CONSTANT_TEXT])
    source, target = (zone_name(compiler, name) for name in names)
    made = in_zone(of_zone(compiler.cast(text, _LOCAL).expr, source), target)
    return Typed(made.dt.strftime("%Y-%m-%d %H:%M:%S"), types.TEXT, node)
