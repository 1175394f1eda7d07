"""Aggregates that SQL calls by the name of their kind: `EARLIEST(price)`.

An aggregate that is in `core.aggregates.KINDS` and sets `in_sql` is known to every query, without
anything else being registered. Functions of the SQL standard have nodes of their own (`aggregates`).
"""

from __future__ import annotations

from functools import cache
from typing import ClassVar

from sqlglot import exp

from rheos.core.aggregates import KINDS, Agg
from rheos.sql.expressions.table import Compiler, OwnCall, Typed
from rheos.sql.text import kind


class NamedAggregate(OwnCall, exp.AggFunc):
    """A call of an aggregate. Each kind has a class of its own."""

    agg: ClassVar[type[Agg]]

    def typed(self, compiler: Compiler) -> Typed:
        raise compiler.sql.error(
            f"{kind(self)} is an aggregate", self, "aggregate in the SELECT list or in HAVING"
        )


def named_aggregate(name: str) -> type[NamedAggregate] | None:
    """Return the class of the calls of an aggregate, or `None` if no kind of that name is known."""
    found = KINDS.get(name.casefold())
    return _class_of(found) if found is not None and found.in_sql else None


@cache
def _class_of(agg: type[Agg]) -> type[NamedAggregate]:
    upper = agg.kind.upper()
    return type(upper, (NamedAggregate,), {"_sql_names": [upper], "agg": agg})
