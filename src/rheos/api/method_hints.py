"""Names of methods, by the kind of stream that has them. Errors of other kinds of streams use them as
hints."""

from __future__ import annotations

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
