"""Methods called on a stream of another kind: what to do, instead of an AttributeError."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn

from rheos.core.errors import ProgramError
from rheos.core.site import call_site

OF_KEYED = (
    "process",
    "reduce",
    "running",
    "table",
    "dedup",
    "top_n",
    "window",
    "interval_join",
    "temporal_join",
    "join",
    "window_join",
    "co_group",
    "detect",
)
OF_ANY = (
    "filter",
    "select",
    "with_columns",
    "map",
    "flat_map",
    "map_batches",
    "with_event_time",
    "union",
    "key_by",
    "sink_to",
    "print",
    "collect",
)
OF_OPERATORS = {
    name: f"it configures an operator: call it after one, as in .running(n=rh.agg.count()).{name}(...)"
    for name in ("name", "uid", "set_parallelism")
}


def no_such_method(owner: object, kind: str, name: str, hints: Mapping[str, str]) -> NoReturn:
    """Raises a ProgramError with a hint for a method of another kind of stream, and otherwise what
    Python raises for an attribute that is not there."""
    if name in hints:
        raise ProgramError(f"{kind} has no {name}()", site=call_site(), hint=hints[name])
    raise AttributeError(f"{type(owner).__name__!r} object has no attribute {name!r}")
