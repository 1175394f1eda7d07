"""Functions of OVER that are expressions over simpler ones, such as a rank as a share of all rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sqlglot import exp, parse_one

from rheos.sql.text import SqlText, kind
from rheos.sql.window_clauses import OverClause

_ALL_ROWS = exp.WindowSpec(
    kind="RANGE",
    start="UNBOUNDED",
    start_side="PRECEDING",
    end="UNBOUNDED",
    end_side="FOLLOWING",
)
_WITH_PEERS = exp.WindowSpec(kind="RANGE", start="UNBOUNDED", start_side="PRECEDING", end="CURRENT ROW")
_SO_FAR = exp.WindowSpec(kind="ROWS", start="UNBOUNDED", start_side="PRECEDING", end="CURRENT ROW")

_PERCENT_RANK = "CASE WHEN :all = 1 THEN 0e0 ELSE (:rank - 1) / (:all - 1) END"
_CUME_DIST = ":peers / :all"
_NTILE = (
    "CASE WHEN :row <= :all % :n * (:all DIV :n + 1) THEN (:row - 1) DIV (:all DIV :n + 1) + 1 "
    "ELSE (:row - 1 - :all % :n) DIV (:all DIV :n) + 1 END"
)
_LAG_OR_ELSE = "CASE WHEN :exists THEN :value ELSE :default END"
_VALUE_OR_ELSE = "COALESCE(:value, :default)"


@dataclass(frozen=True)
class Combination:
    """An expression over calls with OVER."""

    value: exp.Expr
    """The expression; it has a placeholder for each call."""
    calls: Mapping[str, tuple[exp.Window, OverClause]]
    """Calls by the names of their placeholders."""


def combination(sql: SqlText, call: exp.Window, clause: OverClause) -> Combination | None:
    """Return the simpler calls of which a call consists; None if it is a simple one. Raise
    ProgramError."""
    ignores_nulls = isinstance(call.this, exp.IgnoreNulls)
    of = call.this.this if isinstance(call.this, exp.IgnoreNulls | exp.RespectNulls) else call.this
    if of is not call.this and isinstance(of, exp.PercentRank | exp.CumeDist | exp.Ntile):
        raise sql.error(f"{kind(of)} has no values that are null", call, "leave out IGNORE NULLS")
    match of:
        case exp.PercentRank():
            calls = {"rank": (exp.Rank(), clause.frame), "all": (_count(), _ALL_ROWS)}
            return _combined(call, clause, _PERCENT_RANK, calls)
        case exp.CumeDist():
            calls = {"peers": (_count(), _WITH_PEERS), "all": (_count(), _ALL_ROWS)}
            return _combined(call, clause, _CUME_DIST, calls)
        case exp.Ntile():
            n = of.this
            if not isinstance(n, exp.Literal) or not n.name.isdigit() or int(n.name) < 1:
                raise sql.error("NTILE takes a constant number of groups", n or of, "write NTILE(4)")
            calls = {"row": (_count(), _SO_FAR), "all": (_count(), _ALL_ROWS)}
            return _combined(call, clause, _NTILE, calls, n=n)
        case exp.Lag() | exp.Lead() if of.args.get("default") is not None:
            default = of.args["default"]
            value = of.copy()
            value.set("default", None)
            if ignores_nulls:
                calls = {"value": (exp.IgnoreNulls(this=value), clause.frame)}
                return _combined(call, clause, _VALUE_OR_ELSE, calls, default=default)
            exists = value.copy()
            exists.set("this", exp.true())
            calls = {"value": (value, clause.frame), "exists": (exists, clause.frame)}
            return _combined(call, clause, _LAG_OR_ELSE, calls, default=default)
    return None


def _count() -> exp.Expr:
    return exp.Count(this=exp.Star())


def _combined(
    call: exp.Window,
    clause: OverClause,
    template: str,
    calls: Mapping[str, tuple[exp.Expr, exp.WindowSpec | None]],
    **operands: exp.Expr,
) -> Combination:
    """Return the expression of a template. `operands` replace further placeholders."""
    value = parse_one(template, dialect="spark")
    for each in [*value.find_all(exp.Placeholder)]:
        if each.name in operands:
            each.replace(operands[each.name].copy())
    made = {}
    for name, (of, frame) in calls.items():
        window = exp.Window(this=of)
        window.meta.update(call.meta)
        made[name] = (window, replace(clause, frame=frame))
    return Combination(value, made)
