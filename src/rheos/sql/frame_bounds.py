"""Frames of OVER: ROWS and RANGE between two bounds."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Any

import polars as pl
from sqlglot import exp

from rheos.core.operators.over.moving_frames import FrameSpec
from rheos.sql import types
from rheos.sql.expressions.intervals import interval_of
from rheos.sql.ranking import OrderTerm
from rheos.sql.text import SqlText


def frame(sql: SqlText, spec: exp.Expr | None, orders: Sequence[OrderTerm]) -> FrameSpec:
    """Return a frame of rows in some order; without one, of all rows. Raise ProgramError."""
    desc = bool(orders) and orders[0].desc
    if spec is None:
        return FrameSpec(not orders, None, desc, following=0 if orders else None)
    _check_form(sql, spec)
    by_rows = spec.args.get("kind") == "ROWS"
    begin, end = _offset(sql, spec, "start", orders), _offset(sql, spec, "end", orders)
    begins_last = begin is None and spec.args.get("start_side") == "FOLLOWING"
    ends_first = end is None and spec.args.get("end_side") == "PRECEDING"
    if begins_last or ends_first or (begin is not None and end is not None and begin > end):
        raise sql.error("the frame begins after its end", spec, "exchange both bounds")
    has_bound = begin is not None or end is not None
    if has_bound and not orders:
        raise sql.error(
            "a frame needs ORDER BY", spec, "add ORDER BY; or leave out the frame, which is all rows"
        )
    # A frame of all rows is the same by rows.
    by_rows = by_rows or not has_bound
    return FrameSpec(by_rows, None if begin is None else -begin, desc, end)


def _check_form(sql: SqlText, spec: exp.Expr) -> None:
    sql.only(spec, ("kind", "start", "start_side", "end", "end_side", "exclude"), " of a frame")
    if spec.args.get("kind") == "GROUPS":
        raise sql.error(
            "a frame by GROUPS is not computed",
            spec,
            "write RANGE, whose bounds are distances; or ROWS, whose bounds are numbers of rows",
        )
    exclude = spec.args.get("exclude")
    if exclude is not None and exclude.name.upper() != "NO OTHERS":
        raise sql.error(
            f"EXCLUDE {exclude.name.upper()} is not computed",
            exclude,
            "end the frame before the row: ROWS BETWEEN 3 PRECEDING AND 1 PRECEDING; or subtract "
            "the row's own value, as in SUM(x) OVER (...) - x",
        )


def _offset(sql: SqlText, spec: exp.Expr, which: str, orders: Sequence[OrderTerm]) -> Any:
    """Return a bound of a frame as the number of rows, or the distance, after the row; negative before
    it; None if it is unbounded."""
    bound = spec.args.get(which)
    if bound in (None, "CURRENT ROW"):
        return 0
    if bound == "UNBOUNDED":
        return None
    distance = _rows(sql, bound) if spec.args.get("kind") == "ROWS" else _distance(sql, bound, orders)
    return distance if spec.args.get(f"{which}_side") == "FOLLOWING" else -distance


def _rows(sql: SqlText, bound: exp.Expr) -> int:
    if not isinstance(bound, exp.Literal) or not str(bound.this).isdigit():
        raise sql.error(
            "ROWS takes an integer number of rows",
            bound,
            "write SUM(price) OVER (PARTITION BY auction ORDER BY ts ROWS BETWEEN 9 PRECEDING AND "
            "CURRENT ROW)",
        )
    return int(bound.this)


def _distance(sql: SqlText, bound: exp.Expr, orders: Sequence[OrderTerm]) -> Any:
    """Return a distance in the unit of the column that `sorted_by` makes: µs, days, or that of a
    number."""
    if len(orders) != 1:
        raise sql.error("RANGE with a distance takes one expression in ORDER BY", bound, "write ROWS")
    kind = types.signed(orders[0].value.type)
    if types.is_timestamp(kind) or kind == types.DATE:
        unit = timedelta(days=1) if kind == types.DATE else timedelta(microseconds=1)
        length = interval_of(sql, bound) if isinstance(bound, exp.Interval) else None
        if isinstance(length, timedelta) and not length % unit:
            return length // unit
        raise sql.error(
            "RANGE takes an interval of days or less from the time of ORDER BY"
            if unit < timedelta(days=1)
            else "RANGE takes an interval of days from the date of ORDER BY",
            bound,
            "write RANGE BETWEEN INTERVAL '1' DAY PRECEDING AND CURRENT ROW",
        )
    number = Decimal(bound.name) if isinstance(bound, exp.Literal) and bound.is_number else None
    if number is not None and types.is_integer(kind) and not number % 1:
        return int(number)
    if number is not None and types.is_floating(kind):
        return float(number)
    if number is not None and isinstance(kind, pl.Decimal):
        scaled = number.scaleb(kind.scale)
        if orders[0].number() is not None and not scaled % 1:
            return int(scaled)
    raise sql.error(
        f"RANGE takes a constant distance from ORDER BY, which is {types.name(kind)} here",
        bound,
        "write ROWS; or order by a time, and write INTERVAL '1' HOUR PRECEDING",
    )
